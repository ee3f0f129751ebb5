"""A connection of its own for a lock that a process holds: the lock ends with the connection."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from mintscope.base.errors import StoreUnavailable
from mintscope.edges.storage.postgres.connection import APPLICATION, CONNECT_S
from mintscope.edges.storage.postgres.waiting import BoundedConnection


@contextmanager
def session(dsn: str) -> Iterator[BoundedConnection]:
    """Keep a connection during the block.  Raises StoreUnavailable where there is none."""
    try:
        connection = BoundedConnection.connect(
            dsn,
            autocommit=True,
            connect_timeout=CONNECT_S,
            fallback_application_name=APPLICATION,
        )
    except psycopg.OperationalError as cause:
        raise StoreUnavailable(f"the database does not answer: {cause}") from cause
    with connection:
        yield connection
