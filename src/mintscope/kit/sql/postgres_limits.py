"""Rate limits in PostgreSQL: an exact moving window, by the server's clock."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg.raw_cursor import AsyncRawCursor

from mintscope.kit.clock import Clock
from mintscope.kit.sql.limits import AskedWindow, FoundWindow, LimitStoreAway, now_us

CONNECT_S: Final = 5
SWEPT_AFTER: Final = 10_000  # requested keys between two deletions of old windows
# A crash of the server may lose the newest counts, which only admits a few more requests.
SETTINGS: Final = """
SELECT set_config('statement_timeout', '5000', false),
       set_config('synchronous_commit', 'off', false)
"""
# The time is read after the row is locked, so no admission is older than an earlier one.  Rows are
# locked in the order of keys, so that calls cannot deadlock.  An admission that is later than now
# by more than the window was stored before the server's clock was set back, and does not count.
SETTLE: Final = """
INSERT INTO limit_window AS w
       (key, admitted_us, ends_us, count, window_us, returned, taken, asked_us, held)
SELECT key, array_fill(now, ARRAY[least(taken, count)::integer]), now + span, count, span,
       returned, taken, now, 0
  FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
       AS asked (key, count, span, returned, taken),
       (SELECT coalesce($6::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
            AS now) AS clock
 ORDER BY key
    ON CONFLICT (key) DO UPDATE
   SET (admitted_us, ends_us, count, window_us, returned, taken, asked_us, held) = (
       SELECT kept || array_fill(now, ARRAY[
                  greatest(0, least(excluded.taken, excluded.count - cardinality(kept)))::integer]),
              now + excluded.window_us, excluded.count, excluded.window_us,
              excluded.returned, excluded.taken, now, cardinality(kept)
         FROM (SELECT now, counting[:cardinality(counting) - excluded.returned] AS kept
                 FROM (SELECT now, ARRAY(
                              SELECT at FROM unnest(w.admitted_us) AS at
                               WHERE at > now - excluded.window_us
                                 AND at <= now + excluded.window_us
                               ORDER BY at) AS counting
                         FROM (SELECT coalesce($6::bigint,
                                  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
                              ) AS clock
                      ) AS counted
              ) AS returned)
RETURNING key, held, greatest(0, CASE WHEN held > 0 THEN asked_us - admitted_us[1] ELSE 0 END)
"""
# SWEEP does not wait for locked rows, so it cannot deadlock with SETTLE.
SWEEP: Final = """
DELETE FROM limit_window WHERE key IN (
    SELECT key FROM limit_window
     WHERE ends_us <= coalesce(
               $1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
     LIMIT 20000 FOR UPDATE SKIP LOCKED)
"""


class PostgresWindows:
    """Counts the requests of rate limits in PostgreSQL, over one connection.

    The connection opens at the first request.

    dsn     the connection string of the database; its search path names the schema, which must have
            the migrations of limits
    clock   a clock in place of the server's, for tests; None: the server's clock
    """

    def __init__(self, dsn: str, *, clock: Clock | None = None) -> None:
        self._dsn = dsn
        self._clock = clock
        self._connection: AsyncConnection[Any] | None = None
        self._asked_count = 0

    async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
        """Change the counts of all *asked* rate limits; return the state of each.

        In each limit, requests that were given back are subtracted first; then the state is read;
        then new requests are counted.  All keys must be different.  Raises LimitStoreAway; the next
        call then connects again.
        """
        now = None if self._clock is None else now_us(self._clock)
        columns = [list(column) for column in zip(*asked, strict=True)] or [[]] * len(
            AskedWindow._fields
        )
        # Put back after success only: a failed or cancelled call closes the connection.  A call may
        # still be ending while the next one runs, which then has a connection of its own.
        connection = self._connection
        self._connection = None
        is_kept = False
        try:
            connection = connection or await self._connect()
            cursor = AsyncRawCursor(connection)
            await cursor.execute(SETTLE, (*columns, now), prepare=True)
            found = {
                key: FoundWindow(held, age_us) for key, held, age_us in await cursor.fetchall()
            }
            await self._sweep(cursor, len(asked), now)
            is_kept = self._connection is None
            if is_kept:
                self._connection = connection
        except (psycopg.Error, OSError) as cause:
            raise LimitStoreAway(str(cause)) from cause
        finally:
            if not is_kept and connection is not None:
                await connection.close()
        return [found[each.key] for each in asked]

    async def aclose(self) -> None:
        """Close the connection."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> AsyncConnection[Any]:
        connection = await AsyncConnection.connect(
            self._dsn, autocommit=True, connect_timeout=CONNECT_S
        )
        try:
            await connection.execute(SETTINGS)
        except BaseException:  # including a cancellation
            await connection.close()
            raise
        return connection

    async def _sweep(self, cursor: AsyncRawCursor[Any], asked_count: int, now: int | None) -> None:
        """After every SWEPT_AFTER keys, delete up to 20,000 rows that count no request."""
        self._asked_count += asked_count
        if self._asked_count >= SWEPT_AFTER:
            self._asked_count = 0
            await cursor.execute(SWEEP, (now,))
