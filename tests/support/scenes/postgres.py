"""Databases of PostgreSQL for tests: a cluster per pytest process, a database per folder.

Databases with only money, of which tests/spec has thousands, are reused for the next folder, after
their rows and sequences were reset to those of a new database. A copy of a database takes five
times as long. A database whose schema or settings differ, or that has grown, is removed instead. So
is each database with a market: in an emptied market, new rows are stored in another order, and
tests that compare engines would detect this. The idle sessions of a reused database stay open, too:
see `lasting_connections`.
"""

import atexit
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from os import environ  # noqa: TID251 - of the tests, not of the service
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from mintscope.kit.sql import postgres as served
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import PostgresDatabase
from support.processes.servers import PostgresServer
from support.scenes.lasting_connections import LastingConnection

KINDS: Final = ("money", "market", "limits")
GIVEN_AGAIN: Final = ("money",)
OLDEST: Final = Path("/usr/lib/postgresql/15")  # the oldest supported version
IDLE_MS: Final = served.IDLE_IN_TRANSACTION_MS
PATIENT_MS: Final = 60_000  # milliseconds: half of the time limit of a test
# The most copies with a lasting connection; the server accepts 100 connections
CONNECTED_MAX: Final = 20
BYTES_MAX: Final = 4_000_000  # if a database is larger, a new copy is faster than deleting its rows
SIZES: Final = """
SELECT relname, pg_relation_size(oid) FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
"""
END_OTHERS: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL(%s)
"""
# Each catalog row has the number of the transaction that wrote it, so any change of a schema, right
# or setting of a database changes the numbers or their count.
CATALOGS: Final = {
    "pg_attrdef": "oid",
    "pg_attribute": "attrelid",
    "pg_class": "oid",
    "pg_constraint": "oid",
    "pg_extension": "oid",
    "pg_index": "indexrelid",
    "pg_namespace": "oid",
    "pg_proc": "oid",
    "pg_trigger": "oid",
    "pg_type": "oid",
}
FIRST_OID: Final = 16_384  # the first number of objects that PostgreSQL does not create itself
COUNTED: Final = "(SELECT ARRAY[count(*), max(xmin::text::bigint)] FROM {} WHERE {} >= {})"
SCHEMA: Final = f"""
SELECT jsonb_build_array(d.xmin, s.xmin, {
    ", ".join(COUNTED.format(name, oid, FIRST_OID) for name, oid in CATALOGS.items())
})
  FROM pg_database AS d LEFT JOIN pg_db_role_setting AS s ON s.setdatabase = d.oid
 WHERE d.datname = current_database()
"""


def be_patient() -> None:
    """Allow long idle transactions in this process, because it must wait on a busy machine.

    Otherwise, the server ends a transaction that is idle for 3 s, as if the process were frozen.
    """
    vars(served)["IDLE_IN_TRANSACTION_MS"] = PATIENT_MS


@cache
def server() -> PostgresServer:
    """Return the PostgreSQL server of this process, which is removed when the process ends.

    It has the newest version, or the oldest version if POSTGRES=oldest.
    """
    is_oldest = environ.get("POSTGRES") == "oldest"
    started = PostgresServer(installed_in=OLDEST if is_oldest else None)
    atexit.register(started.remove)
    started.start()
    return started


def url_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the URL of the database of *folder*, as operators write it in the configuration."""
    name = _copy_of(folder, kinds).name
    return f"postgresql://postgres@127.0.0.1:{server().port}/{name}"


def dsn_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the DSN of the database of *folder*, created and migrated at the first call.

    kinds   the kinds of tables to create at the first call; code that opens tables of another kind
            creates them
    """
    return _dsn(_copy_of(folder, kinds).name)


def database_in(folder: Path, kinds: Sequence[str] = KINDS) -> PostgresDatabase:
    """Return the connection to the database of *folder*; calls for one folder share it."""
    if folder not in _looked_at:
        _looked_at[folder] = PostgresDatabase(dsn_in(folder, kinds))
    return _looked_at[folder]


def forget_those_in(folder: Path) -> None:
    """Release the databases of *folder* and its subfolders, and close the connections to them."""
    for each in [looked_at for looked_at in _looked_at if looked_at.is_relative_to(folder)]:
        _looked_at.pop(each).close()
    for each in [made for made in _made if made.is_relative_to(folder)]:
        copy = _made.pop(each)
        if copy.is_as_new():
            _free[copy.template.name].append(copy)
        else:
            copy.remove()


_numbers: Final = count()
_connected: Final[set[str]] = set()  # the names of copies that have a lasting connection


class _Template(NamedTuple):
    """A database that is copied for tests.

    is_given_again   whether its copies are reused
    rows      by table, the statement that fills the empty table with its rows
    numbers   the statement that restores the numbers of its sequences
    """

    name: str
    is_given_again: bool
    rows: Mapping[str, SQL | Composed]
    numbers: Composed


@dataclass
class _Copy:
    """A copy of the database *template*; a copy that can be reused has a lasting connection.

    A property test uses copies for all its examples at the same time, so only CONNECTED_MAX copies
    have a lasting connection.
    """

    template: _Template
    name: str = field(default_factory=lambda: f"t{next(_numbers)}")
    _connection: psycopg.Connection[Any] | None = field(init=False, default=None)
    _schema: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        _asked(f"CREATE DATABASE {self.name} TEMPLATE {self.template.name} STRATEGY file_copy")
        if self.template.is_given_again and len(_connected) < CONNECTED_MAX:
            _connected.add(self.name)
            self._connection = psycopg.connect(_dsn(self.name), autocommit=True)
            atexit.register(self._connection.close)
            LastingConnection.databases.add((server().port, self.name))
            self._connection.execute("SET lock_timeout = '5s'")
            self._schema = self._connection.execute(SCHEMA.encode()).fetchall()

    def is_as_new(self) -> bool:
        """End connections in use and restore the rows; return whether the copy is like new."""
        if self._connection is None:
            return False
        with suppress(psycopg.Error):
            idle = LastingConnection.pids_in(server().port, self.name)
            self._connection.execute(END_OTHERS, ([self._connection.info.backend_pid, *idle],))
            sizes = dict(self._connection.execute(SIZES).fetchall())
            if sum(sizes.values()) <= BYTES_MAX:
                self._connection.execute(self._restoring([*sizes]))
                return self._connection.execute(SCHEMA.encode()).fetchall() == self._schema
        return False

    def remove(self) -> None:
        if self._connection is not None:
            LastingConnection.forget(server().port, self.name)
            self._connection.close()
            _connected.discard(self.name)
        _asked(f"DROP DATABASE {self.name} WITH (FORCE)")

    def _restoring(self, tables: Sequence[str]) -> Composed:
        """Return the statement that resets *tables* and the sequences to their state in a new copy.

        It runs in the mode of a replica: triggers do not fire, and foreign keys are not checked.
        """
        steps: list[Composable] = [SQL("BEGIN; SET LOCAL session_replication_role = replica")]
        steps += [SQL("DELETE FROM {}").format(Identifier(table)) for table in tables]
        steps += [self.template.rows[table] for table in tables if table in self.template.rows]
        return SQL("; ").join([*steps, self.template.numbers, SQL("COMMIT")])


_made: Final[dict[Path, _Copy]] = {}
_free: Final[dict[str, list[_Copy]]] = defaultdict(list)
_looked_at: Final[dict[Path, PostgresDatabase]] = {}


def _copy_of(folder: Path, kinds: Sequence[str]) -> _Copy:
    if folder not in _made:
        template = _template(tuple(kinds))
        free = _free[template.name]
        _made[folder] = free.pop() if free else _Copy(template)
    return _made[folder]


@cache
def _template(kinds: tuple[str, ...]) -> _Template:
    """Return a database with the tables of *kinds*, to copy because migrating is slower."""
    name = "_".join(("template", *kinds))
    _asked(f"CREATE DATABASE {name}")
    database = PostgresDatabase(_dsn(name))
    for kind in kinds:
        migrate(database, kind)
    database.close()
    with psycopg.connect(_dsn(name)) as connection:
        tables = [table for table, _ in connection.execute(SIZES)]
        rows = {table: _rows_of(table, connection) for table in tables}
        return _Template(name, kinds == GIVEN_AGAIN, rows, _numbers_of(connection))


def _rows_of(table: str, connection: psycopg.Connection[Any]) -> Composed:
    """Return an INSERT statement for the current rows of *table*."""
    place = Identifier(table)
    rows = SQL("SELECT json_agg(each)::text FROM {} AS each").format(place)
    ((kept,),) = connection.execute(rows).fetchall()
    return SQL(
        "INSERT INTO {0} OVERRIDING SYSTEM VALUE"
        " SELECT * FROM json_populate_recordset(NULL::{0}, {1})"
    ).format(place, Literal(kept))


def _numbers_of(connection: psycopg.Connection[Any]) -> Composed:
    """Return the statement that resets each sequence to its current number."""
    sets: list[Composable] = []
    for (name,) in connection.execute("SELECT seqrelid::regclass::text FROM pg_sequence"):
        number = SQL("SELECT last_value, is_called FROM {}").format(Identifier(name))
        ((last, is_called),) = connection.execute(number).fetchall()
        sets.append(SQL("setval({}, {}, {})").format(name, last, is_called))
    return SQL("SELECT {}").format(SQL(", ").join(sets))


def _asked(statement: str) -> None:
    _connection().execute(statement.encode())


@cache
def _connection() -> psycopg.Connection:
    """Return the connection by which this process creates and removes databases."""
    connection = psycopg.connect(server().dsn, autocommit=True)
    atexit.register(connection.close)
    return connection


def _dsn(name: str) -> str:
    dsn = make_conninfo(server().dsn, dbname=name)
    return f"{dsn} options='-c client_min_messages=warning'"
