"""The stores of an installation, as it is configured."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from mintscope.base.clock import Clock
from mintscope.base.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.core.market.retention import Retention
from mintscope.core.market.timeframe import Timeframe
from mintscope.core.secrets.roots import Root, parse_root, rotated
from mintscope.edges.storage.folder import (
    MARKET_FILE,
    MONEY_FILE,
    OTHERS,
    PEPPER_FILE,
    ROOTS_FILE,
    WEBHOOKS_FILE,
    keep_roots,
    load_pepper,
    load_roots,
)
from mintscope.edges.storage.market import Market
from mintscope.edges.storage.money import Money
from mintscope.edges.storage.sqlite import openers
from mintscope.edges.storage.sqlite.connection import engine_version
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra

__all__ = [
    "OTHERS",
    "Market",
    "Money",
    "engine_version",
    "open_market",
    "open_money",
]


class Place(NamedTuple):
    """Where a store is, in words, and whether nothing was ever kept there."""

    name: str
    is_new: bool


def market_place(config: Config) -> Place:
    """Return where the market is kept."""
    return _place(config, MARKET_FILE)


def money_place(config: Config) -> Place:
    """Return where credits, payments and accounts are kept."""
    return _place(config, MONEY_FILE)


def webhooks_place(config: Config) -> Place:
    """Return the queue of webhooks, with their outcomes."""
    return _place(config, WEBHOOKS_FILE)


def _place(config: Config, file_name: str) -> Place:
    if config.store is not None:
        return Place("the database of store", is_new=False)
    path = config.data_dir / file_name
    return Place(str(path), is_new=not path.exists())


def pepper_file(config: Config) -> Path:
    """Return where the pepper is kept, unless it is configured."""
    return config.data_dir / PEPPER_FILE


def expect_pepper(config: Config) -> None:
    """Read the pepper that is kept.  Raises UnusablePepper."""
    load_pepper(pepper_file(config), signs=not roots_of(config))


def roots_of(config: Config) -> Sequence[Root]:
    """Return what signs in the pepper's place, configured or kept.  Raises UnusablePepper."""
    configured = [parse_root(each.get_secret_value()) for each in config.credits.roots]
    return [*configured, *load_roots(config.data_dir / ROOTS_FILE)]


def keep_new_root(config: Config, new: Root) -> Path:
    """Keep *new* beside the pepper, and return where.  Raises UnusablePepper."""
    path = config.data_dir / ROOTS_FILE
    keep_roots(path, rotated(load_roots(path), new))
    return path


def retention_of(config: Config) -> Retention:
    """Return how long candles are kept."""
    market = config.market
    keep_s = {
        Timeframe.M1: market.retention_m1_hours * HOUR_S,
        Timeframe.M5: market.retention_m5_hours * HOUR_S,
        Timeframe.M15: market.retention_m15_days * DAY_S,
        Timeframe.H1: market.retention_h1_days * DAY_S,
    }
    return Retention(keep_s, market.retention_swaps_minutes * MINUTE_S)


def open_market(config: Config, *, epoch: int | None = None) -> AbstractAsyncContextManager[Market]:
    """Open the market; with *epoch* its writer ends with that epoch.  Raises UnusableStore."""
    follows_all = config.market.track == "all"
    retention = retention_of(config)
    if config.store is not None:
        with extra("postgres", "psycopg", "store"):
            from mintscope.edges.storage.postgres import openers as tables  # noqa: PLC0415 - extra
        return tables.open_market(
            config.store.get_secret_value(),
            follows_all=follows_all,
            retention=retention,
            epoch=epoch,
        )
    return openers.open_market(config.data_dir, follows_all=follows_all, retention=retention)


def open_money(config: Config, clock: Clock) -> AbstractAsyncContextManager[Money]:
    """Open credits, payments and accounts.  Raises UnusableStore."""
    configured = config.credits.pepper
    pepper = None if configured is None else bytes.fromhex(configured.get_secret_value())
    if config.store is not None:
        with extra("postgres", "psycopg", "store"):
            from mintscope.edges.storage.postgres import openers as tables  # noqa: PLC0415 - extra
        return tables.open_money(
            config.store.get_secret_value(),
            pepper=pepper,
            pepper_file=pepper_file(config),
            clock=clock,
            roots=roots_of(config),
        )
    return openers.open_money(config.data_dir, pepper=pepper, clock=clock, roots=roots_of(config))
