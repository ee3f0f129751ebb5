"""Stores of an older mintscope version, filled with rows, in SQLite or PostgreSQL."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import apsw
import psycopg

from bench.age import filling
from bench.age.filling import Age
from bench.mainnet.__main__ import cpu_s, disk_bytes
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE
from mintscope.kit.sql import migrating
from mintscope.kit.sql.sqlite import SIZES, USUAL_SIZES, migrations
from mintscope.market.store.mints import BEFORE_ALL

# For each kind of tables, the number of the first migration that the older version does not have.
SINCE: Final = {"sqlite": {"money": 390, "market": 80}, "postgresql": {"money": 90, "market": 80}}
MINTS_A_PART: Final = 50_000
SHARED_MB: Final = 128  # the default of PostgreSQL; the servers of tests have less
COPY: Final = "COPY mint (id, address, since_slot, is_listed) FROM STDIN"
# No journal is needed: an interrupted build begins again from the start.
WHILE_MADE: Final = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -262144
"""
# Then rows of tables that the same transaction creates are not in the write-ahead log.
LEAST_WAL: Final = (
    "ALTER SYSTEM SET wal_level = minimal",
    "ALTER SYSTEM SET max_wal_senders = 0",
)
USUAL_WAL: Final = ("ALTER SYSTEM RESET ALL",)
TRIGGERS: Final = """
SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'credit_entry'
"""
FILLED: Final = ("credit_entry", "credit_account", "mint", "state", "activity", "candle")
TRADED: Final = "SELECT state, last_swap, in_sol FROM state ORDER BY length(state) DESC LIMIT 1"
NEWEST: Final = "SELECT coalesce(max(slot), 0) FROM header WHERE is_dead = 0"
TIME: Final = "SELECT coalesce(max(time), 0) FROM header WHERE is_dead = 0"
FOLDED: Final = "SELECT count(*) FROM progress JOIN header ON header.seq = folded_seq"
SNAPSHOTS: Final = "SELECT count(*) FROM list_snapshot WHERE piece_count IS NOT NULL"
# Move activity two days back, and the folded day one day back: the next block begins a new day.
DAY: Final = "SELECT folded_day FROM progress"
NO_ACTIVITY: Final = "UPDATE activity SET day = {day} - 2"
NEW_DAY: Final = "UPDATE progress SET folded_day = {day} - 1"
# After the day was moved back, the server can still commit statements of an ingest that has ended.
NOT_BEGUN: Final = "SELECT folded_day = {day} AND forgotten_id IS NULL FROM progress"
LEFT: Final = "SELECT count(*) FROM mint WHERE since_slot IS NULL AND id <= {count}"


class Traded(NamedTuple):
    """The stored state of the indicators of a mint that trades, and the time of its last swap."""

    state: bytes
    last_swap: int
    in_sol: bytes | None


class Place(Protocol):
    """A mintscope store of several years, in one database engine."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of mintscope that select this store, as environment variables."""

    def make(self, age: Age, traded: Traded, now_ms: int) -> None:
        """Create the database of an older mintscope version, with as many rows as *age* says.

        traded   the stored state of the indicators of each tracked mint
        """

    def asked(self, statement: str) -> Any:
        """Run the SQL *statement* on the market; return its only value or its row, or None."""

    def disk_mb(self) -> float:
        """Return the size of the store on disk, in MB."""

    def server_pids(self) -> list[int]:
        """Return the ids of the database server's processes, the main process first."""

    def server_cpu_s(self) -> float:
        """Return the processor seconds of the database server until now; 0 without a server."""


def flat_mints(age: Age, begin: int, end: int) -> Iterator[tuple[int, str, int | None, int]]:
    """Yield the table row of each mint from *begin* to *end* - 1.

    The mints below `age.followed` are tracked.
    """
    for number in range(begin, end):
        is_followed = number < age.followed
        since = BEFORE_ALL if is_followed else None
        yield number + filling.FIRST_MINT, filling.address(number), since, int(is_followed)


class SqlitePlace:
    """A mintscope store of several years in SQLite files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.settings: Mapping[str, str] = {"MINTSCOPE_DATA_DIR": str(folder)}

    def make(self, age: Age, traded: Traded, now_ms: int) -> None:
        """Create the SQLite files of an older mintscope version, with as many rows as *age* says.

        traded   the stored state of the indicators of each tracked mint
        """
        with self._older("money", MONEY_FILE) as money:
            self._fill_money(money, age, now_ms)
        with self._older("market", MARKET_FILE) as market:
            self._fill_market(market, age, traded, now_ms)

    def asked(self, statement: str) -> Any:
        """Run the SQL *statement* on the market; return its only value or its row, or None."""
        with closing(apsw.Connection(str(self._folder / MARKET_FILE))) as market:
            market.set_busy_timeout(10_000)
            return market.execute(statement).get

    def disk_mb(self) -> float:
        """Return the size of the store's folder, in MB."""
        return disk_bytes(str(self._folder)) / 1e6

    def server_pids(self) -> list[int]:
        """Return an empty list, because SQLite has no server."""
        return []

    def server_cpu_s(self) -> float:
        """Return 0, because SQLite has no server."""
        return 0.0

    @contextmanager
    def _older(self, kind: str, name: str) -> Iterator[apsw.Connection]:
        with closing(apsw.Connection(str(self._folder / name))) as db:
            db.execute(f"PRAGMA page_size = {SIZES.get(kind, USUAL_SIZES).page_bytes}")
            db.execute(WHILE_MADE)
            db.execute(
                "CREATE TABLE migration"
                " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL) STRICT"
            )
            for number, file, script in migrations(kind):
                if number < SINCE["sqlite"][kind]:
                    db.execute(script)
                    db.execute("INSERT INTO migration VALUES (?, ?, ?)", (number, file, kind))
            yield db
            db.execute("PRAGMA journal_mode = WAL")

    def _fill_money(self, db: apsw.Connection, age: Age, now_ms: int) -> None:
        guards = [(str(name), str(sql)) for name, sql in db.execute(TRIGGERS).fetchall()]
        for name, _ in guards:
            db.execute(f'DROP TRIGGER "{name}"')
        with db:
            number, balance = filling.first_account(age)
            db.execute(
                "INSERT INTO credit_account (id, token_hash, hint, note, issued_at, balance)"
                " VALUES (?, randomblob(32), '00000001', '', 0, ?)",
                (number, balance),
            )
            made = _series(0, age.accounts)
            db.execute(filling.accounts(age, made, "randomblob(32)", "printf('%08x', n + 2)"))
        for begin, end in filling.parts(age.entries):
            with db:
                db.execute(filling.entries(age, _series(begin, end), now_ms))
        with db:
            for statement in filling.days(age, _series(0, age.accounts), now_ms):
                db.execute(statement)
        for _, sql in guards:
            db.execute(sql)

    def _fill_market(self, db: apsw.Connection, age: Age, traded: Traded, now_ms: int) -> None:
        rows = "INSERT INTO mint (id, address, since_slot, is_listed) VALUES (?, ?, ?, ?)"
        for begin, end in filling.parts(age.seen, MINTS_A_PART):
            with db:
                db.executemany(rows, flat_mints(age, begin, end))
        with db:
            db.execute(filling.states(age, "?"), traded)
            db.execute(filling.activities(now_ms))
        minutes = _series(0, age.candles_each)
        for begin, end in filling.parts(age.followed, max(1, filling.A_PART // age.candles_each)):
            with db:
                db.execute(filling.candles(age, _series(begin, end), minutes, now_ms))


class PostgresPlace:
    """A mintscope store of several years in PostgreSQL."""

    def __init__(self, server: Any, folder: Path) -> None:
        self._server = server
        store = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        self.settings: Mapping[str, str] = {
            "MINTSCOPE_DATA_DIR": str(folder),
            "MINTSCOPE_STORE": store,
        }

    def make(self, age: Age, traded: Traded, now_ms: int) -> None:
        """Create the PostgreSQL tables of an older version, with as many rows as *age* says.

        traded   the stored state of the indicators of each tracked mint
        """
        self._restart(LEAST_WAL)
        with psycopg.connect(self._server.dsn, autocommit=True) as db, db.transaction():
            db.execute(migrating.CREATE.encode())
            for kind in migrating.KINDS:
                self._older(db, kind)
            for table in FILLED:
                db.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL".encode())
            number, balance = filling.first_account(age)
            db.execute(
                "INSERT INTO credit_account (id, token_hash, hint, note, issued_at, balance)"
                " VALUES (%s, sha256('first'), '00000001', '', 0, %s)",
                (number, balance),
            )
            digest = "sha256(n::text::bytea)"
            hint = "lpad(to_hex(n + 2), 8, '0')"
            db.execute(filling.accounts(age, _generated(0, age.accounts), digest, hint).encode())
            for begin, end in filling.parts(age.entries):
                db.execute(filling.entries(age, _generated(begin, end), now_ms).encode())
            for statement in filling.days(age, _generated(0, age.accounts), now_ms):
                db.execute(statement.encode())
            self._fill_market(db, age, traded, now_ms)
            for table in FILLED:
                db.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL".encode())
            for table in ("credit_entry", "credit_account", "mint"):
                db.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'),"
                    f" (SELECT max(id) FROM {table}))".encode()
                )
            db.execute("ANALYZE")
        self._restart(USUAL_WAL)

    def asked(self, statement: str) -> Any:
        """Run the SQL *statement* on the market; return its only value or its row, or None."""
        with psycopg.connect(self._server.dsn, autocommit=True) as db:
            cursor = db.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row is not None and len(row) == 1 else row

    def disk_mb(self) -> float:
        """Return the size of the PostgreSQL database, in MB."""
        return float(self.asked("SELECT pg_database_size(current_database())")) / 1e6

    def server_pids(self) -> list[int]:
        """Return the ids of the PostgreSQL server's processes, the main process first."""
        return list(self._server.pids())

    def server_cpu_s(self) -> float:
        """Return the processor seconds of all processes of the server, including ended ones."""
        total = 0.0
        for pid in self.server_pids():
            try:
                total += cpu_s(pid)
            except OSError:  # the process has ended: the first process counts its time
                continue
        return total

    def _restart(self, changes: Sequence[str]) -> None:
        """Run the statements *changes*, which change settings, and restart the server."""
        with psycopg.connect(self._server.dsn, autocommit=True) as db:
            for each in changes:
                db.execute(each.encode())
        self._server.stop(signal.SIGINT)
        self._server.start()

    def _older(self, db: psycopg.Connection[Any], kind: str) -> None:
        since = SINCE["postgresql"].get(kind)
        for each in migrating.migrations(kind):
            if since is None or each.number < since:
                db.execute(each.script.encode())
                db.execute(
                    "INSERT INTO migration VALUES (%s, %s, %s, %s)",
                    (kind, each.number, each.name, each.least),
                )

    def _fill_market(
        self, db: psycopg.Connection[Any], age: Age, traded: Traded, now_ms: int
    ) -> None:
        with db.cursor() as cursor, cursor.copy(COPY) as copy:
            for row in flat_mints(age, 0, age.seen):
                copy.write_row(row)
        with psycopg.RawCursor(db) as raw:
            statement = filling.states(age, "$").replace("$1", "$1::bytea")
            raw.execute(statement.replace("$2", "$2::bigint").replace("$3", "$3::bytea"), traded)
        db.execute(filling.activities(now_ms).encode())
        minutes = _generated(0, age.candles_each)
        for begin, end in filling.parts(age.followed, max(1, filling.A_PART // age.candles_each)):
            db.execute(filling.candles(age, _generated(begin, end), minutes, now_ms).encode())


def _series(begin: int, end: int) -> str:
    return (
        f"(WITH RECURSIVE counted (n) AS (SELECT {begin} UNION ALL"
        f" SELECT n + 1 FROM counted WHERE n < {end - 1}) SELECT n FROM counted)"
    )


def _generated(begin: int, end: int) -> str:
    return f"(SELECT n FROM generate_series({begin}::bigint, {end - 1}) AS n)"


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Place]:
    """Yield the SQLite store in *folder*."""
    yield SqlitePlace(_private(folder))


@contextmanager
def on_postgres(folder: Path) -> Iterator[Place]:
    """Run a PostgreSQL server with its data in *folder*, and yield the store in it.

    Other users of the system must be able to traverse *folder*.
    """
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(shared_mb=SHARED_MB, kept_in=folder / "postgresql")
    try:
        server.start()
        yield PostgresPlace(server, _private(folder))
    finally:
        # SIGINT writes everything, so the next start has nothing to recover
        server.stop(signal.SIGINT)
        server.remove()


def _private(folder: Path) -> Path:
    """Create the folder `data` in *folder*, which other users cannot read, and return its path."""
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    return data


PLACES: Final = {"sqlite": on_sqlite, "postgresql": on_postgres}
