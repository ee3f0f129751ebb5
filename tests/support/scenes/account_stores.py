"""All engines that store accounts: to add an engine to the contract tests, add it to ENGINES."""

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
    assert isinstance(database, SqliteDatabase)
    return database.connection


def impatient_accounts(path: Path) -> AccountConnections:
    """Return accounts whose writer waits only a millisecond for other writers."""
    reading = AccessAtOnce(SqliteDatabase(path, "money"))
    return AccountConnections(SqliteDatabase(path, "money", busy_timeout_ms=1), reading)


class CountedAccounts(AccountConnections):
    """The accounts' file; its connection calls *count* with each statement before it runs."""

    def __init__(self, path: Path, count: Callable[[str], None]) -> None:
        writing, reading = SqliteDatabase(path, "money"), SqliteDatabase(path, "money")
        super().__init__(writing, AccessAtOnce(reading))

        def reported(_cursor: object, statement: str, _values: object) -> bool:
            count(statement)
            return True

        reading.connection.set_exec_trace(reported)
        writing.connection.set_exec_trace(reported)


@asynccontextmanager
async def _accounts(connections: AccountConnections) -> AsyncIterator[AccountStore]:
    try:
        yield SqlAccountStore(connections)
    finally:
        await connections.close()


def open_sqlite(folder: Path) -> AbstractAsyncContextManager[AccountStore]:
    """Open the accounts in *folder*; a second call opens them as another process would."""
    return _accounts(account_connections(folder / MONEY_FILE))


@asynccontextmanager
async def queue_of(queue: SqlWebhookQueue) -> AsyncIterator[SqlWebhookQueue]:
    """Yield *queue*, and close it at the end of the block."""
    try:
        yield queue
    finally:
        await queue.close()


# On PostgreSQL, each folder has a separate database.
QUEUES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[SqlWebhookQueue]]]] = {
    "sqlite": lambda folder: queue_of(webhook_queue(folder / WEBHOOKS_FILE)),
    "postgresql": lambda folder: queue_of(openers.webhook_queue(dsn_in(folder))),
}
ENGINES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[AccountStore]]]] = {
    "sqlite": open_sqlite,
    "postgresql": lambda folder: _accounts(openers.account_connections(dsn_in(folder))),
}
