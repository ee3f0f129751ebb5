"""The engine for a PostgreSQL database."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
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
from mintscope.app.stores.copying import CannotCopy, Progress
from mintscope.app.stores.engines import Plan, Secrets, Step, StoreMaintenance
from mintscope.app.stores.folder import load_pepper
from mintscope.app.stores.market import Market, MarketEngine
from mintscope.app.stores.money import Money, MoneyEngine
from mintscope.app.stores.places import (
    SQLITE,
    copy_installation,
    copy_running,
    expecting_no_service,
)
from mintscope.app.stores.postgres_side import is_auditor
from mintscope.credits.postgres import PostgresCreditAccounts, PostgresCreditLedger
from mintscope.history.backfill import BackfillIsRead
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.errors import StoreUnavailable, UnusableStore
from mintscope.kit.sql.database import AccessInThreads, Database, DatabaseAway, DatabaseError
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.identity import IS_USED
from mintscope.kit.sql.migrating import migrate_all, migrate_tables, rehearse, waits_for
from mintscope.kit.sql.postgres import PostgresDatabase, WriteLock
from mintscope.kit.sql.postgres_limits import PostgresWindows
from mintscope.kit.sql.processes import IngestLock, MarketNotices, backfill_lock
from mintscope.market.follow.tailer import Wait
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.store.postgres import PostgresMarketTables
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.payments.store.postgres import SharedPrice


def payment_store(dsn: str, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the payments in the database *dsn*."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn))
    return SqlPaymentStore(PostgresDatabase(dsn), reading, patience_s=patience_s)


def payment_books(dsn: str) -> SqlPaymentBooks:
    """Return the books of the payments in the database *dsn*."""
    database = PostgresDatabase(dsn)
    return SqlPaymentBooks(database, is_auditor=partial(is_auditor, database))


def account_connections(dsn: str, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return the connections to the accounts in the database *dsn*."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn))
    return AccountConnections(PostgresDatabase(dsn), reading, patience_s=patience_s)


def webhook_queue(dsn: str, *, patience_s: float = PATIENCE_S) -> SqlWebhookQueue:
    """Return the queue of webhooks in the database *dsn*, with tables and a lock of its own."""
    reading = AccessInThreads(partial(PostgresDatabase, dsn), threads=1)
    writing = PostgresDatabase(dsn, WriteLock.WEBHOOKS)
    return SqlWebhookQueue(AccountConnections(writing, reading, patience_s=patience_s))


@asynccontextmanager
async def open_market(
    dsn: str,
    *,
    follows_all: bool = False,
    retention: Retention = DEFAULT_RETENTION,
    epoch: int | None = None,
) -> AsyncIterator[Market]:
    """Migrate the schema in the database *dsn*, and open the market.

    follows_all   whether to track every mint that trades, not only the listed ones
    retention     how long candles and swaps are stored
    epoch         the epoch in which ingest may write; None: this process does not ingest
    Raises        UnusableStore; StoreUnavailable if the server does not answer
    """
    try:
        migrate_tables(dsn, "market")
        async with AsyncExitStack() as stack:
            engine = _market_engine(dsn, epoch)
            yield Market(engine, stack, follows_all=follows_all, retention=retention)
    except DatabaseError as cause:
        raise _unusable(cause) from cause


@asynccontextmanager
async def open_money(
    dsn: str,
    *,
    pepper: bytes | None,
    pepper_file: Path,
    clock: Clock,
    roots: Sequence[Root] = (),
) -> AsyncIterator[Money]:
    """Migrate the schema in the database *dsn*, and open credits, payments and accounts.

    pepper    the configured pepper; None: the pepper in *pepper_file*, created if missing
    roots     the roots from which signing keys derive instead of the pepper, each from its time on
    Raises    UnusableStore; StoreUnavailable if the server does not answer
    """
    try:
        migrate_tables(dsn, "money")
        async with AsyncExitStack() as stack:
            yield Money(
                _money_engine(dsn, pepper_file, signs=not roots),
                stack,
                configured_pepper=pepper,
                clock=clock,
                roots=roots,
            )
    except DatabaseError as cause:
        raise _unusable(cause) from cause


def open_windows(dsn: str) -> PostgresWindows:
    """Migrate the schema in the database *dsn*, and return the windows of rate limits.

    Raises UnusableStore; StoreUnavailable if the server does not answer.
    """
    try:
        migrate_tables(dsn, "limits")
    except DatabaseError as cause:
        raise _unusable(cause) from cause
    return PostgresWindows(dsn)


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


def _money_engine(dsn: str, pepper_file: Path, *, signs: bool) -> MoneyEngine:
    def kept_pepper() -> bytes:
        with closing(PostgresDatabase(dsn)) as db:
            may_make = not db.execute(IS_USED).get
        return load_pepper(pepper_file, signs=signs, may_make=may_make)

    return MoneyEngine(
        kept_pepper=kept_pepper,
        ledger=lambda pepper, clock: PostgresCreditLedger(dsn, pepper=pepper, clock=clock),
        credits=lambda pepper: PostgresCreditAccounts(dsn, pepper=pepper),
        payments=partial(payment_store, dsn),
        books=partial(payment_books, dsn),
        accounts=partial(account_connections, dsn),
        webhooks=partial(webhook_queue, dsn),
        shared=lambda price: SharedPrice(price, _in_a_thread(partial(PostgresDatabase, dsn))),
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


class _PostgresMaintenance:
    """Implements StoreMaintenance for the database *dsn*."""

    disk: Path | None = None

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def back_up(self, target: Path, progress: Progress) -> None:
        copy_running(self._dsn, f"{SQLITE}{target}", progress)

    def restore(self, source: Path, progress: Progress) -> None:
        copy_installation(f"{SQLITE}{source}", self._dsn, progress)

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Raise UnusableStore, because PostgreSQL compacts its own files."""
        raise UnusableStore("expected files of SQLite; the store is a PostgreSQL, which vacuums")

    def migrations(self, *, is_done: bool) -> list[str]:
        with _answering("does not answer"):
            return migrate_all(self._dsn, is_done=is_done)

    def waiting(self) -> list[str]:
        with _answering("does not answer"):
            return waits_for(self._dsn)

    @contextmanager
    def as_it_is(self) -> Iterator[Database]:
        with closing(PostgresDatabase(self._dsn)) as database:
            yield database

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Unless the service runs, time the migrations in a transaction, and roll it back."""
        del scratch
        try:
            with _answering("refuses the rehearsal"), expecting_no_service(self._dsn):
                ran = rehearse(self._dsn)
        except CannotCopy:
            why = "the service runs, and a rehearsal locks its tables"
            return plan._replace(why_not=f"{why}: stop it, or ask a restored copy")
        return plan._replace(steps=[Step(*each) for each in ran])


class PostgresEngine:
    """Implements Engine for the database *dsn*."""

    where = "the database of store"

    def __init__(self, dsn: str) -> None:
        self.place = dsn
        self.maintenance: StoreMaintenance = _PostgresMaintenance(dsn)

    def open_market(
        self, retention: Retention, *, follows_all: bool, epoch: int | None
    ) -> AbstractAsyncContextManager[Market]:
        """Open the market; with *epoch*, writing fails once a later epoch has begun."""
        return open_market(self.place, follows_all=follows_all, retention=retention, epoch=epoch)

    def open_money(self, secrets: Secrets, clock: Clock) -> AbstractAsyncContextManager[Money]:
        """Open credits, payments and accounts."""
        return open_money(
            self.place,
            pepper=secrets.pepper,
            pepper_file=secrets.file,
            clock=clock,
            roots=secrets.roots,
        )

    @contextmanager
    def opened(self, kind: str) -> Iterator[Database]:
        """Open the tables of *kind*, money or market, for a short time; migrate them first."""
        with closing(open_tables(self.place, kind)) as database:
            yield database

    def write_lock(self) -> IngestLock:
        """Return the lock of the process that writes the market."""
        return IngestLock(self.place)

    @contextmanager
    def backfill_lock(self) -> Iterator[None]:
        """Hold the backfill lock during the block.  Raises BackfillIsRead if the lock is taken."""
        with backfill_lock(self.place) as is_ours:
            if not is_ours:
                raise BackfillIsRead
            yield

    def windows(self) -> PostgresWindows:
        """Return the shared counters of requests, which are in the database."""
        return open_windows(self.place)

    @asynccontextmanager
    async def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AsyncIterator[Wait]:
        """Yield a function that waits for the database's notice that the log has grown."""
        async with aclosing(MarketNotices(self.place, settings)) as notices:
            await notices.open()
            yield partial(notices.wait, poll_interval_s)
