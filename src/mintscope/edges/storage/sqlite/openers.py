"""The openers of this engine: each yields ports of the core, opened at first use, over one file."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from mintscope.base.clock import Clock
from mintscope.base.errors import StoreUnavailable, UnusableStore
from mintscope.core.market.history.store import (
    HistoryJobs,
    HistoryJoin,
    HistoryReading,
    PastFolding,
)
from mintscope.core.market.mint_facts import MintFactStore
from mintscope.core.market.store import (
    DEFAULT_RETENTION,
    MarketReader,
    MarketStore,
    Retention,
    Tracking,
)
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE, load_pepper
from mintscope.edges.storage.money import Money
from mintscope.edges.storage.sql.accounts.connections import AccountConnections
from mintscope.edges.storage.sql.money.books import SqlPaymentBooks
from mintscope.edges.storage.sql.money.payments import SqlPaymentStore
from mintscope.edges.storage.sqlite.market.history import SqliteHistory
from mintscope.edges.storage.sqlite.market.log_reader import SqliteLogReader
from mintscope.edges.storage.sqlite.market.log_writer import SqliteMarketStore
from mintscope.edges.storage.sqlite.market.mint_facts import SqliteMintFacts
from mintscope.edges.storage.sqlite.market.tracking import SqliteTracking
from mintscope.edges.storage.sqlite.money.credit_ledger import (
    SqliteCreditAccounts,
    SqliteCreditLedger,
)
from mintscope.edges.storage.sqlite.money.stores import (
    account_connections,
    payment_books,
    payment_store,
)

if TYPE_CHECKING:
    from mintscope.core.market.history.imports import Imports

# What ends by itself, or by what an operator does outside: room, a disk, a lock.
PASSING: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    OSError,
)


class Market:
    """The ports of the market."""

    def __init__(
        self, path: Path, stack: AsyncExitStack, *, follows_all: bool, retention: Retention
    ) -> None:
        self._path = path
        self._stack = stack
        self._follows_all = follows_all
        self._retention = retention

    @cached_property
    def store(self) -> MarketStore:
        """The only writer of the swap log."""
        store = SqliteMarketStore(
            self._path, follows_all=self._follows_all, retention=self._retention
        )
        self._stack.push_async_callback(store.close)
        return store

    @cached_property
    def reader(self) -> MarketReader:
        """Reads the swap log, and says where the market stands."""
        reader = SqliteLogReader(self._path)
        self._stack.push_async_callback(reader.close)
        return reader

    @cached_property
    def tracking(self) -> Tracking:
        """The list of tracked mints."""
        tracking = SqliteTracking(self._path)
        self._stack.push_async_callback(tracking.close)
        return tracking

    @property
    def history_reading(self) -> HistoryReading:
        """The past of mints, for its reader."""
        return self._history

    @property
    def past_folding(self) -> PastFolding:
        """The past of mints, for its fold."""
        return self._history

    @property
    def history_jobs(self) -> HistoryJobs:
        """The past of mints, for an operator."""
        return self._history

    @cached_property
    def _history(self) -> SqliteHistory:
        history = SqliteHistory(self._path)
        self._stack.push_async_callback(history.close)
        return history

    @cached_property
    def imports(self) -> "Imports":
        """Candles of providers."""
        # Only here: see history_join.
        from mintscope.edges.storage.sqlite.market.imports import (  # noqa: PLC0415 - see above
            SqliteImports,
        )

        imports = SqliteImports(self._path)
        self._stack.push_async_callback(imports.close)
        return imports

    @cached_property
    def history_join(self) -> HistoryJoin:
        """Takes a past that was read into the market, for ingest."""
        # Only here: it folds, and numba takes long to load for commands that need none of it.
        from mintscope.edges.storage.sqlite.market import history_join  # noqa: PLC0415 - see above

        join = history_join.SqliteHistoryJoin(self._path, self._retention)
        self._stack.push_async_callback(join.close)
        return join

    @cached_property
    def facts(self) -> MintFactStore:
        """What mints are, as a node last said."""
        facts = SqliteMintFacts(self._path)
        self._stack.push_async_callback(facts.close)
        return facts


class _MoneyFile:
    """Implements MoneyEngine over a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def kept_pepper(self) -> bytes:
        return load_pepper(self._path.with_name(PEPPER_FILE))

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
            yield Market(path, stack, follows_all=follows_all, retention=retention)
    except apsw.Error as cause:
        raise _unusable("market", folder, cause) from cause


@asynccontextmanager
async def open_money(folder: Path, *, pepper: bytes | None, clock: Clock) -> AsyncIterator[Money]:
    """Open credits, payments and accounts in *folder*.

    pepper    None: the one kept in *folder*, made if there is none
    Raises    UnusableStore, here and when a port is first used
    """
    path = _path("money", folder, MONEY_FILE)
    try:
        async with AsyncExitStack() as stack:
            yield Money(_MoneyFile(path), stack, pepper=pepper, clock=clock)
    except apsw.Error as cause:
        raise _unusable("money", folder, cause) from cause


def _path(kind: str, folder: Path, name: str) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise _unusable(kind, folder, cause) from cause
    return folder / name


def _unusable(kind: str, folder: Path, cause: Exception) -> UnusableStore:
    error = StoreUnavailable if isinstance(cause, PASSING) else UnusableStore
    return error(f"the {kind} file in {folder} does not answer: {cause}")
