"""Every engine that keeps accounts: one line adds another to all contract tests."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import apsw

from mintscope.accounts.rows import AccountStore
from mintscope.accounts.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores import postgres as openers
from mintscope.app.stores.folder import MONEY_FILE, WEBHOOKS_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.app.stores.sqlite import account_connections, webhook_queue
from mintscope.kit.sql.database import AccessAtOnce, Database
from mintscope.kit.sql.sqlite import SqliteDatabase
from support.scenes.postgres import dsn_in


def connection_of(database: Database) -> apsw.Connection:
    """Return the connection of SQLite under *database*."""
    assert isinstance(database, SqliteDatabase)
    return database.connection


def impatient_accounts(path: Path) -> AccountConnections:
    """Return accounts whose writer waits a millisecond for others."""
    reading = AccessAtOnce(SqliteDatabase(path, "money"))
    return AccountConnections(SqliteDatabase(path, "money", busy_timeout_ms=1), reading)


class CountedAccounts(AccountConnections):
    """Calls *count* with every statement that reaches SQLite, as it is prepared."""

    def __init__(self, path: Path, count: Callable[[str], None]) -> None:
        writing, reading = SqliteDatabase(path, "money"), SqliteDatabase(path, "money")
        super().__init__(writing, AccessAtOnce(reading))

        def reported(_cursor: object, statement: str, _values: object) -> bool:
            count(statement)
            return True

        reading.connection.set_exec_trace(reported)
        writing.connection.set_exec_trace(reported)


Opener = Callable[[Path], AbstractAsyncContextManager[AccountStore]]


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[AccountStore]:
    """Open the accounts in *folder*; again, as another process would."""
    file = account_connections(folder / MONEY_FILE)
    try:
        yield SqlAccountStore(file)
    finally:
        await file.close()


@asynccontextmanager
async def open_postgres(folder: Path) -> AsyncIterator[AccountStore]:
    """Open the accounts of *folder* in PostgreSQL; again, as another replica would."""
    connections = openers.account_connections(dsn_in(folder))
    try:
        yield SqlAccountStore(connections)
    finally:
        await connections.close()


QueueOpener = Callable[[Path], AbstractAsyncContextManager[SqlWebhookQueue]]


@asynccontextmanager
async def queue_in_sqlite(folder: Path) -> AsyncIterator[SqlWebhookQueue]:
    """Open the queue of webhooks in *folder*; again, as another process would."""
    queue = webhook_queue(folder / WEBHOOKS_FILE)
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def queue_in_postgres(folder: Path) -> AsyncIterator[SqlWebhookQueue]:
    """Open the queue of *folder* in PostgreSQL; again, as another replica would."""
    queue = openers.webhook_queue(dsn_in(folder))
    try:
        yield queue
    finally:
        await queue.close()


QUEUES: Final[dict[str, QueueOpener]] = {
    "sqlite": queue_in_sqlite,
    "postgresql": queue_in_postgres,
}
ENGINES: Final[dict[str, Opener]] = {
    "sqlite": open_sqlite,
    "postgresql": open_postgres,
}
