"""The engines on which all tests of market stores run."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg

from mintscope.app.stores import postgres, sqlite
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.market import Market
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from support.scenes.postgres import dsn_in

Opener = Callable[..., AbstractAsyncContextManager[Market]]


def _in_postgresql(folder: Path, **options: Any) -> AbstractAsyncContextManager[Market]:
    return postgres.open_market(dsn_in(folder), **options)


ENGINES: Final[dict[str, Opener]] = {"sqlite": sqlite.open_market, "postgresql": _in_postgresql}
MARKET_ENGINES: Final = tuple(ENGINES)


def market_of(
    engine: str,
    folder: Path,
    *,
    follows_all: bool = False,
    retention: Retention = DEFAULT_RETENTION,
) -> AbstractAsyncContextManager[Market]:
    """Open the market of *folder* on *engine*; each call opens the same market."""
    return ENGINES[engine](folder, follows_all=follows_all, retention=retention)


def execute_in(engine: str, folder: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement even while other connections to the market are open; return its rows."""
    if engine == "sqlite":
        with closing(apsw.Connection(str(folder / MARKET_FILE))) as file:
            return file.execute(statement).fetchall()
    with psycopg.connect(dsn_in(folder), autocommit=True) as connection:
        ran = connection.execute(statement.encode())
        return ran.fetchall() if ran.description else []
