"""How many candles a day adds, estimated from some of the tokens that are followed."""

from collections.abc import Mapping
from typing import Final

from mintscope.base.primitives import UnixS
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.database import Database

MINTS_MIN: Final = 500  # of the sample, where there are as many
SAMPLED: Final = "SELECT count(*) FROM mint WHERE since_slot IS NOT NULL AND id % ? = 0"
COUNTED: Final = """
SELECT timeframe, count(*), min(bucket) FROM candle
 WHERE mint IN (SELECT id FROM mint WHERE since_slot IS NOT NULL AND id % ? = 0)
   AND timeframe IN ('m1', 'm5', 'm15', 'h1') AND bucket > ?
 GROUP BY timeframe
"""


def candles_a_day(
    db: Database, time: UnixS | None, tracked_count: int
) -> Mapping[Timeframe, int] | None:
    """Return how many candles of each timeframe the day before *time* has added.

    A shorter time is extrapolated; None below an hour.
    """
    if time is None:
        return None
    every = max(1, tracked_count // MINTS_MIN)
    sampled = db.execute(SAMPLED, (every,)).get
    rows = {each[0]: each[1:] for each in db.execute(COUNTED, (every, time - DAY_S))}
    if not sampled or Timeframe.M1 not in rows:
        return None
    since_s = time - rows[Timeframe.M1][1]
    if since_s < HOUR_S:
        return None
    share = tracked_count / sampled * DAY_S / min(DAY_S, since_s)
    return {each: round(rows[each][0] * share) if each in rows else 0 for each in Timeframe}
