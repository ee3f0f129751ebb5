"""Stores in common SQL over a money file."""

from pathlib import Path
from typing import Final

from mintscope.edges.storage.database import AccessAtOnce, Database, DatabaseAccess
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.sql.accounts.connections import AccountConnections
from mintscope.edges.storage.sql.money.books import SqlPaymentBooks
from mintscope.edges.storage.sql.money.payments import SqlPaymentStore
from mintscope.edges.storage.sqlite.database import SqliteDatabase

READ_PATIENCE_MS: Final = 100  # readers wait for a recovery alone


def payment_store(path: Path, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the payments in the file at *path*."""
    return SqlPaymentStore(SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s)


def payment_books(path: Path) -> SqlPaymentBooks:
    """Return the books of the payments in the file at *path*."""
    return SqlPaymentBooks(SqliteDatabase(path, "money"))


def account_connections(path: Path, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return what reads and writes the accounts in the file at *path*."""
    return AccountConnections(SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s)


def _reading(path: Path) -> DatabaseAccess[Database]:
    # A rule that writes must fail there.
    database = SqliteDatabase(path, "money", busy_timeout_ms=READ_PATIENCE_MS, may_write=False)
    return AccessAtOnce(database)
