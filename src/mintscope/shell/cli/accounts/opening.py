"""What the commands about accounts share: the desk they ask, and how texts of others are shown."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from logging import CRITICAL
from typing import Final, TypeVar

import apsw
import structlog
import typer

from mintscope.base.clock import SystemClock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.installation import UnusableStore
from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time
from mintscope.core.accounts.escape import visible as shown
from mintscope.core.accounts.reviews import NotPossible, Reviews
from mintscope.edges.storage.folder import MONEY_FILE
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.reviews import SqliteReviewStore
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.config.sections import Config

T = TypeVar("T")
Question = Callable[[Reviews], Awaitable[T]]

EXIT_NOT_POSSIBLE: Final = 1
NEVER: Final = "-"


def ask(file: ConfigFile, question: Question[T]) -> T:
    """Return what *question* finds at the desk of the installation, or say why not and exit 1.

    Works while the service runs.
    """
    config = configured(file).config
    try:
        with _without_log():
            return asyncio.run(_ask(config, question))
    except (NotPossible, UnusableStore) as error:
        typer.echo(str(error), err=True)
    except ServiceUnavailable as error:
        typer.echo(f"{error} {error.__cause__ or ''}".strip(), err=True)
    except (OSError, apsw.Error) as error:
        typer.echo(f"the money file in {config.data_dir} does not answer: {error}", err=True)
    raise typer.Exit(EXIT_NOT_POSSIBLE)


def visible(text: str) -> str:
    """Return *text* of a stranger in one line that cannot command a terminal.

    Control characters, and those that turn lines around or hide, are shown as their numbers.
    """
    plain = shown(text)
    encoding = sys.stdout.encoding or "utf-8"
    return plain.encode(encoding, "backslashreplace").decode(encoding)


def moment(at: UnixMs | None) -> str:
    """Return a time as people and programs read it."""
    if at is None:
        return NEVER
    return iso_time(at)


@contextmanager
def _without_log() -> Iterator[None]:
    """Say what goes wrong once, in one line, and not in the words of a service's log."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def _ask(config: Config, question: Question[T]) -> T:
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = AccountFile(config.data_dir / MONEY_FILE)
    desk = Reviews(SqliteReviewStore(file), clock=SystemClock(), entropy=os.urandom)
    try:
        return await question(desk)
    finally:
        await file.close()
