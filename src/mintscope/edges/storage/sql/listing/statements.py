"""The statements behind a list: of the mints whose numbers are between two."""

from typing import Final

from mintscope.core.market.listing.spans import D1

FOLDED: Final = """
SELECT folded_seq, slot, time, (SELECT coalesce(max(seq), 0) FROM event), trimmed_seq
  FROM progress LEFT JOIN header ON header.seq = folded_seq
"""

LAST_OF_PAGE: Final = """
SELECT max(id) FROM (
    SELECT id FROM mint WHERE id > ? AND since_slot IS NOT NULL ORDER BY id LIMIT ?) AS page
"""
NUMBER: Final = "SELECT id FROM mint WHERE address = ? AND since_slot IS NOT NULL"

# The newest own price of a mint that is older than a moment.  Minutes are kept for longer than a
# day, and the newest hundred however old: only behind both a wider candle, which ended by then,
# has it.
BEFORE: Final = """
(SELECT close FROM candle
  WHERE mint = id AND timeframe = '{timeframe}' AND count > 0 AND provider IS NULL
    AND bucket <= {moment} - {width}
  ORDER BY bucket DESC LIMIT 1)
"""


def _before(moment: str, *timeframes: tuple[str, int]) -> str:
    found = [
        BEFORE.format(moment=moment, timeframe=timeframe, width=width)
        for timeframe, width in timeframes
    ]
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


M1: Final = ("m1", 60)
# Of one whose first price is younger than a day it is kept: minutes are, for longer than that.
FIRST_USD: Final = """
(SELECT open FROM candle
  WHERE mint = id AND timeframe = 'm1' AND count > 0 AND provider IS NULL
  ORDER BY bucket LIMIT 1)
"""
# The pools of a mint after the newest folded slot that changed them.  The sign keeps SQLite from
# beginning with the headers.
STANDING: Final = """
coalesce(
    (SELECT deciding FROM swap JOIN header USING (seq)
      WHERE swap.mint = mint.id AND +is_dead = 0 AND deciding IS NOT NULL
        AND seq <= (SELECT folded_seq FROM progress)
      ORDER BY seq DESC LIMIT 1),
    (SELECT deciding FROM deciding_pool WHERE deciding_pool.mint = mint.id))
"""
MINTS: Final = f"""
SELECT id, address, since_time, state.state, facts, {FIRST_USD}, {STANDING},
       {_before(":five", M1)}, {_before(":hour", M1)},
       {_before(":day", M1, ("m5", 300), ("m15", 900), ("h1", 3600))}
  FROM mint LEFT JOIN state ON state.mint = id LEFT JOIN mint_fact ON mint_fact.mint = id
 WHERE id BETWEEN :first AND :last AND since_slot IS NOT NULL ORDER BY id
"""  # noqa: S608 - constants

MINUTES: Final = """
SELECT mint, bucket, buy_volume + sell_volume, buy_volume, close FROM candle
 WHERE mint BETWEEN :first AND :last AND timeframe = 'm1' AND bucket >= :hour AND provider IS NULL
 ORDER BY mint, bucket
"""
PARTS: Final = f"""
WITH part AS (
    SELECT mint, bucket / {D1.part_s} AS number,
           CAST(sum(buy_volume + sell_volume) AS bigint) AS volume,
           CAST(sum(count) AS bigint) AS swaps,
           max(CASE WHEN count > 0 THEN bucket END) AS newest
      FROM candle
     WHERE mint BETWEEN :first AND :last AND timeframe = 'm1' AND bucket >= :day
       AND provider IS NULL
     GROUP BY mint, bucket / {D1.part_s})
SELECT part.mint, number, volume, swaps, close
  FROM part LEFT JOIN candle
    ON candle.mint = part.mint AND timeframe = 'm1' AND bucket = newest
 ORDER BY part.mint, number
"""  # noqa: S608 - constants

SLOTS: Final = """
SELECT seq, slot, time FROM header WHERE seq > ? AND seq <= ? AND is_dead = 0 ORDER BY seq LIMIT ?
"""
SWAPS: Final = """
SELECT address, bought, bought + sold, swaps, deciding FROM swap JOIN mint ON mint.id = swap.mint
 WHERE seq = ? AND since_slot < ?
"""

TRACKED: Final = """
SELECT mints FROM event WHERE seq > ? AND seq <= ? AND kind IN ('track', 'untrack')
"""

FACTS: Final = """
SELECT read_at_ms, address, facts FROM mint_fact JOIN mint ON mint.id = mint_fact.mint
 WHERE (read_at_ms > :at OR (read_at_ms = :at AND address > :mint))
   AND facts IS NOT NULL AND since_slot IS NOT NULL
 ORDER BY read_at_ms, address LIMIT :limit
"""
FACTS_OF: Final = """
SELECT facts FROM mint LEFT JOIN mint_fact ON mint_fact.mint = id
 WHERE address = ? AND since_slot IS NOT NULL
"""
