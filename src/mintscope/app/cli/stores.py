"""Gives commands access to the stores of the installation, even while the service runs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from logging import CRITICAL
from typing import Literal, TypeVar

import structlog

from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.reviews import Reviews
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.output import EXIT_NOT_DONE, stop
from mintscope.app.config.groups import Config
from mintscope.app.stores import stores
from mintscope.app.stores.upgrade import expect_upgraded
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore

S = TypeVar("S")
T = TypeVar("T")


def with_market(
    file: ConfigFile, work: Callable[[stores.Market], Awaitable[T]], *, creates: bool = False
) -> T:
    """Return the result of *work* on the market; if the store fails, print a message and exit 1.

    creates   whether *work* may create an installation; if False, a folder without data is refused
    """
    settings = configured(file).config
    return _run(settings, "market", stores.open_market, work, creates=creates)


def with_money(
    file: ConfigFile, work: Callable[[stores.Money], Awaitable[T]], *, creates: bool = False
) -> T:
    """Return the result of *work* on the stores of money; if they fail, print why and exit 1.

    creates   whether *work* may create an installation; if False, a folder without data is refused
    """
    settings = configured(file).config
    opened = partial(stores.open_money, clock=SystemClock())
    return _run(settings, "money", opened, work, creates=creates)


def with_reviews(
    file: ConfigFile, work: Callable[[Reviews], Awaitable[T]], *, creates: bool = False
) -> T:
    """Return the result of *work*, which gets the service that reviews applications and users.

    If the store fails or *work* raises NotPossible, print a message and exit 1.

    creates   whether *work* may create an installation; if False, a folder without data is refused
    """
    try:
        return with_money(
            file,
            lambda money: work(Reviews(money.accounts, clock=SystemClock(), entropy=os.urandom)),
            creates=creates,
        )
    except NotPossible as error:
        stop(str(error), EXIT_NOT_DONE)


def _run(
    settings: Config,
    name: Literal["market", "money"],
    store: Callable[[Config], AbstractAsyncContextManager[S]],
    work: Callable[[S], Awaitable[T]],
    *,
    creates: bool,
) -> T:
    async def opened() -> T:
        place = stores.place_of(settings, name)
        if place.is_new and not creates:
            raise UnusableStore(
                f"there is no data here: {place.name} does not exist. Does data_dir name the right"
                " folder, and has the service been started once?"
            )
        expect_upgraded(settings)
        if name == "money":
            stores.expect_own_stores(settings)
        async with store(settings) as found:
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
    """Disable logging below CRITICAL during the block: the command itself reports a failure."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
