"""What every process that runs does alike: how it logs, and how it says why it ends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from mintscope.base.errors import FolderInUse, NeedsOperator, StoreUnavailable, UnusableStore
from mintscope.base.solana import SourceError
from mintscope.shell.cli.output import stop
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.processes.log_lines import configure_logging

EXIT_FAILED: Final = 1
EXIT_OPERATOR: Final = 3  # starting it again is of no use until an operator has decided


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


def start_logging(log: LogConfig) -> None:
    """Log as *log* says; JSON by default where no person looks on."""
    is_json = log.format == "json" or (log.format == "auto" and not sys.stderr.isatty())
    configure_logging(log.level, json_lines=is_json)


@contextmanager
def ending_in_words(in_use: int = EXIT_OPERATOR) -> Iterator[None]:
    """End the command with one message, and with EXIT_OPERATOR if an operator must decide.

    in_use    what it ends with instead if another process has its role
    """
    try:
        yield
    except ChildEnded as error:
        stop(f"mintscope: {error}", EXIT_OPERATOR if error.needs_operator else EXIT_FAILED)
    except NeedsOperator as error:
        stop(f"mintscope: {error}", EXIT_OPERATOR)
    except FolderInUse as error:
        stop(f"mintscope: {error}", in_use)
    except (OSError, StoreUnavailable, SourceError) as error:
        stop(f"mintscope: {error}", EXIT_FAILED)
    except UnusableStore as error:
        stop(f"mintscope: {error}", EXIT_OPERATOR)
