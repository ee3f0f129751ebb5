"""The stores of an installation, as it is configured: the only module that names an engine."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mintscope.base.clock import Clock
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.market.store import Retention
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, OTHERS, PEPPER_FILE, load_pepper
from mintscope.edges.storage.sqlite import openers
from mintscope.edges.storage.sqlite.connection import engine_version
from mintscope.edges.storage.sqlite.openers import Market, Money
from mintscope.shell.config.config import Config

__all__ = ["OTHERS", "Market", "Money", "engine_version", "open_market", "open_money"]


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
