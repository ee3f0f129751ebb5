"""Opens the stores of an installation that are in a PostgreSQL database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
)
from functools import partial
from pathlib import Path

from mintscope.accounts.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores import copying
from mintscope.app.stores.market import Market, MarketEngine
from mintscope.app.stores.money import Money, MoneyEngine
from mintscope.app.stores.postgres_side import is_auditor
from mintscope.app.stores.upgrade import Plan, Step
from mintscope.credits.postgres import PostgresCreditBook, PostgresCreditLedger
from mintscope.credits.store import CreditAccounts
from mintscope.history.backfill import BackfillIsRead
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.errors import StoreUnavailable, UnusableStore
from mintscope.kit.sql.database import (
    READ_TIMEOUT_S,
    AccessInThreads,
    Database,
    DatabaseAway,
    DatabaseError,
)
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.migrating import migrate_all, migrate_tables, rehearse, waits_for
from mintscope.kit.sql.postgres import PostgresDatabase, WriteLock
from mintscope.kit.sql.postgres_limits import PostgresWindows
from mintscope.kit.sql.processes import IngestLock, MarketNotices, backfill_lock
from mintscope.market.follow.tailer import Waiting
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.store.postgres import PostgresMarketTables
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.payments.store.postgres import SharedPrice


def payment_store(dsn: str, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the tables of payments, their outcomes and rotations in the database *dsn*."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn), timeout_s=READ_TIMEOUT_S)
    return SqlPaymentStore(PostgresDatabase(dsn), reading, patience_s=patience_s)


def payment_books(dsn: str) -> SqlPaymentBooks:
    """Return the tables of payments, credits and totals in the database *dsn*, for audits."""
    database = PostgresDatabase(dsn)
    # Over the connection of the books, whose session then holds the lock of the auditor.
    return SqlPaymentBooks(database, is_auditor=partial(is_auditor, database))


def account_connections(dsn: str, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return connections to the tables of accounts in the database *dsn*, for reads and writes."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn), timeout_s=READ_TIMEOUT_S)
    return AccountConnections(PostgresDatabase(dsn), reading, patience_s=patience_s)


def webhook_queue(dsn: str, *, patience_s: float = PATIENCE_S) -> SqlWebhookQueue:
    """Return the queue of webhooks in the database *dsn*, with tables and a lock of its own."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn), threads=1, timeout_s=READ_TIMEOUT_S)
    writing = PostgresDatabase(dsn, WriteLock.WEBHOOKS)
    return SqlWebhookQueue(AccountConnections(writing, reading, patience_s=patience_s))


def _market_engine(dsn: str, epoch: int | None) -> MarketEngine:
    opened = partial(_in_a_thread, partial(PostgresDatabase, dsn, WriteLock.MARKET))
    ingesting = partial(PostgresDatabase, dsn, WriteLock.MARKET, epoch=epoch)
    return MarketEngine(
        tables=PostgresMarketTables(),
        written=opened,
        beside=opened,
        ingested=partial(_in_a_thread, ingesting),
        read=opened,
    )


def _money_engine(dsn: str, pepper_file: Path) -> MoneyEngine:
    return MoneyEngine(
        pepper_file=pepper_file,
        connect=partial(PostgresDatabase, dsn),
        ledger=lambda pepper, clock: PostgresCreditLedger(dsn, pepper=pepper, clock=clock),
        credits=lambda pepper: CreditAccounts(PostgresCreditBook(dsn, pepper=pepper)),
        payments=partial(payment_store, dsn),
        books=partial(payment_books, dsn),
        accounts=partial(account_connections, dsn),
        webhooks=partial(webhook_queue, dsn),
        shared=lambda price, basis: SharedPrice(
            price, _in_a_thread(partial(PostgresDatabase, dsn)), basis
        ),
    )


def _in_a_thread(connect: Callable[[], Database]) -> AccessInThreads[Database]:
    return AccessInThreads(connect, threads=1)


def open_tables(dsn: str, kind: str) -> PostgresDatabase:
    """Migrate the tables of *kind*, money or market, and return a connection to them.

    Raises UnusableStore, DatabaseError.
    """
    migrate_tables(dsn, kind)
    return PostgresDatabase(dsn)


def _unusable(cause: DatabaseError) -> UnusableStore:
    error = StoreUnavailable if isinstance(cause, DatabaseAway) else UnusableStore
    what = "takes too long" if "statement timeout" in str(cause) else "does not answer"
    return error(f"the database {what}: {cause}")


@contextmanager
def _answering(otherwise: str) -> Iterator[None]:
    try:
        yield
    except DatabaseError as cause:
        raise StoreUnavailable(f"the database {otherwise}: {cause}") from cause


class PostgresEngine:
    """Opens the stores of an installation in the PostgreSQL database *dsn*.

    `SqliteEngine` describes the attributes and methods.
    """

    where = "the database of store"
    disk = None

    def __init__(self, dsn: str) -> None:
        self.place = dsn

    @asynccontextmanager
    async def open_market(
        self,
        *,
        follows_all: bool = False,
        retention: Retention = DEFAULT_RETENTION,
        epoch: int | None = None,
    ) -> AsyncIterator[Market]:
        """Run pending migrations, and open the market.

        With *epoch*, the writes of ingest fail once a later epoch has begun.
        """
        try:
            migrate_tables(self.place, "market")
            async with AsyncExitStack() as stack:
                engine = _market_engine(self.place, epoch)
                yield Market(engine, stack, follows_all=follows_all, retention=retention)
        except DatabaseError as cause:
            raise _unusable(cause) from cause

    @asynccontextmanager
    async def open_money(
        self, *, pepper: bytes | None, pepper_file: Path, clock: Clock, roots: Sequence[Root] = ()
    ) -> AsyncIterator[Money]:
        """Run pending migrations, and open the tables of credits, payments and accounts.

        If *pepper* is None, *pepper_file* has the pepper.  If this file is missing at first use, it
        is created if the store was never used with a pepper; otherwise UnusablePepper is raised.
        """
        try:
            migrate_tables(self.place, "money")
            async with AsyncExitStack() as stack:
                engine = _money_engine(self.place, pepper_file)
                yield Money(engine, stack, configured_pepper=pepper, clock=clock, roots=roots)
        except DatabaseError as cause:
            raise _unusable(cause) from cause

    @contextmanager
    def opened(self, kind: str, *, migrates: bool = True) -> Iterator[Database]:
        """Open the tables of *kind*, money or market, during the block.

        migrates   whether to run pending migrations first
        """
        tables = open_tables(self.place, kind) if migrates else PostgresDatabase(self.place)
        with closing(tables) as database:
            yield database

    def write_lock(self) -> IngestLock:
        """Return the right to write the market, which one process at a time can hold."""
        return IngestLock(self.place)

    @contextmanager
    def backfill_lock(self) -> Iterator[None]:
        """Let no other process read a backfill.  Raises BackfillIsRead if one does already."""
        with backfill_lock(self.place) as is_ours:
            if not is_ours:
                raise BackfillIsRead
            yield

    def windows(self) -> PostgresWindows:
        """Return the counters of rate limits, which all processes share, in this database."""
        try:
            migrate_tables(self.place, "limits")
        except DatabaseError as cause:
            raise _unusable(cause) from cause
        return PostgresWindows(self.place)

    @asynccontextmanager
    async def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AsyncIterator[Waiting]:
        """Yield a function that waits until the database notifies this process that the log grew.

        poll_interval_s   the seconds that the function waits if there is no connection
        settings          the settings, by name, that must be the same in all processes that wait
        Raises            UnusableStore if running processes have other settings; StoreUnavailable
        """
        refused = asyncio.get_running_loop().create_future()
        async with aclosing(MarketNotices(self.place, settings)) as notices:
            await notices.open()

            async def wait() -> None:
                if refused.done():  # the process is about to stop
                    await asyncio.sleep(poll_interval_s)
                    return
                try:
                    await notices.wait(poll_interval_s)
                except UnusableStore as error:
                    refused.set_result(error)

            yield Waiting(wait, refused)

    def back_up(self, target: Path, progress: copying.Progress) -> None:
        """Copy the installation, which may be running, into the new folder *target*.

        Pepper and roots are not copied.  `copying.copy` describes *progress*.
        Raises CannotCopy, UnusableStore.
        """
        copying.copy_running(self.place, f"{copying.SQLITE}{target}", progress)

    def restore(self, source: Path, progress: copying.Progress) -> None:
        """Restore the backup in the folder *source* to this database, which must be empty and idle.

        A backup of an older version is migrated first.  After an interruption, a call with the same
        *source* resumes.  Raises CannotCopy, UnusableStore.
        """
        place = f"{copying.SQLITE}{source}"
        # The backup is locked, too, because its pending migrations are run in it.
        with copying.expecting_no_service(place), copying.expecting_no_service(self.place):
            copying.copy_running(place, self.place, progress)

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Raise UnusableStore, because PostgreSQL compacts its own files."""
        raise UnusableStore("expected SQLite; the store is PostgreSQL, which frees space itself")

    def migrations(self, *, is_done: bool) -> list[str]:
        """Return the names of the pending migrations, all for a new store; if *is_done*, run them.

        Raises UnusableStore, StoreUnavailable.
        """
        with _answering("does not answer"):
            return migrate_all(self.place, is_done=is_done)

    def waiting_migrations(self) -> list[str]:
        """Return the names of the pending migrations; none for a new store.

        Raises UnusableStore, StoreUnavailable.
        """
        with _answering("does not answer"):
            return waits_for(self.place)

    @contextmanager
    def as_it_is(self) -> Iterator[Database]:
        """Open the database for reading; run no migrations.  Raises DatabaseError."""
        with closing(PostgresDatabase(self.place)) as database:
            yield database

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Return *plan* with the duration of each migration, measured in a transaction.

        The transaction is rolled back.  If the service runs, nothing is measured, and `why_not` of
        the result gives the reason.

        scratch   ignored, because nothing is copied
        Raises    UnusableStore, StoreUnavailable
        """
        del scratch
        try:
            with _answering("refuses the rehearsal"), copying.expecting_no_service(self.place):
                ran = rehearse(self.place)
        except copying.CannotCopy:
            why = "the service runs, and a rehearsal locks its tables"
            return plan._replace(why_not=f"{why}: stop it, or ask a restored copy")
        return plan._replace(steps=[Step(*each) for each in ran])
