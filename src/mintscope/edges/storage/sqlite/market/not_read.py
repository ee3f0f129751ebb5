"""What was seen and not read over the last day, on SQLite: bounded, whatever is seen."""

from typing import Final

import apsw

from mintscope.base.primitives import Signature, UnixS
from mintscope.core.market.store import NotRead

HOUR_S: Final = 3_600
HOURS_KEPT: Final = 24
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
VALUES (:hour, :program, :reason, :head, :time, :count, min(:volume, :most), :signature)
ON CONFLICT DO UPDATE SET
   time = excluded.time, count = count + excluded.count,
   volume = min(volume + excluded.volume, :most),
   signature = coalesce(excluded.signature, signature)
"""
# With max(time) its row is the one that signature is of.
LARGEST: Final = """
SELECT program, reason, head, sum(count), min(total(volume), :most), signature, max(time)
  FROM not_read
 WHERE hour > coalesce((SELECT max(time) FROM header WHERE NOT is_dead), 0) / :hour_s - :hours
 GROUP BY program, reason, head
 ORDER BY 5 DESC, 4 DESC, 1, 2, 3 LIMIT :limit
"""


def add(db: apsw.Connection, seen: NotRead) -> None:
    """Count *seen* in its hour, and forget what is more than a day older."""
    hour = seen.time // HOUR_S
    kind = {"program": seen.program, "reason": seen.reason, "head": seen.head}
    db.execute(FORGET, (hour - HOURS_KEPT,))
    if not db.execute(KNOWS, {"hour": hour, "most": KINDS_PER_HOUR_MAX, **kind}).get:
        kind = {"program": "other", "reason": seen.reason, "head": ""}
    row = {"hour": hour, "time": seen.time, "count": seen.count, "signature": seen.signature}
    volume = min(seen.volume, VOLUME_MAX)
    db.execute(ADD, {**kind, **row, "volume": volume, "most": VOLUME_MAX})


def largest(db: apsw.Connection, limit: int) -> list[NotRead]:
    """Return up to *limit* kinds of the last day, the most volume first."""
    bounds = {"hour_s": HOUR_S, "hours": HOURS_KEPT, "limit": limit, "most": VOLUME_MAX}
    return [
        NotRead(
            time=UnixS(time),
            program=program,
            reason=reason,
            head=head,
            count=count,
            volume=int(volume),
            signature=None if signature is None else Signature(signature),
        )
        for program, reason, head, count, volume, signature, time in db.execute(LARGEST, bounds)
    ]
