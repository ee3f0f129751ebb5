"""Reads final slots from SQL, adds their swaps to candles and totals, and writes the results."""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final, Self

from msgspec.structs import astuple

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import Batch, Database, DatabaseAccess
from mintscope.kit.time import DAY_S
from mintscope.market.engine.crowd_book import CROWDS_S
from mintscope.market.engine.pool_book import POOL_CANDLES_S
from mintscope.market.log import PricedSwap
from mintscope.market.ports import (
    CANDLES_MIN,
    Activity,
    FinalizedSlot,
    Folded,
    FoldedMint,
    Kept,
    Retention,
    day_of,
)
from mintscope.market.standing import SUM_MAX, Standing
from mintscope.market.standings import unpack
from mintscope.market.store import retention as forgetting
from mintscope.market.store.log_reader import last_seq, swaps_of
from mintscope.market.store.mints import Cut, MarketTables, track, untrack_all
from mintscope.market.timeframe import Timeframe

FINAL_SLOTS: Final = """
SELECT slot, time, seq FROM header
 WHERE seq > (SELECT folded_seq FROM progress)
   AND slot <= (SELECT finalized_slot FROM progress)
   AND is_dead = 0
 ORDER BY seq
 LIMIT ?
"""

# Whether a mint was tracked or untracked, by an operator or a joined backfill, since the batch was
# read.
OVERTAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM event WHERE seq > ? AND kind IN ('track', 'untrack'))
"""
# Addresses are looked up one by one: PostgreSQL would begin a join by reading all mints.
SWAPS: Final = """
SELECT (SELECT address FROM mint WHERE mint.id = swap.mint), swaps
  FROM swap WHERE seq = ? ORDER BY swap.mint
"""

KEPT: Final = """
SELECT address, mint.id, since_slot, is_removed, state.state, in_sol, pools, traders,
       day, swaps, volume, lively_day
  FROM ({asked}) AS asked JOIN mint ON address = asked.value
  LEFT JOIN state ON state.mint = mint.id LEFT JOIN activity ON activity.mint = mint.id
"""

FOLLOWED: Final = """
SELECT address, day, swaps, volume, lively_day
  FROM mint JOIN activity ON activity.mint = id
 WHERE since_slot IS NOT NULL AND is_listed = 0
 ORDER BY id
"""


def _updating(keys: str, *columns: str) -> str:
    """Return the SQL clause that updates *columns* if a row with the same *keys* exists.

    Most rows exist already, and an update takes less time than a replacement.
    """
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns)
    return f"ON CONFLICT ({keys}) DO UPDATE SET {changed}"


ACTIVITY: Final = Batch(
    "activity",
    dict.fromkeys(("mint", "day", "swaps", "volume", "lively_day"), "bigint"),
    _updating("mint", "day", "swaps", "volume", "lively_day"),
)
STATES: Final = Batch(
    "state",
    {"mint": "bigint", "state": "bytea", "last_swap": "bigint", "in_sol": "bytea"},
    _updating("mint", "state", "last_swap", "in_sol"),
)
WITH_BOOKS: Final = Batch(
    "state",
    {**STATES.columns, "pools": "bytea", "traders": "bytea"},
    STATES.on_conflict + ", pools = excluded.pools, traders = excluded.traders",
)
CROWDS: Final = Batch(
    "crowd",
    {**dict.fromkeys(("mint", "bucket", "swaps"), "bigint"), "traders": "bytea"},
    _updating("mint, bucket", "swaps", "traders"),
)
# An earlier version wrote after each batch, so a row may exist for a part of the span: the new row
# is merged with it.  The volumes of both are at most SUM_MAX, so their sums fit in 64 bits.
POOL_CANDLES: Final = Batch(
    "pool_candle",
    {
        **dict.fromkeys(("mint", "bucket", "pool"), "bigint"),
        **dict.fromkeys(("open", "high", "low", "close"), "double precision"),
        **dict.fromkeys(("buy_volume", "sell_volume", "swaps"), "bigint"),
    },
    f"""ON CONFLICT (mint, bucket, pool) DO UPDATE
    SET open = coalesce(pool_candle.open, excluded.open),
        high = CASE WHEN pool_candle.high IS NULL OR excluded.high > pool_candle.high
                    THEN excluded.high ELSE pool_candle.high END,
        low = CASE WHEN pool_candle.low IS NULL OR excluded.low < pool_candle.low
                   THEN excluded.low ELSE pool_candle.low END,
        close = coalesce(excluded.close, pool_candle.close),
        buy_volume = CASE WHEN pool_candle.buy_volume + excluded.buy_volume > {SUM_MAX}
                          THEN {SUM_MAX}
                          ELSE pool_candle.buy_volume + excluded.buy_volume END,
        sell_volume = CASE WHEN pool_candle.sell_volume + excluded.sell_volume > {SUM_MAX}
                           THEN {SUM_MAX}
                           ELSE pool_candle.sell_volume + excluded.sell_volume END,
        swaps = pool_candle.swaps + excluded.swaps""",  # noqa: S608 - a constant
)
DROP_POOL: Final = "DELETE FROM pool_candle WHERE mint = ? AND pool = ?"
DETAILS_AT_ONCE: Final = 100
DETAILS: Final = f"""
SELECT mint, details FROM swap
 WHERE seq = ? AND mint IN ({", ".join("?" * DETAILS_AT_ONCE)}) AND details IS NOT NULL
"""  # noqa: S608 - question marks
CANDLES: Final = Batch(
    "candle",
    {
        "mint": "bigint",
        "timeframe": "text",
        "bucket": "bigint",
        **dict.fromkeys(("open", "high", "low", "close"), "double precision"),
        **dict.fromkeys(("buy_volume", "sell_volume", "count"), "bigint"),
        **dict.fromkeys(("open_sol", "high_sol", "low_sol", "close_sol"), "double precision"),
    },
    _updating(
        *("mint, timeframe, bucket", "open", "high", "low", "close", "buy_volume", "sell_volume"),
        *("count", "open_sol", "high_sol", "low_sol", "close_sol"),
    ),
)
WAYPOINTS: Final = Batch(
    "waypoint",
    {"mint": "bigint", "timeframe": "text", "bucket": "bigint", "closed": "bigint", "acc": "bytea"},
    _updating("mint, timeframe, bucket", "closed", "acc"),
)

CHECKPOINT: Final = """
UPDATE progress SET folded_slot = ?, folded_day = ?,
       folded_seq = (SELECT seq FROM header WHERE slot = ? AND is_dead = 0)
"""


class SqlFolding:
    """A batch of final slots to fold: it is read in parts and written in one transaction.

    slots    the final slots of the batch, oldest first
    day      the UTC day of the newest folded slot; None before the first
    """

    def __init__(
        self,
        access: DatabaseAccess[Database],
        tables: MarketTables,
        *,
        retention: Retention,
    ) -> None:
        self._access = access
        self._tables = tables
        self._retention = retention
        self._ids: dict[Mint, int] = {}
        self._seq = 0
        self.day: int | None = None
        self.slots: Sequence[FinalizedSlot] = ()

    @classmethod
    async def begin(
        cls,
        access: DatabaseAccess[Database],
        tables: MarketTables,
        slots_max: int,
        *,
        retention: Retention,
    ) -> Self:
        """Return a batch of up to *slots_max* final slots, the next ones that are not folded yet.

        retention   how long candles are kept
        """
        folding = cls(access, tables, retention=retention)
        await access.run(lambda db: folding._read(db, slots_max))
        return folding

    def _read(self, db: Database, slots_max: int) -> None:
        self._seq = last_seq(db)  # read first, so `save` notices each mint that is tracked later
        self.day = db.execute("SELECT folded_day FROM progress").get
        self.slots = [
            FinalizedSlot(Slot(slot), UnixS(time), seq)
            for slot, time, seq in db.execute(FINAL_SLOTS, (slots_max,))
        ]

    async def swaps(self, slot: FinalizedSlot) -> dict[Mint, list[PricedSwap]]:
        """Return the swaps of *slot* by mint; those of one mint are in order."""
        rows = await self._access.run(lambda db: db.execute(SWAPS, (slot.seq,)))
        return {Mint(address): swaps_of(Mint(address), blob) for address, blob in rows}

    async def details(self, slot: FinalizedSlot, mints: Sequence[Mint]) -> dict[Mint, bytes]:
        """Return the details of the swaps of *mints* in *slot*, such as signatures, as bytes.

        `kept` must have read *mints* before.  Mints without details are left out.
        """
        mint_of = {self._ids[mint]: mint for mint in mints}
        found = await self._access.run(lambda db: _details(db, slot.seq, list(mint_of)))
        return {mint_of[mint_id]: bytes(blob) for mint_id, blob in found}

    async def kept(self, mints: Collection[Mint]) -> dict[Mint, Kept]:
        """Return the stored data of each of *mints*; mints without a row are left out."""
        found = {}
        rows = await self._access.run(lambda db: self._tables.kept(db, mints))
        for address, mint_id, since_slot, is_removed, *states, day, swaps, volume, lively in rows:
            mint = Mint(address)
            self._ids[mint] = mint_id
            activity = None if day is None else Activity(day, swaps, volume, lively)
            state, in_sol, *books = states
            found[mint] = Kept(since_slot, bool(is_removed), state, in_sol, activity, *books)
        return found

    async def followed(self) -> dict[Mint, Activity]:
        """Return the stored activity of each mint that is tracked because of its trades.

        Mints that an operator has listed are left out.
        """
        rows = await self._access.run(lambda db: db.execute(FOLLOWED))
        return {Mint(address): Activity(*counted) for address, *counted in rows}

    async def save(self, folded: Folded) -> bool:
        """Write the changes in *folded*, and record its slots as folded.

        Returns False, and writes nothing, if a mint was tracked or untracked since the batch was
        read.
        """
        return await self._access.run(lambda db: self._save(db, folded))

    def _save(self, db: Database, folded: Folded) -> bool:
        with db.transaction():
            if db.execute(OVERTAKEN, (self._seq,)).get:
                return False
            self._follow(db, folded)
            self._save_mints(db, folded.mints)
            last = folded.checkpoint
            day = day_of(last.time)
            db.execute(CHECKPOINT, (last.slot, day, last.slot))
            if day != self.day:
                db.execute(forgetting.BEGIN)
        return True

    def _follow(self, db: Database, folded: Folded) -> None:
        untrack_all(db, self._tables, folded.untracked)
        for mint, slot in folded.tracked.items():
            track(db, mint, (Slot(slot.slot - 1), slot.time), by_rule=True)
        if folded.untracked or folded.tracked:
            self._tables.written(db)
        db.executemany(
            ACTIVITY, ((self._ids[mint], *activity) for mint, activity in folded.activity.items())
        )

    def _save_mints(self, db: Database, mints: Mapping[Mint, FoldedMint]) -> None:
        of = [(self._ids[mint], one) for mint, one in mints.items()]
        of.sort(key=itemgetter(0))  # in the order of the table
        states = (
            (id_, one.state, one.last_swap, one.in_sol, one.pools.state, one.crowd.state)
            for id_, one in of
        )
        db.executemany(WITH_BOOKS, states)
        db.executemany(
            CANDLES,
            (
                (id_, timeframe, *astuple(row))
                for id_, one in of
                for timeframe, rows in one.changed.items()
                for row in rows
            ),
        )
        passed = [
            (id_, timeframe, *waypoint) for id_, one in of for timeframe, waypoint in one.waypoints
        ]
        if passed:
            db.executemany(WAYPOINTS, passed)
        cuts = [  # only a new bucket makes older rows too old
            cut_of(self._retention, id_, timeframe, rows[-1].bucket)
            for id_, one in of
            for timeframe in one.opened
            if (rows := one.changed[timeframe])
        ]
        self._tables.drop_old(db, cuts, CANDLES_MIN)
        self._save_pools(db, of)
        self._save_crowds(db, of)

    def _save_pools(self, db: Database, of: Sequence[tuple[int, FoldedMint]]) -> None:
        dropped = [(id_, key) for id_, one in of for key in one.pools.dropped]
        if dropped:
            db.executemany(DROP_POOL, dropped)
        db.executemany(POOL_CANDLES, ((id_, *row) for id_, one in of for row in one.pools.rows))
        cuts = [
            (id_, UnixS(one.pools.rows[-1].bucket - POOL_CANDLES_S))
            for id_, one in of
            if one.pools.rows
        ]
        self._tables.drop_old_spans(db, "pool_candle", cuts)

    def _save_crowds(self, db: Database, of: Sequence[tuple[int, FoldedMint]]) -> None:
        db.executemany(CROWDS, ((id_, *row) for id_, one in of for row in one.crowd.closed))
        cuts = [
            (id_, UnixS(one.crowd.closed[-1].bucket - CROWDS_S))
            for id_, one in of
            if one.crowd.closed
        ]
        self._tables.drop_old_spans(db, "crowd", cuts)


def _details(db: Database, seq: int, mint_ids: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return (mint id, packed details) for those mints in *mint_ids* whose swaps have details.

    seq   the log event of the swaps
    """
    found: list[tuple[int, bytes]] = []
    for first in range(0, len(mint_ids), DETAILS_AT_ONCE):
        some = mint_ids[first : first + DETAILS_AT_ONCE]
        # With repetitions, the text of the statement is always the same, so it is prepared once.
        missing = DETAILS_AT_ONCE - len(some)
        rows = db.execute(DETAILS, (seq, *some, *([some[-1]] * missing)))
        found.extend((mint_id, blob) for mint_id, blob in rows)
    return found


def cut_of(retention: Retention, mint_id: int, timeframe: Timeframe, newest: UnixS) -> Cut:
    """Return the time before which the candles of a mint and a timeframe may be deleted.

    newest   the start of the newest candle
    """
    return Cut(mint_id, timeframe, UnixS(newest - retention.keep_s[timeframe]))


DECIDED: Final = """
SELECT address, deciding FROM other_deciding_kept
UNION ALL
SELECT address, deciding FROM deciding_pool JOIN mint ON mint.id = deciding_pool.mint
"""
# Of final slots, only the newest row of each mint is needed: no retraction reaches further back.  A
# joined backfill logs swaps from before its mint was tracked: its price pools take precedence.
TRIMMED_PRICE_POOLS: Final = """
SELECT slot, address, deciding, seq, 1 AS is_logged FROM (
    SELECT header.slot, address, deciding, seq,
           row_number() OVER (PARTITION BY swap.mint ORDER BY seq DESC) AS place
      FROM swap JOIN header USING (seq) JOIN mint ON mint.id = swap.mint
     WHERE is_dead = 0 AND deciding IS NOT NULL
       AND header.slot <= (SELECT finalized_slot FROM progress)) AS final
 WHERE place = 1
UNION ALL
SELECT slot, address, deciding, seq, 0 AS is_logged FROM (
    SELECT header.slot, address, deciding, seq,
           row_number() OVER (PARTITION BY address ORDER BY seq DESC) AS place
      FROM other_deciding JOIN header USING (seq)
     WHERE is_dead = 0 AND header.slot <= (SELECT finalized_slot FROM progress)) AS final
 WHERE place = 1
 ORDER BY seq, is_logged
"""
PRICE_POOLS: Final = """
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
KEEP_PRICE_POOLS: Final = """
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
# In days: older price pools have no effect, because the price of a quote must be younger than an
# hour.
OTHERS_DAYS: Final = 2
OTHERS_A_STEP: Final = 500
FORGET_OTHERS: Final = """
DELETE FROM other_deciding_kept
 WHERE address IN (SELECT address FROM other_deciding_kept
                    WHERE day < (SELECT folded_day FROM progress) - ? ORDER BY day LIMIT ?)
"""


def price_pools(db: Database) -> list[tuple[Slot, Mint, Standing]]:
    """Return (slot, mint, price pools of the mint after the slot).

    For each mint, these are the newest slot that changed its pools and is no longer stored, as -1;
    the newest stored final slot that changed them; and all later ones.
    """
    kept = [(Mint(mint), unpack(blob)) for mint, blob in db.execute(DECIDED)]
    # Of a mint whose tracking began or ended, both tables have a row.  The newer one counts.
    trimmed = dict(sorted(kept, key=_traded_at))
    return [(Slot(-1), mint, standing) for mint, standing in trimmed.items()] + [
        (Slot(slot), Mint(mint), unpack(blob))
        for statement in (TRIMMED_PRICE_POOLS, PRICE_POOLS)
        for slot, mint, blob, *_ in db.execute(statement)
    ]


def _traded_at(of: tuple[Mint, Standing]) -> UnixS:
    _, standing = of
    return max(pool.at for pool in standing.pools)


def keep_price_pools(db: Database, until: int) -> None:
    """Store the price pools of mints as of event *until*, before older events are deleted.

    Some price pools of mints that no longer trade are deleted.
    """
    db.execute(KEEP_PRICE_POOLS, (until,))
    db.execute(KEEP_OTHERS, (until,))
    db.execute(FORGET_OTHERS, (OTHERS_DAYS, OTHERS_A_STEP))
