"""What every process that runs does alike: how it logs, and how it says why it ends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mintscope.base.errors import NeedsOperator, StoreUnavailable, UnusableStore
from mintscope.base.solana import SourceError
from mintscope.shell.cli.output import stop
from mintscope.shell.config.sections import LogConfig
from mintscope.shell.wiring.processes.log_lines import configure_logging

EXIT_FAILED: Final = 1
EXIT_OPERATOR: Final = 3  # starting it again is of no use until an operator has decided


class ChildEnded(Exception):
    """A process ended for good without which the others have nothing to do."""


def start_logging(log: LogConfig) -> None:
    """Log as *log* says; JSON by default where no person looks on."""
    is_json = log.format == "json" or (log.format == "auto" and not sys.stderr.isatty())
    configure_logging(log.level, json_lines=is_json)


@contextmanager
def ending_in_words(operator: int = EXIT_OPERATOR) -> Iterator[None]:
    """End the command with one message: with *operator* where an operator must decide."""
    try:
        yield
    except NeedsOperator as error:
        stop(f"mintscope: {error}", operator)
    except (ChildEnded, OSError, StoreUnavailable, SourceError) as error:
        stop(f"mintscope: {error}", EXIT_FAILED)
    except UnusableStore as error:
        stop(f"mintscope: {error}", operator)
