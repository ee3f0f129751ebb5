"""The statements about pasts that are read and folded."""

from typing import Final

from mintscope.edges.storage.database import Batch
from mintscope.edges.storage.sql.market import fold as market

BEGIN: Final = "INSERT INTO history_job (mint, from_time, stage) VALUES (?, ?, 'reading')"
ADD_ADDRESS: Final = "INSERT INTO history_address (mint, address, kind) VALUES (?, ?, ?)"

ROUND: Final = """
UPDATE history_job SET round_slot = coalesce(round_slot, ?), stage = 'reading' WHERE mint = ?
RETURNING round_slot
"""
TRY_AGAIN: Final = "UPDATE history_transaction SET tries = 0 WHERE mint = ? AND swaps IS NULL"
TO_LIST: Final = """
SELECT address, before, until FROM history_address
 WHERE mint = ? AND listed_slot IS DISTINCT FROM ?
 ORDER BY kind, address
"""

# Where several lists have a transaction, that of a pool says the order.
ADD_LINE: Final = """
INSERT INTO history_transaction (mint, slot, signature, address, line, time)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (mint, slot, signature) DO UPDATE
   SET address = excluded.address, line = excluded.line
 WHERE ? = 'pool' AND (SELECT kind FROM history_address
                        WHERE mint = history_transaction.mint
                          AND address = history_transaction.address) = 'rate'
"""
LIST: Final = "SELECT kind, lines FROM history_address WHERE mint = :mint AND address = :address"
MOVE_CURSOR: Final = """
UPDATE history_address
   SET top = coalesce(top, :top), before = coalesce(:before, before), lines = lines + :lines
 WHERE mint = :mint AND address = :address
"""
END_LIST: Final = """
UPDATE history_address
   SET until = coalesce(top, until), top = NULL, before = NULL,
       listed_slot = (SELECT round_slot FROM history_job WHERE mint = :mint)
 WHERE mint = :mint AND address = :address
"""

# One pool and one address of the rate: each says the order of its own, which is all that counts.
UNREAD: Final = """
SELECT slot, signature,
       (SELECT count(DISTINCT address) > 1 FROM history_transaction AS other
         WHERE other.mint = unread.mint AND other.slot = unread.slot)
       AND (SELECT max(same) > 1 FROM (SELECT count(*) AS same FROM history_address
                                        WHERE mint = unread.mint GROUP BY kind) AS kinds)
  FROM history_transaction AS unread
 WHERE mint = ? AND swaps IS NULL AND tries < ?
 ORDER BY slot
 LIMIT ?
"""
SAVE: Final = """
UPDATE history_transaction SET position = ?, tries = tries + 1, swaps = ?
 WHERE mint = ? AND slot = ? AND signature = ?
"""

SLOTS: Final = """
SELECT slot, time, swaps FROM history_transaction
 WHERE mint = :mint AND swaps IS NOT NULL
   AND slot IN (SELECT DISTINCT slot FROM history_transaction
                 WHERE mint = :mint AND slot > :after AND swaps IS NOT NULL
                 ORDER BY slot LIMIT :most)
 ORDER BY slot, position, line DESC
"""
CANDLE_COLUMNS: Final = (
    *("mint", "timeframe", "bucket", "open", "high", "low", "close"),
    *("buy_volume", "sell_volume", "count"),
)
CANDLE_PRICES: Final = ("open", "high", "low", "close")
CANDLES: Final = Batch(
    "history_candle",
    {name: market.CANDLES.columns[name] for name in CANDLE_COLUMNS},
    "ON CONFLICT (mint, timeframe, bucket) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in CANDLE_COLUMNS[3:]),
)
CANDLES_IN_SOL: Final = Batch(
    "history_candle_in_sol",
    {
        name: kind
        for name, kind in market.CANDLES.columns.items()
        if name in CANDLE_COLUMNS[:3] or name.endswith("_sol")
    },
    "ON CONFLICT (mint, timeframe, bucket) DO UPDATE SET "
    + ", ".join(f"{name}_sol = excluded.{name}_sol" for name in CANDLE_PRICES),
)
ADD_SWAPS: Final = """
INSERT INTO history_swap (mint, slot, swaps, deciding, details) VALUES (?, ?, ?, ?, ?)
"""
FINISH: Final = """
UPDATE history_job
   SET stage = 'ready', slot = round_slot, round_slot = NULL, time = :time, state = :state,
       in_sol = :in_sol,
       since_slot = :since_slot, last_swap = :last_swap, deciding = :deciding,
       missing = (SELECT count(*) FROM history_transaction WHERE mint = :mint AND swaps IS NULL)
 WHERE mint = :mint
"""
JOB: Final = """
SELECT from_time, stage, history_job.slot,
       count(signature), count(swaps),
       CASE WHEN stage = 'joined' THEN missing
            ELSE sum(CASE WHEN swaps IS NULL AND tries >= ? THEN 1 ELSE 0 END) END
  FROM history_job LEFT JOIN history_transaction ON history_transaction.mint = history_job.mint
 WHERE history_job.mint = ?
 GROUP BY history_job.mint
"""
POOLS: Final = "SELECT swaps FROM swap WHERE mint = ?"
FILLED: Final = "UPDATE gap SET filled_at = ? WHERE first = ? AND last = ?"
