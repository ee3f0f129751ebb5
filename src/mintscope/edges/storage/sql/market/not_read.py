"""Calls seen and not read over the last week: bounded for any input."""

from typing import Final

from mintscope.base.primitives import Signature, UnixS
from mintscope.core.market.coverage import NotRead
from mintscope.edges.storage.database import Database

HOUR_S: Final = 3_600
HOURS_KEPT: Final = 7 * 24
HOURS_OF_DAY: Final = 24
KINDS_PER_HOUR_MAX: Final = 500
# Sums stay integers: SQLite would turn a larger one into a float.
VOLUME_MAX: Final = 10**18

FORGET: Final = "DELETE FROM not_read WHERE hour <= ?"
KNOWS: Final = """
SELECT EXISTS (SELECT * FROM not_read
                WHERE hour = :hour AND program = :program AND reason = :reason AND head = :head)
    OR (SELECT count(*) FROM not_read WHERE hour = :hour) < :most
"""
ADD: Final = """
INSERT INTO not_read
VALUES (:hour, :program, :reason, :head, :time, :count, :volume, :signature)
ON CONFLICT (hour, program, reason, head) DO UPDATE SET
   time = excluded.time, count = not_read.count + excluded.count,
   volume = CASE WHEN not_read.volume + excluded.volume > :most THEN :most
                 ELSE not_read.volume + excluded.volume END,
   signature = coalesce(excluded.signature, not_read.signature)
"""
LARGEST: Final = """
WITH recent AS (
    SELECT *, row_number() OVER (PARTITION BY program, reason, head ORDER BY time DESC) AS place
      FROM not_read
     WHERE hour > coalesce((SELECT max(time) FROM header WHERE is_dead = 0), 0) / :hour_s - :hours)
SELECT program, reason, head, sum(count), sum(CAST(volume AS double precision)),
       max(CASE WHEN place = 1 THEN signature END), max(time)
  FROM recent
 GROUP BY program, reason, head
 ORDER BY 5 DESC, 4 DESC, 1, 2, 3 LIMIT :limit
"""


def add(db: Database, seen: NotRead) -> None:
    """Count *seen* in its hour, and forget what is more than a week older."""
    hour = seen.time // HOUR_S
    kind = {"program": seen.program, "reason": seen.reason, "head": seen.head}
    db.execute(FORGET, (hour - HOURS_KEPT,))
    if not db.execute(KNOWS, {"hour": hour, "most": KINDS_PER_HOUR_MAX, **kind}).get:
        kind = {"program": "other", "reason": seen.reason, "head": ""}
    row = {"hour": hour, "time": seen.time, "count": seen.count, "signature": seen.signature}
    volume = min(seen.volume, VOLUME_MAX)
    db.execute(ADD, {**kind, **row, "volume": volume, "most": VOLUME_MAX})


def largest(db: Database, limit: int) -> list[NotRead]:
    """Return up to *limit* kinds of the last day, the most volume first."""
    bounds = {"hour_s": HOUR_S, "hours": HOURS_OF_DAY, "limit": limit}
    return [
        NotRead(
            time=UnixS(time),
            program=program,
            reason=reason,
            head=head,
            count=count,
            volume=min(int(volume), VOLUME_MAX),
            signature=None if signature is None else Signature(signature),
        )
        for program, reason, head, count, volume, signature, time in db.execute(LARGEST, bounds)
    ]
