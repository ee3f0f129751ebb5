"""Whether a process of the service uses a database: each holds a lock that it shares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mintscope.edges.storage.copying.table import CannotCopy
from mintscope.edges.storage.postgres.connection import PostgresDatabase
from mintscope.edges.storage.postgres.processes.locks import TRY, SessionLock
from mintscope.edges.storage.postgres.processes.session import session

LET_GO: Final = "SELECT pg_advisory_unlock_all()"
# One that is frozen or cut off loses it; who audits asks every few seconds.
BE_AUDITOR: Final = """
SELECT set_config('idle_session_timeout', ?2, false),
       pg_try_advisory_lock(hashtext(current_schema()), ?1::integer)
"""
SILENT_MS_MAX: Final = 60_000


def is_auditor(db: PostgresDatabase) -> bool:
    """Say whether *db* is that of the one process that audits; it is, until its connection ends."""
    _, is_first = db.execute(BE_AUDITOR, (SessionLock.AUDITING, f"{SILENT_MS_MAX}")).get
    return bool(is_first)


@contextmanager
def expecting_no_process(dsn: str) -> Iterator[None]:
    """Keep processes from serving during the block.  Raises CannotCopy while one does."""
    with session(dsn) as connection:
        for lock, name in ((SessionLock.INGESTING, "ingest"), (SessionLock.SERVING, "api")):
            row = connection.execute(TRY, (lock,)).fetchone()
            if row is None or not row[0]:
                raise CannotCopy(f"expected no mintscope {name} on this database; one is running")
        yield
        connection.execute(LET_GO)  # for the server, a session ends a moment after it was closed
