"""The engine of the stores of a test: tests/spec runs on each engine."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from mintscope.accounts.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores import postgres, sqlite
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.payments.store.payments import SqlPaymentStore
from support.scenes.postgres import database_in, dsn_in

ENGINES: Final = ("sqlite", "postgresql")
_chosen: Final = [ENGINES[0]]


@contextmanager
def chosen(engine: str) -> Iterator[None]:
    """Use *engine* for all stores that are opened in the block."""
    before, _chosen[:] = list(_chosen), [engine]
    try:
        yield
    finally:
        _chosen[:] = before


def is_postgresql() -> bool:
    return _chosen == ["postgresql"]


def account_connections(path: Path) -> AccountConnections:
    """Return connections to the accounts in the file at *path*, or in its folder's database."""
    if is_postgresql():
        return postgres.account_connections(dsn_in(path.parent, ("money",)))
    return sqlite.account_connections(path)


def webhook_queue(path: Path) -> SqlWebhookQueue:
    if is_postgresql():
        return postgres.webhook_queue(dsn_in(path.parent, ("money",)))
    return sqlite.webhook_queue(path)


def payment_store(path: Path, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    if is_postgresql():
        dsn = dsn_in(path.parent, ("money",))
        return postgres.payment_store(dsn, patience_s=patience_s)
    return sqlite.payment_store(path, patience_s=patience_s)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Hold the write lock of the SQLite file at *path*, or of its folder's database."""
    opened: Database
    if is_postgresql():
        opened = PostgresDatabase(dsn_in(path.parent, ("money",)))
    else:
        opened = SqliteDatabase(path, "money", busy_timeout_ms=5_000)
    with closing(opened), opened.transaction():
        yield


def separate(path: Path) -> AbstractContextManager[Database]:
    """Return a separate connection to the SQLite file at *path*, or to its folder's database."""
    if is_postgresql():
        return nullcontext(database_in(path.parent, ("money",)))
    # This creates tables if the file is new
    return closing(SqliteDatabase(path, "money", busy_timeout_ms=5_000))


def rows_of(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement over a separate connection; return its rows."""
    with separate(path) as database:
        return [tuple(row) for row in database.execute(statement, values)]
