"""How commands use the stores of the installation, also while the service runs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from logging import CRITICAL
from typing import Any, Final, TypeVar

import structlog
import typer

from mintscope.base.clock import SystemClock
from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.wiring.stores import Market, Money, open_market, open_money

EXIT_STORE: Final = 1

T = TypeVar("T")


def with_market(file: ConfigFile, work: Callable[[Market], Awaitable[T]]) -> T:
    """Return what *work* returns; print one message and exit 1 if the store fails."""
    config = configured(file).config

    async def opened() -> T:
        async with open_market(config) as market:
            return await work(market)

    return _run(opened())


def with_money(file: ConfigFile, work: Callable[[Money], Awaitable[T]]) -> T:
    """Return what *work* returns; print one message and exit 1 if the store fails."""
    config = configured(file).config

    async def opened() -> T:
        async with open_money(config, SystemClock()) as money:
            return await work(money)

    return _run(opened())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        with _without_log():
            return asyncio.run(work)
    except UnusableStore as error:
        typer.echo(str(error), err=True)
    except ServiceUnavailable as error:
        typer.echo(f"{error} {error.__cause__ or ''}".strip(), err=True)
    raise typer.Exit(EXIT_STORE)


@contextmanager
def _without_log() -> Iterator[None]:
    """Log nothing: a command prints one line about what went wrong."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
