"""AccountStore on SQLite."""

from collections.abc import Callable
from typing import TypeVar

import apsw

from mintscope.core.accounts.store import AccountRows
from mintscope.edges.storage.sqlite.accounts.api_keys import SqliteApiKeyRows, SqliteUserKeyRows
from mintscope.edges.storage.sqlite.accounts.applications import (
    SqliteApplicationLists,
    SqliteApplicationRows,
)
from mintscope.edges.storage.sqlite.accounts.emails import SqliteEmailRows, SqliteOutboxRows
from mintscope.edges.storage.sqlite.accounts.events import SqliteEventRows
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.proofs import SqliteProofRows
from mintscope.edges.storage.sqlite.accounts.sessions import SqliteSessionRows
from mintscope.edges.storage.sqlite.accounts.users import SqliteUserRows

T = TypeVar("T")


class SqliteAccountStore:
    """Implements AccountStore."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file
        self._rows: dict[apsw.Connection, AccountRows] = {}  # a file has two connections

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, once what it changed is durable; in the writer's thread."""
        return await self._file.write(lambda db: work(self._rows_in(db)))

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, which changes nothing; on the event loop."""
        return self._file.read(lambda db: work(self._rows_in(db)))

    def _rows_in(self, db: apsw.Connection) -> AccountRows:
        rows = self._rows.get(db)
        if rows is None:
            rows = self._rows[db] = rows_of(db)
        return rows


def rows_of(db: apsw.Connection) -> AccountRows:
    """Return the tables of *db*, inside a transaction."""
    return AccountRows(
        users=SqliteUserRows(db),
        applications=SqliteApplicationRows(db),
        application_lists=SqliteApplicationLists(db),
        api_keys=SqliteApiKeyRows(db),
        user_keys=SqliteUserKeyRows(db),
        sessions=SqliteSessionRows(db),
        proofs=SqliteProofRows(db),
        emails=SqliteEmailRows(db),
        outbox=SqliteOutboxRows(db),
        events=SqliteEventRows(db),
    )
