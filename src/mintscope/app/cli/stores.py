"""Gives commands access to the stores of the installation, even while the service runs."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from logging import CRITICAL
from typing import TypeVar

import structlog

from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.reviews import Reviews
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.output import EXIT_NOT_DONE, stop
from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import (
    Market,
    Money,
    Place,
    expect_own_stores,
    open_market,
    open_money,
    place_of,
)
from mintscope.app.stores.upgrade import expect_upgraded
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore

S = TypeVar("S")
T = TypeVar("T")


def with_market(
    file: ConfigFile, work: Callable[[Market], Awaitable[T]], *, creates: bool = False
) -> T:
    """Return the result of *work* on the market; if the store fails, print a message and exit 1.

    creates   whether *work* may create an installation; if False, a folder without data is refused
    """
    settings = configured(file).config
    return _run(_own_market(settings, creates=creates), work)


def with_money(
    file: ConfigFile, work: Callable[[Money], Awaitable[T]], *, creates: bool = False
) -> T:
    """Do the same as `with_market` for the stores of money."""
    settings = configured(file).config
    return _run(_own_money(settings, creates=creates), work)


@asynccontextmanager
async def _own_market(settings: Config, *, creates: bool) -> AsyncIterator[Market]:
    if not creates:
        _expect_data(place_of(settings, "market"))
    expect_upgraded(settings)
    async with open_market(settings) as market:
        yield market


@asynccontextmanager
async def _own_money(settings: Config, *, creates: bool) -> AsyncIterator[Money]:
    if not creates:
        _expect_data(place_of(settings, "money"))
    expect_upgraded(settings)
    expect_own_stores(settings)
    async with open_money(settings, SystemClock()) as money:
        yield money


def _expect_data(place: Place) -> None:
    if place.is_new:
        raise UnusableStore(
            f"there is no data here: {place.name} does not exist. Does data_dir name the right"
            " folder, and has the service been started once?"
        )


def with_reviews(
    file: ConfigFile, work: Callable[[Reviews], Awaitable[T]], *, creates: bool = False
) -> T:
    """Do the same as `with_market` for the reviews of applications and users.

    NotPossible ends the command with its message, too.
    """
    try:
        return with_money(
            file,
            lambda money: work(Reviews(money.accounts, clock=SystemClock(), entropy=os.urandom)),
            creates=creates,
        )
    except NotPossible as error:
        stop(str(error), EXIT_NOT_DONE)


def _run(store: AbstractAsyncContextManager[S], work: Callable[[S], Awaitable[T]]) -> T:
    async def opened() -> T:
        async with store as found:
            return await work(found)

    try:
        with without_log():
            return asyncio.run(opened())
    except UnusableStore as error:
        stop(str(error), EXIT_NOT_DONE)
    except ServiceUnavailable as error:
        stop(f"{error} {error.__cause__ or ''}".strip(), EXIT_NOT_DONE)


@contextmanager
def without_log() -> Iterator[None]:
    """Disable logging during the block, because a command itself prints a line about a failure."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
