"""Common parts of every process: its log, and the lines that it logs as it starts and stops."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, NoReturn

import structlog
import typer

from mintscope import __version__
from mintscope.base.errors import FolderInUse, NeedsOperator, StoreUnavailable, UnusableStore
from mintscope.base.solana import SourceError
from mintscope.shell.cli.config import shown
from mintscope.shell.cli.output import stop
from mintscope.shell.config.load import Loaded, settings
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.processes.build import commit
from mintscope.shell.wiring.processes.log_lines import configure_logging

EXIT_FAILED: Final = 1
EXIT_OPERATOR: Final = 3  # a restart does not help until an operator has decided

log = structlog.get_logger()

IsNew = Annotated[
    bool,
    typer.Option("--new", help="A store that was emptied, or is another installation's, is meant."),
]


class ChildEnded(Exception):
    """A process ended for good without which the others have nothing to do.

    needs_operator    it ended with EXIT_OPERATOR, and so does the command that started it
    """

    def __init__(self, message: str, *, needs_operator: bool) -> None:
        super().__init__(message)
        self.needs_operator = needs_operator


def logs_json(log_config: LogConfig) -> bool:
    """Return whether lines are JSON: by default if stderr is no terminal."""
    if log_config.format == "auto":
        return not sys.stderr.isatty()
    return log_config.format == "json"


@dataclass(slots=True)
class Life:
    """One run of a process.

    reason   why it ends by itself, or the name of the signal that ended it
    """

    tells_json: bool
    began_s: float
    reason: str = "its work is done"

    def note_signal(self, number: int | None) -> None:
        """Note the signal that ends the process, if one does."""
        if number is not None:
            self.reason = signal.Signals(number).name

    def stops(self, exit_code: int, reason: str | None = None) -> None:
        """Log that the process stops, with the reason."""
        ran_s = round(time.monotonic() - self.began_s, 1)
        tell = log.info if exit_code == 0 else log.error
        tell("stops", reason=reason or self.reason, exit_code=exit_code, ran_s=ran_s)


@contextmanager
def living(process: str, loaded: Loaded, *, in_use: int = EXIT_OPERATOR) -> Iterator[Life]:
    """Log that *process* starts, with its settings, and that it stops, with the reason.

    Each line names it.  Errors end it as in `ending_in_words`.
    """
    is_json = logs_json(loaded.config.log)
    configure_logging(loaded.config.log.level, json_lines=is_json)
    life = Life(is_json, time.monotonic())
    with structlog.contextvars.bound_contextvars(process=process):
        settings_changed = changed_settings(loaded)
        log.info("starts", version=__version__, commit=commit(), settings=settings_changed)
        with ending_in_words(in_use, life):
            yield life
        life.stops(0)


def changed_settings(loaded: Loaded) -> dict[str, str]:
    """Return the settings that differ from their defaults, as `mintscope config` shows them."""
    return {
        setting.key: shown(setting.value(loaded.config))
        for _, _, group in settings()
        for setting in group
        if setting.value(loaded.config) != setting.field.get_default(call_default_factory=True)
    }


@contextmanager
def ending_in_words(in_use: int = EXIT_OPERATOR, life: Life | None = None) -> Iterator[None]:
    """End the command with one message, and with EXIT_OPERATOR if an operator must decide.

    in_use    the exit code if another process has its role
    life      logs the message instead, if its lines are JSON
    """
    try:
        yield
    except ChildEnded as error:
        _end(life, error, EXIT_OPERATOR if error.needs_operator else EXIT_FAILED)
    except NeedsOperator as error:
        _end(life, error, EXIT_OPERATOR)
    except FolderInUse as error:
        _end(life, error, in_use)
    except (OSError, StoreUnavailable, SourceError) as error:
        _end(life, error, EXIT_FAILED)
    except UnusableStore as error:
        _end(life, error, EXIT_OPERATOR)
    except Exception as bug:
        if life is None or not life.tells_json or isinstance(bug, typer.Exit):
            raise
        log.exception("process failed")
        life.stops(EXIT_FAILED, repr(bug))
        raise typer.Exit(EXIT_FAILED) from None


def _end(life: Life | None, error: Exception, exit_code: int) -> NoReturn:
    if life is None or not life.tells_json:
        stop(f"mintscope: {error}", exit_code)
    life.stops(exit_code, str(error))
    raise typer.Exit(exit_code) from None
