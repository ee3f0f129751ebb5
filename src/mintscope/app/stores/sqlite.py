"""The engine for SQLite files, each of which is opened at first use."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import apsw

from mintscope.accounts.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores.backup import copy_file, copy_files
from mintscope.app.stores.copying import FILES, Progress
from mintscope.app.stores.engines import Plan, Secrets, Step, StoreMaintenance
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    PEPPER_FILE,
    WEBHOOKS_FILE,
    held,
    load_pepper,
)
from mintscope.app.stores.market import Market, MarketEngine
from mintscope.app.stores.money import Money, MoneyEngine
from mintscope.app.stores.places import SQLITE, expecting_no_service, free_bytes
from mintscope.credits.sqlite import SqliteCreditAccounts, SqliteCreditLedger
from mintscope.history.backfill import BackfillIsRead
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.errors import FolderInUse, StoreUnavailable, UnusableStore
from mintscope.kit.files import access_trouble, make_folder
from mintscope.kit.sql.database import (
    AccessAtOnce,
    AccessInThreads,
    Database,
    DatabaseAccess,
    DatabaseError,
)
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.kit.sql.identity import IS_USED
from mintscope.kit.sql.sqlite import (
    SIZES,
    USUAL_SIZES,
    SqliteDatabase,
    migrate_file,
    return_free_pages,
    run_each,
    waits_for,
)
from mintscope.market.follow.tailer import Wait
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.store.log_writer import LogCopier
from mintscope.market.store.sqlite import SqliteMarketTables, copy_log, version
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore

READ_PATIENCE_MS: Final = 100  # readers wait only during a recovery of the file
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
    )  # in a thread, because counting many rows takes long
    writing = SqliteDatabase(path, "webhooks")
    access: DatabaseAccess[Database] = AccessInThreads(reading, threads=1)
    connections = AccountConnections(writing, access, patience_s=patience_s)
    return SqlWebhookQueue(connections, tidy=lambda db: return_free_pages(db, "webhooks"))


def number_firings_on(money: Path, webhooks: Path) -> None:
    """Prevent new firings from getting numbers that the webhook queue has already taken.

    A money file that is new, or older than the queue, would assign these numbers again.  Webhooks
    of such firings would not be sent, and receivers would know their `webhook-id` already.
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
    # The connection cannot write, so that a read that tries to write fails.
    database = SqliteDatabase(path, "money", busy_timeout_ms=READ_PATIENCE_MS, may_write=False)
    return AccessAtOnce(database)


def _compact(path: Path, kind: str) -> tuple[str, int, int]:
    before = path.stat().st_size
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            if SIZES.get(kind, USUAL_SIZES).shrinks:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error as cause:
        raise StoreUnavailable(f"expected to rewrite {path}: {cause}") from cause
    return path.name, before, path.stat().st_size


WAL: Final = "-wal"

# Errors that pass, or that an operator can fix, such as a full disk, a failing disk or a lock.
PASSING: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    OSError,
)


def _market_engine(path: Path) -> MarketEngine:
    def written() -> AccessAtOnce[Database]:
        return AccessAtOnce(SqliteDatabase(path, "market"))

    def beside(*, read_only: bool = False) -> AccessInThreads[Database]:
        connect = partial(SqliteDatabase, path, "market", read_only=read_only)
        return AccessInThreads(connect, threads=1)

    return MarketEngine(
        tables=SqliteMarketTables(),
        written=written,
        beside=beside,
        ingested=written,
        read=partial(beside, read_only=True),
        copying=lambda: LogCopier(beside(), copy_log),
        version=version,
    )


def _money_engine(path: Path, *, signs: bool) -> MoneyEngine:
    def kept_pepper() -> bytes:
        with closing(SqliteDatabase(path, "money")) as db:
            may_make = not db.execute(IS_USED).get
        return load_pepper(path.with_name(PEPPER_FILE), signs=signs, may_make=may_make)

    return MoneyEngine(
        kept_pepper=kept_pepper,
        ledger=lambda pepper, clock: SqliteCreditLedger(path, pepper=pepper, clock=clock),
        credits=lambda pepper: SqliteCreditAccounts(path, pepper=pepper),
        payments=partial(payment_store, path),
        books=partial(payment_books, path),
        accounts=partial(account_connections, path),
        webhooks=partial(_open_queue, path),
    )


@asynccontextmanager
async def open_market(
    folder: Path, *, follows_all: bool = False, retention: Retention = DEFAULT_RETENTION
) -> AsyncIterator[Market]:
    """Open the market in *folder*.

    follows_all   whether to track every mint that trades, not only the listed ones
    retention     how long candles and swaps are stored
    Raises        UnusableStore, here or at the first use of a port
    """
    path = _path("market", folder, MARKET_FILE)
    try:
        async with AsyncExitStack() as stack:
            engine = _market_engine(path)
            yield Market(engine, stack, follows_all=follows_all, retention=retention)
    except (apsw.Error, DatabaseError) as cause:
        raise _unusable("market", folder, cause) from cause


@asynccontextmanager
async def open_money(
    folder: Path, *, pepper: bytes | None, clock: Clock, roots: Sequence[Root] = ()
) -> AsyncIterator[Money]:
    """Open credits, payments and accounts in *folder*.

    pepper    the configured pepper; None: the pepper in *folder*, created if missing
    roots     the roots from which signing keys derive instead of the pepper, each from its time on
    Raises    UnusableStore, here or at the first use of a port
    """
    path = _path("money", folder, MONEY_FILE)
    try:
        async with AsyncExitStack() as stack:
            yield Money(
                _money_engine(path, signs=not roots),
                stack,
                configured_pepper=pepper,
                clock=clock,
                roots=roots,
            )
    except (apsw.Error, DatabaseError) as cause:
        raise _unusable("money", folder, cause) from cause


def _open_queue(money: Path) -> SqlWebhookQueue:
    path = money.with_name(WEBHOOKS_FILE)
    try:
        number_firings_on(money, path)
        return webhook_queue(path)
    except DatabaseError as cause:
        raise _unusable("webhooks", path.parent, cause) from cause


def _path(kind: str, folder: Path, name: str) -> Path:
    try:
        make_folder(folder)
    except OSError as cause:
        raise _unusable(kind, folder, cause) from cause
    return folder / name


def _unusable(kind: str, folder: Path, cause: Exception) -> UnusableStore:
    first = cause.__cause__ if isinstance(cause, DatabaseError) else cause
    error = StoreUnavailable if isinstance(first, PASSING) else UnusableStore
    why = access_trouble(folder / FILES[kind]) or cause
    return error(f"the {kind} file in {folder} does not answer: {why}")


class _OnlyOne:
    """Implements WriteLock for the one process that has locked the data folder."""

    epoch = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Return at once, because the process has already locked the folder."""
        yield

    async def keep(self) -> None:
        """Wait until cancelled, because the lock cannot be lost."""
        await asyncio.Event().wait()


class _SqliteMaintenance:
    """Implements StoreMaintenance for the files of *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = f"{SQLITE}{folder}"
        self.disk: Path | None = folder

    def back_up(self, target: Path, progress: Progress) -> None:
        copy_files(self._folder, target, progress, has_secrets=False)

    def restore(self, source: Path, progress: Progress) -> None:
        with expecting_no_service(self._place):
            copy_files(source, self._folder, progress)

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Compact the files; afterwards the files of market and webhooks can shrink by themselves.

        Each file needs as much free space as its size.
        Raises FolderInUse if the service runs; StoreUnavailable if a file cannot be rewritten,
        which then stays unchanged.
        """
        with expecting_no_service(self._place):
            files = [(self._folder / name, kind) for kind, name in sorted(FILES.items())]
            return [_compact(path, kind) for path, kind in files if path.exists()]

    def migrations(self, *, is_done: bool) -> list[str]:
        return [
            f"{kind} {name}"
            for kind, file in FILES.items()
            for name in migrate_file(self._folder / file, kind, is_done=is_done)
        ]

    def waiting(self) -> list[str]:
        return [
            f"{kind} {name}"
            for kind, file in FILES.items()
            for name in waits_for(self._folder / file, kind)
        ]

    @contextmanager
    def as_it_is(self) -> Iterator[Database]:
        with closing(SqliteDatabase.as_it_is(self._folder / MONEY_FILE)) as file:
            yield file

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Time the migrations on a copy of each file that has pending migrations."""
        names = [
            (kind, file) for kind, file in FILES.items() if waits_for(self._folder / file, kind)
        ]
        size = sum(_size(self._folder / file) for _, file in names)
        where = scratch or self._folder
        free = free_bytes(where)
        if free < 3 * size:
            need = f"{3 * size:,} bytes are needed in {where}, {free:,} are free: --scratch DIR"
            return plan._replace(why_not=f"there is no space for a copy: {need}")
        steps: list[Step] = []
        needed = 0
        with TemporaryDirectory(prefix=".mintscope-upgrade-", dir=where) as copies:
            for kind, file in names:
                copied = Path(copies) / file
                copy_file(self._folder / file, copied, lambda *_: None)
                before = most = _size(copied)
                for name, took_s in run_each(copied, kind):
                    steps.append(Step(kind, name, took_s))
                    most = max(most, _size(copied))
                needed += most - before
        return plan._replace(steps=steps, bytes_needed=needed)


class SqliteEngine:
    """Implements Engine for the files of *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = f"{SQLITE}{folder}"
        self.where = str(folder)
        self.maintenance: StoreMaintenance = _SqliteMaintenance(folder)

    def open_market(
        self, retention: Retention, *, follows_all: bool, epoch: int | None
    ) -> AbstractAsyncContextManager[Market]:
        """Open the market; *epoch* is ignored, because files have only one writer."""
        del epoch
        return open_market(self._folder, follows_all=follows_all, retention=retention)

    def open_money(self, secrets: Secrets, clock: Clock) -> AbstractAsyncContextManager[Money]:
        """Open credits, payments and accounts."""
        return open_money(self._folder, pepper=secrets.pepper, clock=clock, roots=secrets.roots)

    @contextmanager
    def opened(self, kind: str) -> Iterator[Database]:
        """Open the tables of *kind*, money or market, for a short time; migrate them first."""
        path = _path(kind, self._folder, FILES[kind])
        with closing(SqliteDatabase(path, kind)) as database:
            yield database

    def write_lock(self) -> _OnlyOne:
        """Return a lock that the process always holds, because it has locked the folder."""
        return _OnlyOne()

    @contextmanager
    def backfill_lock(self) -> Iterator[None]:
        """Hold the backfill lock during the block.  Raises BackfillIsRead if the lock is taken."""
        try:
            with held(self._folder, "history", may_be_open=True):
                yield
        except FolderInUse:
            raise BackfillIsRead from None

    def windows(self) -> None:
        """Return None, because the only process counts requests in memory."""

    @asynccontextmanager
    async def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AsyncIterator[Wait]:
        """Yield a function that waits for an interval, because files send no notices."""
        del settings
        yield partial(asyncio.sleep, poll_interval_s)


def _size(path: Path) -> int:
    """Return the size, in bytes, of the SQLite file *path* with its write-ahead log."""
    both = (path, path.with_name(path.name + WAL))
    return sum(each.stat().st_size for each in both if each.exists())
