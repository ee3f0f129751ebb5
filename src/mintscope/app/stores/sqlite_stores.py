"""Stores in common SQL over a money file."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from mintscope.accounts.people.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.kit.sql.database import AccessAtOnce, AccessInThreads, Database, DatabaseAccess
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.sqlite import SqliteDatabase, return_free_pages
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore

READ_PATIENCE_MS: Final = 100  # readers wait for a recovery alone
TAKEN: Final = "SELECT coalesce(max(firing), 0) FROM webhook_taken"
GIVEN: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'signal_firing'"
GIVE_ON: Final = (
    "DELETE FROM sqlite_sequence WHERE name = 'signal_firing'",
    "INSERT INTO sqlite_sequence (seq, name) VALUES (?, 'signal_firing')",
)


def payment_store(path: Path, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the payments in the file at *path*."""
    return SqlPaymentStore(SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s)


def payment_books(path: Path) -> SqlPaymentBooks:
    """Return the books of the payments in the file at *path*."""
    return SqlPaymentBooks(SqliteDatabase(path, "money"))


def account_connections(path: Path, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return the connections to the accounts in the file at *path*."""
    return AccountConnections(SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s)


def webhook_queue(path: Path, *, patience_s: float = PATIENCE_S) -> SqlWebhookQueue:
    """Return the queue of webhooks in the file at *path*."""
    reading = partial(
        SqliteDatabase, path, "webhooks", busy_timeout_ms=READ_PATIENCE_MS, may_write=False
    )  # in a thread: counting what waits takes long where that is much
    writing = SqliteDatabase(path, "webhooks")
    access: DatabaseAccess[Database] = AccessInThreads(reading, threads=1)
    connections = AccountConnections(writing, access, patience_s=patience_s)
    return SqlWebhookQueue(connections, tidy=lambda db: return_free_pages(db, "webhooks"))


def number_firings_on(money: Path, webhooks: Path) -> None:
    """Prevent firings from reusing a number that the webhook queue has already taken.

    A money file that is older than the queue, or new, would give these numbers once more: its
    webhooks would not be sent, and receivers would know their `webhook-id`.
    """
    with (
        closing(SqliteDatabase(webhooks, "webhooks")) as queue,
        closing(SqliteDatabase(money, "money")) as database,
    ):
        taken = queue.execute(TAKEN).get
        if taken <= database.execute(GIVEN).get:
            return
        with database.transaction():
            forget, give_on = GIVE_ON
            database.execute(forget)
            database.execute(give_on, (taken,))


def _reading(path: Path) -> DatabaseAccess[Database]:
    # A rule that writes must fail there.
    database = SqliteDatabase(path, "money", busy_timeout_ms=READ_PATIENCE_MS, may_write=False)
    return AccessAtOnce(database)
