"""The engine of the stores of a test: tests/spec runs on each engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mintscope.accounts.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores import postgres, sqlite
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.sqlite import SqliteDatabase, open_store
from mintscope.payments.store.payments import SqlPaymentStore
from support.scenes.postgres import database_in, dsn_in

ENGINES: Final = ("sqlite", "postgresql")
_chosen: Final = [ENGINES[0]]


@contextmanager
def chosen(engine: str) -> Iterator[None]:
    """Make *engine* the engine of all stores that are opened in the block."""
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
    _migrated(path)
    return sqlite.account_connections(path)


def webhook_queue(path: Path) -> SqlWebhookQueue:
    """Return the queue of webhooks in the file at *path*, or in the database of its folder."""
    if is_postgresql():
        return postgres.webhook_queue(dsn_in(path.parent, ("money",)))
    return sqlite.webhook_queue(path)


def payment_store(path: Path) -> SqlPaymentStore:
    """Return the payments in the file at *path*, or in the database of its folder."""
    if is_postgresql():
        return postgres.payment_store(dsn_in(path.parent, ("money",)))
    _migrated(path)
    return sqlite.payment_store(path)


def _migrated(path: Path) -> None:
    """Copy a migrated money file to *path* if there is none: this is faster than migrations."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(_migrated_file())


@cache
def _migrated_file() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / MONEY_FILE
        open_store(path, "money").close()
        return path.read_bytes()


def rows_of(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement over a separate connection; return its rows."""
    if is_postgresql():
        return _reported_by(database_in(path.parent, ("money",)), statement, values)
    # Creates tables if the file is new
    database = SqliteDatabase(path, "money", busy_timeout_ms=5_000)
    try:
        return _reported_by(database, statement, values)
    finally:
        database.close()


def _reported_by(
    database: Database, statement: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.execute(statement, values)]


def lose_store(ledger: CreditLedger) -> None:
    """Make all further writes of *ledger* fail."""
    book = vars(ledger)["_writing"]
    if is_postgresql():
        vars(vars(book)["_db"])["_dsn"] = "host=127.0.0.1 port=1"
    book.close()
