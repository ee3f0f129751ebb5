"""The stores of an installation, as it is configured: the only module that names an engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import StoreUnavailable, UnusableStore
from mintscope.base.limits import Limits, MemoryLimits
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.market.store import Retention
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, OTHERS, PEPPER_FILE, load_pepper
from mintscope.edges.storage.limit_batches import LimitBatches, LimitStoreAway, WindowStore
from mintscope.edges.storage.money import Money
from mintscope.edges.storage.shared_limits import SharedLimits
from mintscope.edges.storage.sqlite import openers
from mintscope.edges.storage.sqlite.connection import engine_version
from mintscope.edges.storage.sqlite.openers import Market
from mintscope.shell.config.config import Config

__all__ = [
    "OTHERS",
    "Market",
    "Money",
    "engine_version",
    "open_limits",
    "open_market",
    "open_money",
]

LIMITS_ASKED_S_MAX: Final = 5.0


def market_file(config: Config) -> Path:
    """Return where the market is kept; there is no file before the first start."""
    return config.data_dir / MARKET_FILE


def money_file(config: Config) -> Path:
    """Return where credits, payments and accounts are kept; no file before the first start."""
    return config.data_dir / MONEY_FILE


def pepper_file(config: Config) -> Path:
    """Return where the pepper is kept, unless it is configured."""
    return config.data_dir / PEPPER_FILE


def expect_pepper(config: Config) -> None:
    """Read the pepper that is kept.  Raises UnusablePepper."""
    load_pepper(pepper_file(config))


def open_market(config: Config) -> AbstractAsyncContextManager[Market]:
    """Open the market.  Raises UnusableStore."""
    market = config.market
    keep_s = {
        Timeframe.M1: market.retention_m1_hours * HOUR_S,
        Timeframe.M5: market.retention_m5_hours * HOUR_S,
        Timeframe.M15: market.retention_m15_days * DAY_S,
        Timeframe.H1: market.retention_h1_days * DAY_S,
    }
    return openers.open_market(
        config.data_dir, follows_all=market.track == "all", retention=Retention(keep_s)
    )


def open_money(config: Config, clock: Clock) -> AbstractAsyncContextManager[Money]:
    """Open credits, payments and accounts.  Raises UnusableStore."""
    pepper = config.credits.pepper
    return openers.open_money(
        config.data_dir,
        pepper=None if pepper is None else bytes.fromhex(pepper.get_secret_value()),
        clock=clock,
    )


@asynccontextmanager
async def open_limits(config: Config, clock: Clock) -> AsyncIterator[Limits]:
    """Open what counts requests: a store that is shared, else the memory of this process.

    A store that does not answer yet is none the less shared once it does.
    Raises UnusableStore where its package is not installed.
    """
    store = _window_store(config)
    if store is None:
        yield MemoryLimits(clock)
        return
    batches = LimitBatches(store, clock)
    async with aclosing(SharedLimits(batches, clock, replicas=config.replicas_max)) as limits:
        yield limits


async def expect_limits(config: Config) -> bool:
    """Ask the store of limits; return False if there is none.

    Raises StoreUnavailable if it does not answer, UnusableStore if it cannot be asked.
    """
    store = _window_store(config)
    if store is None:
        return False
    async with aclosing(store):
        try:
            async with asyncio.timeout(LIMITS_ASKED_S_MAX):
                await store.settle(())
        except (LimitStoreAway, TimeoutError) as cause:
            raise StoreUnavailable(f"{cause}" or "no answer in time") from cause
    return True


def _window_store(config: Config) -> WindowStore | None:
    if config.redis is None:
        return None
    try:  # an extra: it is imported where it is configured
        from mintscope.edges.storage.redis.limits import RedisWindows  # noqa: PLC0415 - see above
    except ModuleNotFoundError as cause:
        raise UnusableStore(
            "expected the Python package redis, for the setting redis; it is not installed:"
            " pip install 'mintscope[redis]'"
        ) from cause
    return RedisWindows(config.redis.get_secret_value())
