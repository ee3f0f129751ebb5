"""Which process reads a past: a lock of a session, so it ends with its process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mintscope.edges.storage.postgres.processes.locks import SessionLock
from mintscope.edges.storage.postgres.processes.session import session

# A machine that is gone answers no probe: the server then ends the session within a minute.
TRY: Final = """
SELECT set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       pg_try_advisory_lock(hashtext(current_schema()), %s)
"""


@contextmanager
def reading(dsn: str) -> Iterator[bool]:
    """Try to be the one that reads, and yield whether this is it during the block.

    Raises StoreUnavailable.
    """
    with session(dsn) as connection:
        row = connection.execute(TRY, (SessionLock.READING_A_PAST,)).fetchone()
        yield row is not None and bool(row[-1])
