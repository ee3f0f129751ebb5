"""The openers of this engine: each yields ports of the core, opened at first use, over one file."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from mintscope.accounts.people.store import AccountConnections
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    PEPPER_FILE,
    WEBHOOKS_FILE,
    load_pepper,
)
from mintscope.app.stores.market import Market
from mintscope.app.stores.money import Money
from mintscope.app.stores.sqlite_stores import (
    account_connections,
    number_firings_on,
    payment_books,
    payment_store,
    webhook_queue,
)
from mintscope.credits.store.sqlite import SqliteCreditAccounts, SqliteCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.errors import StoreUnavailable, UnusableStore
from mintscope.kit.secrets import Root
from mintscope.kit.sql.database import AccessAtOnce, AccessInThreads, Database, DatabaseError
from mintscope.kit.sql.identity import IS_USED
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.store.sqlite import SqliteMarketTables, version
from mintscope.payments.price_cache import PriceSource
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore

# Errors that end by themselves, or by an operator: room, a disk, a lock.
PASSING: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    OSError,
)


class _MarketFile:
    """Implements MarketEngine over a file."""

    tables = SqliteMarketTables()
    version = staticmethod(version)

    def __init__(self, path: Path) -> None:
        self._path = path

    def written(self) -> AccessAtOnce[Database]:
        return AccessAtOnce(SqliteDatabase(self._path, "market"))

    def beside(self) -> AccessInThreads[Database]:
        return AccessInThreads(partial(SqliteDatabase, self._path, "market"), threads=1)

    def ingested(self) -> AccessAtOnce[Database]:
        return self.written()

    def read(self) -> AccessInThreads[Database]:
        connect = partial(SqliteDatabase, self._path, "market", read_only=True)
        return AccessInThreads(connect, threads=1)


class _MoneyFile:
    """Implements MoneyEngine over a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def kept_pepper(self, *, signs: bool) -> bytes:
        path = self._path.with_name(PEPPER_FILE)
        with closing(SqliteDatabase(self._path, "money")) as db:
            may_make = not db.execute(IS_USED).get
        return load_pepper(path, signs=signs, may_make=may_make)

    def ledger(self, pepper: bytes, clock: Clock) -> SqliteCreditLedger:
        return SqliteCreditLedger(self._path, pepper=pepper, clock=clock)

    def credits(self, pepper: bytes) -> SqliteCreditAccounts:
        return SqliteCreditAccounts(self._path, pepper=pepper)

    def payments(self) -> SqlPaymentStore:
        return payment_store(self._path)

    def books(self) -> SqlPaymentBooks:
        return payment_books(self._path)

    def accounts(self) -> AccountConnections:
        return account_connections(self._path)

    def shared(self, price: PriceSource) -> None:
        """One process sells."""


@asynccontextmanager
async def open_market(
    folder: Path, *, follows_all: bool = False, retention: Retention = DEFAULT_RETENTION
) -> AsyncIterator[Market]:
    """Open the market in *folder*.

    follows_all   track every mint that trades, not only those listed
    retention     how long candles are kept
    Raises        UnusableStore, here and when a port is first used
    """
    path = _path("market", folder, MARKET_FILE)
    try:
        async with AsyncExitStack() as stack:
            file = _MarketFile(path)
            yield Market(file, stack, follows_all=follows_all, retention=retention)
    except (apsw.Error, DatabaseError) as cause:
        raise _unusable("market", folder, cause) from cause


@asynccontextmanager
async def open_money(
    folder: Path, *, pepper: bytes | None, clock: Clock, roots: Sequence[Root] = ()
) -> AsyncIterator[Money]:
    """Open credits, payments and accounts in *folder*.

    pepper    None: the one kept in *folder*, made if there is none
    roots     what signs in its place, one after the other
    Raises    UnusableStore, here and when a port is first used
    """
    path = _path("money", folder, MONEY_FILE)
    try:
        async with AsyncExitStack() as stack:
            yield Money(
                _MoneyFile(path),
                stack,
                queue=partial(_open_queue, path),
                pepper=pepper,
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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise _unusable(kind, folder, cause) from cause
    return folder / name


def _unusable(kind: str, folder: Path, cause: Exception) -> UnusableStore:
    first = cause.__cause__ if isinstance(cause, DatabaseError) else cause
    error = StoreUnavailable if isinstance(first, PASSING) else UnusableStore
    return error(f"the {kind} file in {folder} does not answer: {cause}")
