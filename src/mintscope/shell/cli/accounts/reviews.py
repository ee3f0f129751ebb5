"""How the commands of administrators use the reviews of the installation."""

import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import typer

from mintscope.base.clock import SystemClock
from mintscope.core.accounts.administration import NotPossible
from mintscope.core.accounts.reviews import Reviews
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.stores import with_money
from mintscope.shell.wiring.stores import Money

EXIT_NOT_POSSIBLE: Final = 1

T = TypeVar("T")


def with_reviews(file: ConfigFile, work: Callable[[Reviews], Awaitable[T]]) -> T:
    """Return what *work* returns, or print why it is not possible and exit 1.

    Works while the service runs.
    """

    async def opened(money: Money) -> T:
        return await work(Reviews(money.accounts, clock=SystemClock(), entropy=os.urandom))

    try:
        return with_money(file, opened)
    except NotPossible as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_NOT_POSSIBLE) from None
