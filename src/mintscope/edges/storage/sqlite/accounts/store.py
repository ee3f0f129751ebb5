"""AccountStore on SQLite."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

import apsw

from mintscope.core.accounts.audit import Event
from mintscope.core.accounts.store import AccountRows
from mintscope.edges.storage.sqlite.accounts.api_keys import SqliteApiKeyRows
from mintscope.edges.storage.sqlite.accounts.applications import SqliteApplicationRows
from mintscope.edges.storage.sqlite.accounts.emails import SqliteEmailRows, SqliteProofRows
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.people import SqliteSessionRows, SqliteUserRows
from mintscope.edges.storage.sqlite.accounts.table import NO_END, Columns, Table

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


class SqliteEventRows(Table[int, Event]):
    """Implements EventRows."""

    NAME = "account_event"
    COLUMNS = Columns(Event, "account_event")
    SOURCE = "account_event WHERE"

    def insert(self, event: Event) -> None:
        """Add *event*."""
        self._add(asdict(event))

    def newest(self, before: int | None, limit: int) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events with their numbers, newest first, older than *before*."""
        events = f"SELECT id, {self.COLUMNS.text} FROM account_event"  # noqa: S608  a constant
        page = f"WHERE id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
        rows = self._db.execute(f"{events} {page}", (before, limit))
        return [(row_id, self.COLUMNS.read(columns)) for row_id, *columns in rows]


def rows_of(db: apsw.Connection) -> AccountRows:
    """Return the tables of *db*, inside a transaction."""
    keys, emails = SqliteApiKeyRows(db), SqliteEmailRows(db)
    return AccountRows(
        users=SqliteUserRows(db),
        applications=SqliteApplicationRows(db),
        api_keys=keys,
        user_keys=keys,
        sessions=SqliteSessionRows(db),
        proofs=SqliteProofRows(db),
        emails=emails,
        outbox=emails,
        events=SqliteEventRows(db),
    )
