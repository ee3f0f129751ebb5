"""AccountStore over transactions of a database."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

from mintscope.core.accounts.audit import EVERYTHING, Event, EventFilter
from mintscope.core.accounts.store import AccountRows
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.accounts.api_keys import SqlApiKeyRows, SqlKeyAddressRows
from mintscope.edges.storage.sql.accounts.applications import SqlApplicationRows
from mintscope.edges.storage.sql.accounts.connections import AccountConnections
from mintscope.edges.storage.sql.accounts.credits import SqlCreditRows, SqlMoveRows
from mintscope.edges.storage.sql.accounts.emails import SqlEmailRows, SqlProofRows
from mintscope.edges.storage.sql.accounts.factors import (
    SqlAppRows,
    SqlPasskeyRows,
    SqlRecoveryRows,
    SqlSignInRows,
)
from mintscope.edges.storage.sql.accounts.made import SqlMadeRows
from mintscope.edges.storage.sql.accounts.people import SqlSessionRows, SqlUserRows
from mintscope.edges.storage.sql.accounts.signals.emails import SqlAlertEmailRows
from mintscope.edges.storage.sql.accounts.signals.firings import SqlFiringRows
from mintscope.edges.storage.sql.accounts.signals.signals import SqlSignalRows
from mintscope.edges.storage.sql.accounts.signals.turn import SqlTurnRows
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table
from mintscope.edges.storage.sql.accounts.wallets import SqlWalletRows
from mintscope.edges.storage.sql.accounts.watchlists import SqlWatchedRows, SqlWatchlistRows
from mintscope.edges.storage.sql.money.hours import SqlHourRows

T = TypeVar("T")


class SqlAccountStore:
    """Implements AccountStore."""

    def __init__(self, connections: AccountConnections) -> None:
        self._connections = connections

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, once what it changed is durable; in the writer's thread."""
        return await self._connections.write(lambda db: work(rows_of(db)))

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, which changes only rows that it has claimed."""
        return await self._connections.write(lambda db: work(rows_of(db)), beside=True)

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, which changes nothing."""
        return await self._connections.read(lambda db: work(rows_of(db)))


class SqlEventRows(Table[int, Event]):
    """Implements EventRows."""

    NAME = "account_event"
    COLUMNS = Columns(Event, "account_event")
    SOURCE = "account_event WHERE"

    def insert(self, event: Event) -> None:
        """Add *event*."""
        self._add(asdict(event))

    def newest(
        self, before: int | None, limit: int, wanted: EventFilter = EVERYTHING
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events with their numbers, newest first, older than *before*."""
        conditions: list[str] = [f"id < coalesce(?, {NO_END})"]
        values: list[object] = [before]
        if wanted.who:
            conditions.append("(actor = ? OR subject = ?)")
            values += [wanted.who, wanted.who]
        if wanted.action:
            conditions.append("substr(action, 1, length(?)) = ?")
            values += [wanted.action, wanted.action]
        events = f"SELECT id, {self.COLUMNS.text} FROM account_event"  # noqa: S608  a constant
        page = f"WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?"
        rows = self._db.execute(f"{events} {page}", (*values, limit))
        return [(row_id, self.COLUMNS.read(columns)) for row_id, *columns in rows]


def rows_of(db: Database) -> AccountRows:
    """Return the tables of *db*, inside a transaction."""
    keys = SqlApiKeyRows(db)
    emails = SqlEmailRows(db)
    signals = SqlSignalRows(db)
    firings = SqlFiringRows(db)
    users = SqlUserRows(db)
    return AccountRows(
        users=users,
        names=users,
        applications=SqlApplicationRows(db),
        api_keys=keys,
        user_keys=keys,
        key_addresses=SqlKeyAddressRows(db),
        sessions=SqlSessionRows(db),
        proofs=SqlProofRows(db),
        apps=SqlAppRows(db),
        recovery_codes=SqlRecoveryRows(db),
        passkeys=SqlPasskeyRows(db),
        sign_ins=SqlSignInRows(db),
        emails=emails,
        outbox=emails,
        events=SqlEventRows(db),
        hours=SqlHourRows(db),
        credits=SqlCreditRows(db),
        moves=SqlMoveRows(db),
        wallets=SqlWalletRows(db),
        watchlists=SqlWatchlistRows(db),
        watched=SqlWatchedRows(db),
        made=SqlMadeRows(db),
        signals=signals,
        active=signals,
        firings=firings,
        fired=firings,
        told=SqlAlertEmailRows(db, firings, signals),
        turn=SqlTurnRows(db),
    )
