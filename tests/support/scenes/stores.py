"""The stores of an installation in a folder, opened as the service opens them."""

from contextlib import AbstractAsyncContextManager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from mintscope.app.config.config import CreditsConfig
from mintscope.app.config.groups import Config, MarketConfig
from mintscope.app.stores.stores import Market, Money, open_market, open_money
from mintscope.kit.clock import Clock, SystemClock
from support.scenes.engine import is_postgresql
from support.scenes.postgres import url_in

PEPPER: Final = sha256(b"the pepper of the tests").digest()


def config_in(folder: Path, *, pepper: bytes = PEPPER, **parts: Any) -> Config:
    """Return a configuration with its stores in *folder*."""
    credit_config = CreditsConfig(pepper=SecretStr(pepper.hex()))
    kept: dict[str, Any] = {"data_dir": folder, "credits": credit_config}
    if is_postgresql():
        kept["store"] = SecretStr(url_in(folder, ("money",)))
    return _usual().model_copy(update=kept | parts)


@cache
def _usual() -> Config:
    return Config()


def money_in(
    folder: Path, *, pepper: bytes = PEPPER, clock: Clock | None = None
) -> AbstractAsyncContextManager[Money]:
    return open_money(config_in(folder, pepper=pepper), clock or SystemClock())


def market_in(folder: Path, *, follows_all: bool = False) -> AbstractAsyncContextManager[Market]:
    market = MarketConfig(track="all" if follows_all else "list")
    return open_market(config_in(folder, market=market))
