"""Databases of PostgreSQL for tests: one cluster a process of pytest, one schema a folder."""

import atexit
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import psycopg

from mintscope.edges.storage.postgres.connection import PostgresDatabase
from mintscope.edges.storage.postgres.migrating import migrate
from support.processes.servers import PostgresServer

KINDS: Final = ("money", "market", "limits")


@cache
def server() -> PostgresServer:
    """Return the cluster of this process, which is removed when it ends."""
    started = PostgresServer()
    atexit.register(started.remove)
    started.start()
    return started


def url_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the address of what `dsn_in` names, as an operator writes it."""
    dsn = dsn_in(folder, kinds)
    schema = dsn.split("search_path=")[1].split()[0]
    place = f"postgresql://postgres@127.0.0.1:{server().port}/postgres"
    return f"{place}?options=-csearch_path%3D{schema}"


def dsn_in(folder: Path, kinds: Sequence[str] = KINDS) -> str:
    """Return the database of *folder*, made and migrated when it is first asked for.

    kinds   of tables that are made then; others are made by who opens them
    """
    schema = "t" + sha256(str(folder).encode()).hexdigest()[:24]
    dsn = f"{server().dsn} options='-c search_path={schema} -c client_min_messages=warning'"
    with psycopg.connect(server().dsn, autocommit=True) as connection:
        made = connection.execute(
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (schema,)
        ).fetchone()
        if made is None:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
    if made is None:
        database = PostgresDatabase(dsn)
        for kind in kinds:
            migrate(database, kind)
        database.close()
    return dsn
