"""Whether a process of the service uses a database: each holds a lock that it shares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from mintscope.base.errors import StoreUnavailable
from mintscope.edges.storage.copying.table import CannotCopy
from mintscope.edges.storage.postgres.connection import APPLICATION, CONNECT_S

# Beside that of ingest, which one holds alone.
SERVING: Final = 101
INGESTING: Final = 100
TRY: Final = "SELECT pg_try_advisory_lock(hashtext(current_schema()), %s)"


@contextmanager
def expecting_no_process(dsn: str) -> Iterator[None]:
    """Keep processes from serving during the block.  Raises CannotCopy while one does."""
    try:
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=CONNECT_S,
            fallback_application_name=APPLICATION,
        )
    except psycopg.OperationalError as cause:
        raise StoreUnavailable(f"the database does not answer: {cause}") from cause
    with connection:
        for lock, name in ((INGESTING, "ingest"), (SERVING, "api")):
            row = connection.execute(TRY, (lock,)).fetchone()
            if row is None or not row[0]:
                raise CannotCopy(f"expected no mintscope {name} on this database; one is running")
        yield
