"""The engines on which all tests of market stores run."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.market import Market
from mintscope.app.stores.postgres import PostgresEngine
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from support.scenes.postgres import dsn_in

ENGINES: Final[dict[str, Callable[[Path], SqliteEngine | PostgresEngine]]] = {
    "sqlite": SqliteEngine,
    "postgresql": lambda folder: PostgresEngine(dsn_in(folder)),
}
MARKET_ENGINES: Final = tuple(ENGINES)


def market_of(
    engine: str,
    folder: Path,
    *,
    follows_all: bool = False,
    retention: Retention = DEFAULT_RETENTION,
) -> AbstractAsyncContextManager[Market]:
    """Open the market of *folder* on *engine*; each call opens the same market."""
    return ENGINES[engine](folder).open_market(follows_all=follows_all, retention=retention)


def execute_in(engine: str, folder: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run *statement* even while other connections to the market are open; return its rows."""
    if engine == "sqlite":
        with closing(apsw.Connection(str(folder / MARKET_FILE))) as file:
            return file.execute(statement).fetchall()
    with psycopg.connect(dsn_in(folder), autocommit=True) as connection:
        ran = connection.execute(statement.encode())
        return ran.fetchall() if ran.description else []


def copied_market(folder: Path) -> apsw.Connection:
    """Return a copy in memory of the market file in *folder*, which others can have open."""
    with closing(apsw.Connection(str(folder / MARKET_FILE), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return copied(db, ":memory:")


def put_market(market: apsw.Connection, folder: Path) -> None:
    """Write *market*, which `copied_market` returned, to *folder*, which has no market yet."""
    copied(market, folder / MARKET_FILE).close()


def copied(whole: apsw.Connection, into: Path | str) -> apsw.Connection:
    copy = apsw.Connection(str(into))
    with copy.backup("main", whole, "main") as backup:
        backup.step()
    return copy
