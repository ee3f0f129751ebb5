"""Opens the tables of the market: its log, candles, lists and backfills."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from mintscope.app.stores.money import Port
from mintscope.history.jobs_store import SqlBackfillJobs, SqlHistory
from mintscope.history.join_store import SqlBackfillMerge, SqlGapMends, SqlImports
from mintscope.kit.sql.database import AccessInThreads, Database, DatabaseAccess
from mintscope.market.ports import Retention
from mintscope.market.screening.snapshot import ListReader, ListSnapshots
from mintscope.market.screening.store import SqlListReader, SqlListSnapshots
from mintscope.market.series.pools import SeriesReader
from mintscope.market.series.store import SqlSeries
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.market.store.log_writer import (
    LogCopier,
    SqlIngestChecks,
    SqlMarketStore,
    SqlMintFacts,
    SqlTracking,
)
from mintscope.market.store.mints import MarketTables


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketEngine:
    """Opens the connections to the market of one engine, SQLite or PostgreSQL.

    written    opens a connection for writes: on SQLite in the event loop, on PostgreSQL in a thread
    beside     opens a connection for writes in a thread
    ingested   opens a connection for ingest, which writes while this process has the write lock
    read       opens a connection for reads in a thread
    copying    returns a copier of the write-ahead log, which works in a thread; None: the engine
               has no such log
    version    returns a number that changes with each commit; None: the engine has no such number
    """

    tables: MarketTables
    written: Callable[[], DatabaseAccess[Database]]
    beside: Callable[[], AccessInThreads[Database]]
    ingested: Callable[[], DatabaseAccess[Database]]
    read: Callable[[], AccessInThreads[Database]]
    copying: Callable[[], LogCopier] | None = None
    version: Callable[[Database], int] | None = None


@dataclass(eq=False, repr=False)
class Market:
    """The readers and writers of market data; each is opened at first use.

    stack         closes the opened ones when it is closed
    follows_all   whether to track every mint that trades, not only the listed ones
    retention     the periods for which candles and swaps are stored
    """

    engine: MarketEngine
    stack: AsyncExitStack
    _: KW_ONLY
    follows_all: bool
    retention: Retention

    @cached_property
    def store(self) -> SqlMarketStore:
        """The only writer of the swap log."""
        engine = self.engine
        return self._opened(
            SqlMarketStore(
                engine.ingested(),
                engine.tables,
                follows_all=self.follows_all,
                retention=self.retention,
                copier=None if engine.copying is None else engine.copying(),
            )
        )

    @cached_property
    def reader(self) -> SqlLogReader:
        """Reads the swap log, its newest slot, and the share of exchanges that was read."""
        return self._opened(SqlLogReader(self.engine.read(), self.engine.version))

    @cached_property
    def series(self) -> SeriesReader:
        """Reads candles, indicators and swaps, in pages."""
        return self._opened(SqlSeries(self.engine.read()))

    @cached_property
    def lists(self) -> ListReader:
        """Reads lists of all tokens."""
        return self._opened(SqlListReader(self.engine.read()))

    @cached_property
    def list_snapshots(self) -> ListSnapshots:
        """Stores the list of all tokens, so that an api process can start with the stored list."""
        return self._opened(SqlListSnapshots(self.engine.read(), self.engine.beside()))

    @cached_property
    def tracking(self) -> SqlTracking:
        """The list of tracked mints."""
        return self._opened(SqlTracking(self.engine.written()))

    @cached_property
    def history(self) -> SqlHistory:
        """The requested backfills of tokens, and how far each of them is."""
        return self._opened(SqlHistory(self.engine.beside()))

    @cached_property
    def backfill_jobs(self) -> SqlBackfillJobs:
        """The backfills that administrators have requested, for ingest to run."""
        return self._opened(SqlBackfillJobs(self.engine.beside()))

    @cached_property
    def gap_mends(self) -> SqlGapMends:
        """The gaps in the log that ingest fills by itself, and its attempts."""
        return self._opened(SqlGapMends(self.engine.beside()))

    @cached_property
    def imports(self) -> SqlImports:
        """Stores and counts the candles that operators import."""
        return self._opened(SqlImports(self.engine.written()))

    @cached_property
    def history_join(self) -> SqlBackfillMerge:
        """Joins a finished backfill to the market, for ingest."""
        engine = self.engine
        return self._opened(SqlBackfillMerge(engine.ingested(), engine.tables, self.retention))

    @cached_property
    def facts(self) -> SqlMintFacts:
        """Supply, decimals and authorities of mints, as last read from a Solana node."""
        return self._opened(SqlMintFacts(self.engine.written()))

    @cached_property
    def ingest_checks(self) -> SqlIngestChecks:
        """Stores the checks of ingest that fail, so that api processes can report them."""
        return self._opened(SqlIngestChecks(self.engine.beside()))

    @cached_property
    def failing_ingest_checks(self) -> SqlIngestChecks:
        """The failing checks that ingest has stored, for an api process to report."""
        return self._opened(SqlIngestChecks(self.engine.read()))

    def _opened(self, port: Port) -> Port:
        self.stack.push_async_callback(port.close)
        return port
