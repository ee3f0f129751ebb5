"""Which pools decide the prices of mints, as the log says."""

from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.base.time import DAY_S
from mintscope.core.market.standing import Standing
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.market.rows import deciding_of

DECIDED: Final = """
SELECT -1, address, deciding, 0 FROM deciding_pool JOIN mint ON mint.id = deciding_pool.mint
UNION ALL
SELECT -1, address, deciding, 0 FROM other_deciding_kept
"""
# Of final slots the newest alone, for none is gone back to.
FINALLY_DECIDING: Final = """
SELECT slot, address, deciding, seq FROM (
    SELECT header.slot, address, deciding, seq,
           row_number() OVER (PARTITION BY swap.mint ORDER BY seq DESC) AS place
      FROM swap JOIN header USING (seq) JOIN mint ON mint.id = swap.mint
     WHERE is_dead = 0 AND deciding IS NOT NULL
       AND header.slot <= (SELECT finalized_slot FROM progress)) AS final
 WHERE place = 1
UNION ALL
SELECT slot, address, deciding, seq FROM (
    SELECT header.slot, address, deciding, seq,
           row_number() OVER (PARTITION BY address ORDER BY seq DESC) AS place
      FROM other_deciding JOIN header USING (seq)
     WHERE is_dead = 0 AND header.slot <= (SELECT finalized_slot FROM progress)) AS final
 WHERE place = 1
 ORDER BY seq
"""
DECIDING: Final = """
SELECT header.slot, address, deciding, seq
  FROM swap JOIN header USING (seq) JOIN mint ON mint.id = swap.mint
 WHERE is_dead = 0 AND deciding IS NOT NULL
   AND header.slot > (SELECT coalesce(finalized_slot, -1) FROM progress)
UNION ALL
SELECT header.slot, address, deciding, seq
  FROM other_deciding JOIN header USING (seq)
 WHERE is_dead = 0 AND header.slot > (SELECT coalesce(finalized_slot, -1) FROM progress)
 ORDER BY seq
"""
KEEP_DECIDING: Final = """
INSERT INTO deciding_pool (mint, deciding)
SELECT mint, deciding FROM (
    SELECT mint, deciding, row_number() OVER (PARTITION BY mint ORDER BY seq DESC) AS place
      FROM swap JOIN header USING (seq)
     WHERE seq <= ? AND is_dead = 0 AND deciding IS NOT NULL) AS trimmed
 WHERE place = 1
ON CONFLICT (mint) DO UPDATE SET deciding = excluded.deciding
"""
KEEP_OTHERS: Final = f"""
INSERT INTO other_deciding_kept (address, deciding, day)
SELECT address, deciding, time / {DAY_S} FROM (
    SELECT address, deciding, time,
           row_number() OVER (PARTITION BY address ORDER BY seq DESC) AS place
      FROM other_deciding JOIN header USING (seq)
     WHERE seq <= ? AND is_dead = 0) AS trimmed
 WHERE place = 1
ON CONFLICT (address) DO UPDATE SET deciding = excluded.deciding, day = excluded.day
"""  # noqa: S608 - a constant
# Pools that have decided nothing for so long set no price: a quote must be younger than an hour.
OTHERS_DAYS: Final = 2
OTHERS_A_STEP: Final = 500
FORGET_OTHERS: Final = """
DELETE FROM other_deciding_kept
 WHERE address IN (SELECT address FROM other_deciding_kept
                    WHERE day < (SELECT folded_day FROM progress) - ? ORDER BY day LIMIT ?)
"""


def deciding_pools(db: Database) -> list[tuple[Slot, Mint, Standing]]:
    """Return which pools decided after which living slots, oldest first."""
    return [
        (Slot(slot), Mint(mint), deciding_of(blob))
        for statement in (DECIDED, FINALLY_DECIDING, DECIDING)
        for slot, mint, blob, _ in db.execute(statement)
    ]


def keep_deciding(db: Database, until: int) -> None:
    """Keep what decides after event *until*, the newest that is trimmed."""
    db.execute(KEEP_DECIDING, (until,))
    db.execute(KEEP_OTHERS, (until,))
    db.execute(FORGET_OTHERS, (OTHERS_DAYS, OTHERS_A_STEP))
