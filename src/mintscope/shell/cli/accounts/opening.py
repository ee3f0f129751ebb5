"""What the commands about accounts share: the desk they ask, and how texts of others are shown."""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import typer

from mintscope.base.clock import SystemClock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time
from mintscope.core.accounts.administration import NotPossible
from mintscope.core.accounts.escape import visible as shown
from mintscope.core.accounts.reviews import Reviews
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.stores import with_money
from mintscope.shell.wiring.stores import Money

T = TypeVar("T")
Question = Callable[[Reviews], Awaitable[T]]

EXIT_NOT_POSSIBLE: Final = 1
NEVER: Final = "-"


def ask(file: ConfigFile, question: Question[T]) -> T:
    """Return the answer to *question*, or print why there is none and exit 1.

    Works while the service runs.
    """

    async def asked(money: Money) -> T:
        reviews = Reviews(money.accounts, clock=SystemClock(), entropy=os.urandom)
        return await question(reviews)

    try:
        return with_money(file, asked)
    except NotPossible as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_NOT_POSSIBLE) from None


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
