"""Databases of PostgreSQL for tests: one cluster a process of pytest, one a folder."""

import atexit
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from mintscope.edges.storage.postgres.connection import PostgresDatabase
from mintscope.edges.storage.postgres.migrating import migrate
from support.processes.servers import PostgresServer

KINDS: Final = ("money", "market", "limits")
OLDEST: Final = Path("/usr/lib/postgresql/15")  # the oldest version that is promised


@cache
def server() -> PostgresServer:
    """Return the cluster of this process, which is removed when it ends."""
    started = PostgresServer()
    atexit.register(started.remove)
    started.start()
    return started


@cache
def oldest_server() -> PostgresServer:
    """Return a cluster of the oldest version, which must be installed."""
    started = PostgresServer(installed_in=OLDEST)
    atexit.register(started.remove)
    started.start()
    return started


def dsn_of(of_version: PostgresServer) -> str:
    """Return the database that *of_version* has from the start, migrated."""
    database = PostgresDatabase(of_version.dsn)
    for kind in KINDS:
        migrate(database, kind)
    database.close()
    return of_version.dsn


def url_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the address of what `dsn_in` names, as an operator writes it."""
    dsn_in(folder, kinds)
    return f"postgresql://postgres@127.0.0.1:{server().port}/{_name(folder)}"


def dsn_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the database of *folder*, made and migrated when it is first asked for.

    kinds   of tables that are made then; others are made by who opens them
    """
    name = _name(folder)
    if folder not in _made:
        _asked(f"CREATE DATABASE {name} TEMPLATE {_template(tuple(kinds))} STRATEGY file_copy")
        _made[folder] = name
    return _dsn(name)


def database_in(folder: Path, kinds: Sequence[str] = KINDS) -> PostgresDatabase:
    """Return a connection to what `dsn_in` names, the same one until it is removed."""
    if folder not in _looked_at:
        _looked_at[folder] = PostgresDatabase(dsn_in(folder, kinds))
    return _looked_at[folder]


def forget_those_in(folder: Path) -> None:
    """Remove the databases of *folder* and of what is in it, and end connections to them."""
    for each in [looked_at for looked_at in _looked_at if looked_at.is_relative_to(folder)]:
        _looked_at.pop(each).close()
    for each in [made for made in _made if made.is_relative_to(folder)]:
        _asked(f"DROP DATABASE {_made.pop(each)} WITH (FORCE)")


_made: Final[dict[Path, str]] = {}
_looked_at: Final[dict[Path, PostgresDatabase]] = {}


@cache
def _template(kinds: tuple[str, ...]) -> str:
    """Return a database with the tables of *kinds*: to copy it takes a fifth of making it."""
    name = "_".join(("template", *kinds))
    _asked(f"CREATE DATABASE {name}")
    database = PostgresDatabase(_dsn(name))
    for kind in kinds:
        migrate(database, kind)
    database.close()
    return name


def _asked(statement: str) -> None:
    _connection().execute(statement.encode())


@cache
def _connection() -> psycopg.Connection:
    """Return one that stays: it is what makes and removes a thousand databases."""
    connection = psycopg.connect(server().dsn, autocommit=True)
    atexit.register(connection.close)
    return connection


def _name(folder: Path) -> str:
    return "t" + sha256(str(folder).encode()).hexdigest()[:24]


def _dsn(name: str) -> str:
    dsn = make_conninfo(server().dsn, dbname=name)
    return f"{dsn} options='-c client_min_messages=warning'"
