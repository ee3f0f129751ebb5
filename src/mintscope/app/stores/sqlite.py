"""Opens the stores of an installation that are SQLite files; each is opened at first use."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AsyncExitStack,
    ExitStack,
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
from mintscope.app.stores import copying
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    WEBHOOKS_FILE,
    free_bytes,
    held,
)
from mintscope.app.stores.market import Market, MarketEngine
from mintscope.app.stores.money import Money, MoneyEngine
from mintscope.app.stores.upgrade import Plan, Step
from mintscope.credits.sqlite import CreditBook, SqliteCreditLedger
from mintscope.credits.store import CreditAccounts
from mintscope.history.backfill import BackfillIsRead
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.errors import FolderInUse, StoreUnavailable, UnusableStore
from mintscope.kit.files import access_trouble, make_folder
from mintscope.kit.sql import sqlite
from mintscope.kit.sql.database import (
    AccessAtOnce,
    AccessInThreads,
    Database,
    DatabaseAccess,
    DatabaseError,
)
from mintscope.kit.sql.group_commit import PATIENCE_S
from mintscope.market.follow.tailer import Waiting
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.store.log_writer import LogCopier
from mintscope.market.store.sqlite import SqliteMarketTables, copy_log, version
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore

READ_PATIENCE_MS: Final = 100  # readers wait only during a recovery of the file
TAKEN: Final = "SELECT coalesce(max(firing), 0) FROM webhook_taken"
GIVEN: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'signal_firing'"
# Two statements, because sqlite_sequence has no unique index: an upsert is not possible.
GIVE_ON: Final = (
    "DELETE FROM sqlite_sequence WHERE name = 'signal_firing'",
    "INSERT INTO sqlite_sequence (seq, name) VALUES (?, 'signal_firing')",
)


def payment_store(path: Path, *, patience_s: float = PATIENCE_S) -> SqlPaymentStore:
    """Return the tables of payments, their outcomes and rotations in the file at *path*."""
    return SqlPaymentStore(
        sqlite.SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s
    )


def payment_books(path: Path) -> SqlPaymentBooks:
    """Return the tables of payments, credits and totals in the file at *path*, for audits."""
    return SqlPaymentBooks(sqlite.SqliteDatabase(path, "money"))


def account_connections(path: Path, *, patience_s: float = PATIENCE_S) -> AccountConnections:
    """Return connections to the tables of accounts in the file *path*, for reads and writes."""
    return AccountConnections(
        sqlite.SqliteDatabase(path, "money"), _reading(path), patience_s=patience_s
    )


def webhook_queue(path: Path, *, patience_s: float = PATIENCE_S) -> SqlWebhookQueue:
    """Return the queue of webhooks in the file at *path*."""
    reading = partial(
        sqlite.SqliteDatabase, path, "webhooks", busy_timeout_ms=READ_PATIENCE_MS, may_write=False
    )  # in a thread, because counting many rows takes long
    writing = sqlite.SqliteDatabase(path, "webhooks")
    access: DatabaseAccess[Database] = AccessInThreads(reading, threads=1)
    connections = AccountConnections(writing, access, patience_s=patience_s)
    return SqlWebhookQueue(connections, tidy=lambda db: sqlite.return_free_pages(db, "webhooks"))


def number_firings_on(money: Path, webhooks: Path) -> None:
    """Prevent new firings from getting numbers that the webhook queue has already taken.

    A money file that is new, or older than the queue, would assign these numbers again.  Webhooks
    of such firings would not be sent, and receivers would know their `webhook-id` already.
    """
    with (
        closing(sqlite.SqliteDatabase(webhooks, "webhooks")) as queue,
        closing(sqlite.SqliteDatabase(money, "money")) as database,
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
    database = sqlite.SqliteDatabase(
        path, "money", busy_timeout_ms=READ_PATIENCE_MS, may_write=False
    )
    return AccessAtOnce(database)


def _compact(path: Path, kind: str) -> tuple[str, int, int]:
    before = path.stat().st_size
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            if sqlite.SIZES.get(kind, sqlite.USUAL_SIZES).shrinks:
                # This has no effect on an existing file before the next VACUUM.
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")
            # VACUUM writes to the write-ahead log; the file itself shrinks only now.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error as cause:
        raise StoreUnavailable(f"expected to rewrite {path}: {cause}") from cause
    return path.name, before, path.stat().st_size


WAL: Final = "-wal"

# Errors that may end by themselves, or that an operator can fix, such as a lock or a full disk.
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
        return AccessAtOnce(sqlite.SqliteDatabase(path, "market"))

    def beside(*, read_only: bool = False) -> AccessInThreads[Database]:
        connect = partial(sqlite.SqliteDatabase, path, "market", read_only=read_only)
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


def _money_engine(path: Path, pepper_file: Path) -> MoneyEngine:
    return MoneyEngine(
        pepper_file=pepper_file,
        connect=partial(sqlite.SqliteDatabase, path, "money"),
        ledger=lambda pepper, clock: SqliteCreditLedger(path, pepper=pepper, clock=clock),
        credits=lambda pepper: CreditAccounts(CreditBook(path, pepper=pepper)),
        payments=partial(payment_store, path),
        books=partial(payment_books, path),
        accounts=partial(account_connections, path),
        webhooks=partial(_open_queue, path),
    )


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
    # A DatabaseError does not show whether the failure may pass; the error of apsw behind it does.
    first = cause.__cause__ if isinstance(cause, DatabaseError) else cause
    error = StoreUnavailable if isinstance(first, PASSING) else UnusableStore
    why = access_trouble(folder / copying.FILES[kind]) or cause
    return error(f"the {kind} file in {folder} does not answer: {why}")


class _OnlyOne:
    """The lock for writing the market; with SQLite, this process already has it."""

    epoch = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Enter the block at once, because the process has already locked the folder."""
        yield

    async def keep(self) -> None:
        """Wait until cancelled: a lock on the folder cannot be lost."""
        await asyncio.Event().wait()


class SqliteEngine:
    """Opens the stores of an installation that are SQLite files in one folder.

    place   the place of the stores, for `mintscope copy`
    where   the place in words, for messages
    disk    the folder of the stores

    `open_market` and `open_money` raise UnusableStore, also for errors at the first use of a port.
    """

    def __init__(self, folder: Path) -> None:
        self.place = f"{copying.SQLITE}{folder}"
        self.where = str(folder)
        self.disk = folder

    @asynccontextmanager
    async def open_market(
        self,
        *,
        follows_all: bool = False,
        retention: Retention = DEFAULT_RETENTION,
        epoch: int | None = None,
    ) -> AsyncIterator[Market]:
        """Open the market file; *epoch* is not needed, because a file has only one writer."""
        del epoch
        path = _path("market", self.disk, MARKET_FILE)
        try:
            async with AsyncExitStack() as stack:
                engine = _market_engine(path)
                yield Market(engine, stack, follows_all=follows_all, retention=retention)
        except (apsw.Error, DatabaseError) as cause:
            raise _unusable("market", self.disk, cause) from cause

    @asynccontextmanager
    async def open_money(
        self, *, pepper: bytes | None, pepper_file: Path, clock: Clock, roots: Sequence[Root] = ()
    ) -> AsyncIterator[Money]:
        """Open the tables of credits, payments and accounts.

        If *pepper* is None, *pepper_file* has the pepper.  If this file is missing at first use, it
        is created if the store was never used with a pepper; otherwise UnusablePepper is raised.
        """
        path = _path("money", self.disk, MONEY_FILE)
        try:
            async with AsyncExitStack() as stack:
                engine = _money_engine(path, pepper_file)
                yield Money(engine, stack, configured_pepper=pepper, clock=clock, roots=roots)
        except (apsw.Error, DatabaseError) as cause:
            raise _unusable("money", self.disk, cause) from cause

    @contextmanager
    def opened(self, kind: str, *, migrates: bool = True) -> Iterator[Database]:
        """Open the tables of *kind*, money or market, during the block.

        migrates   whether to run pending migrations first
        Raises     UnusableStore, DatabaseError
        """
        path = _path(kind, self.disk, copying.FILES[kind])
        with closing(sqlite.SqliteDatabase(path, kind, migrates=migrates)) as database:
            yield database

    def write_lock(self) -> _OnlyOne:
        """Return a lock that the process always holds, because it has locked the folder."""
        return _OnlyOne()

    @contextmanager
    def backfill_lock(self) -> Iterator[None]:
        """Let no other process read a backfill.  Raises BackfillIsRead if one does already."""
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.disk, "history", may_be_open=True))
            except FolderInUse:
                raise BackfillIsRead from None
            yield

    def windows(self) -> None:
        """Return None, because the only process counts requests in memory."""

    @asynccontextmanager
    async def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AsyncIterator[Waiting]:
        """Yield a function that waits for *poll_interval_s*: SQLite does not notify of changes."""
        del settings
        refused = asyncio.get_running_loop().create_future()  # there is no other process
        yield Waiting(partial(asyncio.sleep, poll_interval_s), refused)

    def back_up(self, target: Path, progress: copying.Progress) -> None:
        """Copy the installation, which may be running, into the new folder *target*.

        Pepper and roots are not copied.  `copying.copy_files` describes *progress* and the errors.
        """
        copying.copy_files(self.disk, target, progress, has_secrets=False)

    def restore(self, source: Path, progress: copying.Progress) -> None:
        """Restore the backup in the folder *source* to this folder, which must be empty and unused.

        Raises FolderInUse if the service runs; the errors of `copy_files`.
        """
        with copying.expecting_no_service(self.place):
            copying.copy_files(source, self.disk, progress)

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Compact the files; return the name of each, and its size in bytes before and after.

        Afterwards the files of market and webhooks can shrink by themselves.  A file needs free
        space for up to two copies: in the folder for temporary files, and in its write-ahead log.
        Raises FolderInUse if the service runs; StoreUnavailable if a file cannot be rewritten,
        which then stays unchanged.
        """
        with copying.expecting_no_service(self.place):
            files = [(self.disk / name, kind) for kind, name in sorted(copying.FILES.items())]
            return [_compact(path, kind) for path, kind in files if path.exists()]

    def migrations(self, *, is_done: bool) -> list[str]:
        """Return the names of the migrations that are pending; if *is_done*, run them, too.

        For a new store, these are all migrations.  Raises UnusableStore, StoreUnavailable; with
        *is_done*, also apsw.Error.
        """
        return [
            f"{kind} {name}"
            for kind, file in copying.FILES.items()
            for name in sqlite.migrate_file(self.disk / file, kind, is_done=is_done)
        ]

    def waiting_migrations(self) -> list[str]:
        """Return the names of the pending migrations; none for a new store.

        Raises UnusableStore, StoreUnavailable.
        """
        return [
            f"{kind} {name}"
            for kind, file in copying.FILES.items()
            for name in sqlite.waits_for(self.disk / file, kind)
        ]

    @contextmanager
    def as_it_is(self) -> Iterator[Database]:
        """Open the tables of money for reading, without migrating them.  Raises DatabaseError."""
        with closing(sqlite.SqliteDatabase.as_it_is(self.disk / MONEY_FILE)) as file:
            yield file

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Return *plan* with the duration of each migration, measured on copies of the files.

        The result also has the bytes that the migrations need.
        If there is no space for the copies, nothing is measured, and `why_not` of the result gives
        the reason.

        scratch   the folder for the copies; None: the folder of the store
        Raises    UnusableStore, StoreUnavailable
        """
        names = [
            (kind, file)
            for kind, file in copying.FILES.items()
            if sqlite.waits_for(self.disk / file, kind)
        ]
        size = sum(_size(self.disk / file) for _, file in names)
        where = scratch or self.disk
        free = free_bytes(where)
        if free < 3 * size:
            need = f"{3 * size:,} bytes are needed in {where}, {free:,} are free: --scratch DIR"
            return plan._replace(why_not=f"there is no space for a copy: {need}")
        steps: list[Step] = []
        needed = 0
        with TemporaryDirectory(prefix=".mintscope-upgrade-", dir=where) as copies:
            for kind, file in names:
                copied = Path(copies) / file
                copying.copy_file(self.disk / file, copied, lambda *_: None)
                before = most = _size(copied)
                for name, took_s in sqlite.run_each(copied, kind):
                    steps.append(Step(kind, name, took_s))
                    most = max(most, _size(copied))
                needed += most - before
        return plan._replace(steps=steps, bytes_needed=needed)


def _size(path: Path) -> int:
    """Return the size, in bytes, of the SQLite file *path* with its write-ahead log."""
    both = (path, path.with_name(path.name + WAL))
    return sum(each.stat().st_size for each in both if each.exists())
