"""The openers of this engine: each yields ports of the core over one database."""

from functools import partial

from mintscope.edges.storage.database import ReadingInThreads
from mintscope.edges.storage.group_commit import PATIENCE_S
from mintscope.edges.storage.postgres.connection import PostgresDatabase
from mintscope.edges.storage.sql.accounts.connections import AccountConnections
from mintscope.edges.storage.sql.money.books import SqlPaymentBooks
from mintscope.edges.storage.sql.money.payments import SqlPaymentStore


def payment_store(dsn: str, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the payments in the database of *dsn*."""
    reading = ReadingInThreads(partial(PostgresDatabase, dsn))
    return SqlPaymentStore(PostgresDatabase(dsn), reading, patience_s=patience_s)


def payment_books(dsn: str) -> SqlPaymentBooks:
    """Return the books of the payments in the database of *dsn*."""
    return SqlPaymentBooks(PostgresDatabase(dsn))


def account_connections(dsn: str, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return what reads and writes the accounts in the database of *dsn*."""
    reading = ReadingInThreads(partial(PostgresDatabase, dsn))
    return AccountConnections(PostgresDatabase(dsn), reading, patience_s=patience_s)
