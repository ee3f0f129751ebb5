"""MarketStore on SQLite: the swap log's one writer."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.base.solana import Gap
from mintscope.core.market.deciding import DecidingPool
from mintscope.core.market.engine.tail import DEAD_MAX, GAPS_MAX, Tail
from mintscope.core.market.log import PricedSwap
from mintscope.core.market.pricing import RATE_WINDOW_S
from mintscope.core.market.store import (
    DEFAULT_RETENTION,
    RECENT_S,
    Change,
    DeadSlot,
    FinalSlot,
    Folding,
    NewSlot,
    NotRead,
    Retention,
    Unread,
)
from mintscope.edges.storage.sqlite.connection import open_store, transaction
from mintscope.edges.storage.sqlite.market import not_read
from mintscope.edges.storage.sqlite.market.fold import SqliteFolding
from mintscope.edges.storage.sqlite.market.mints import MintIds, track, untrack
from mintscope.edges.storage.sqlite.market.rows import (
    deciding_blob,
    deciding_of,
    header_of,
    header_row,
    last_seq,
    mints_blob,
    swaps_blob,
    volumes_of,
)

QUARANTINE_MAX: Final = 10_000

ADD_EVENT: Final = "INSERT INTO event (seq, kind, slot, mints) VALUES (?, ?, ?, ?)"
ADD_HEADER: Final = "INSERT INTO header VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
ADD_SWAPS: Final = """
INSERT INTO swap (seq, mint, swaps, deciding, bought, sold) VALUES (?, ?, ?, ?, ?, ?)
"""

# Only the newest living slot dies, so nothing that lives ever follows a dead one.
KILL: Final = """
UPDATE header SET is_dead = 1
 WHERE seq = (SELECT max(seq) FROM header WHERE NOT is_dead) AND slot = ?
RETURNING seq
"""

TOUCHED: Final = """
SELECT address FROM swap JOIN mint ON mint.id = swap.mint WHERE seq = ? ORDER BY mint.id
"""

# Whatever follows the new tip counts, also in a slot that the dead fork had skipped:
# it is logged after the mint was tracked.
COUNT_FROM_TIP: Final = """
UPDATE mint SET since_slot = coalesce((SELECT max(slot) FROM header WHERE NOT is_dead), -1)
 WHERE since_slot >= ?
"""

CHOSEN_BY_RULE: Final = "SELECT address FROM mint WHERE since_slot IS NOT NULL AND NOT is_listed"

ADD_GAP: Final = "INSERT INTO gap (first, last, reason) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

ADD_UNREAD: Final = "INSERT INTO quarantine (slot, signature, program, reason) VALUES (?, ?, ?, ?)"

# What a Tail holds: every living header since 60 s before the finalized one.
TAIL_HEADERS: Final = """
SELECT slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples
  FROM header
 WHERE NOT is_dead
   AND time >= coalesce((SELECT final.time FROM header AS final JOIN progress
                          WHERE final.slot = finalized_slot AND NOT final.is_dead), 0) - ?
 ORDER BY seq
"""

DECIDED: Final = """
SELECT -1, address, deciding, 0 FROM deciding_pool JOIN mint ON mint.id = mint
"""
# Of final slots the newest alone, for none is gone back to: with max() its row is the one given.
FINALLY_DECIDING: Final = """
SELECT header.slot, address, deciding, max(seq)
  FROM swap JOIN header USING (seq) JOIN mint ON mint.id = swap.mint
 WHERE NOT is_dead AND deciding IS NOT NULL
   AND header.slot <= (SELECT finalized_slot FROM progress)
 GROUP BY swap.mint ORDER BY 4
"""
DECIDING: Final = """
SELECT header.slot, address, deciding, seq
  FROM swap JOIN header USING (seq) JOIN mint ON mint.id = swap.mint
 WHERE NOT is_dead AND deciding IS NOT NULL
   AND header.slot > (SELECT coalesce(finalized_slot, -1) FROM progress)
 ORDER BY seq
"""
KEEP_DECIDING: Final = """
INSERT OR REPLACE INTO deciding_pool
SELECT mint, deciding FROM swap JOIN header USING (seq)
 WHERE seq <= ? AND NOT is_dead AND deciding IS NOT NULL ORDER BY seq
"""

NEWEST_DEAD: Final = "SELECT slot, blockhash FROM header WHERE is_dead ORDER BY seq DESC LIMIT ?"
NEWEST_GAPS: Final = "SELECT first, last, reason FROM gap ORDER BY first DESC, last DESC LIMIT ?"

# The first event that must stay: not folded yet, or so near to the checkpoint that
# loading a mint, pricing a slot or placing a block may read it.  Times never go back.
FIRST_TO_KEEP: Final = """
SELECT min(seq) FROM header WHERE time >= (SELECT time FROM header WHERE seq = ?) - ?
"""


class SqliteMarketStore:
    """Implements market.store.MarketStore; one of them per file writes."""

    def __init__(
        self, path: Path, *, follows_all: bool = False, retention: Retention = DEFAULT_RETENTION
    ) -> None:
        """Open *path*; with *follows_all* the swaps of untracked mints are logged too."""
        self._db = open_store(path, "market")
        self._follows_all = follows_all
        self._mints = MintIds(self._db, creates=follows_all)
        self._retention = retention

    async def start(self, *, mints: Sequence[Mint], follows_files: bool) -> Tail:
        """Return where the log stands; track *mints* before the first slot ever.

        Without *follows_all* the mints that a rule chose are dropped: no rule keeps them now.
        """
        with transaction(self._db) as db:
            db.execute("UPDATE progress SET follows_files = ?", (follows_files,))
            if not self._follows_all:
                for (address,) in list(db.execute(CHOSEN_BY_RULE)):
                    untrack(db, Mint(address))
            if db.execute("SELECT NOT EXISTS (SELECT 1 FROM header)").get:
                for mint in mints:
                    track(db, mint)
            self._mints.forget()
            return Tail(
                headers=map(header_of, db.execute(TAIL_HEADERS, (RATE_WINDOW_S,))),
                finalized=db.execute("SELECT finalized_slot FROM progress").get,
                dead=reversed(list(db.execute(NEWEST_DEAD, (DEAD_MAX,)))),
                gaps=(Gap(*row) for row in reversed(list(db.execute(NEWEST_GAPS, (GAPS_MAX,))))),
            )

    async def deciding_pools(self) -> Sequence[tuple[Slot, Mint, DecidingPool]]:
        """Return which pools decided after which living slots, oldest first."""
        rows = chain.from_iterable(map(self._db.execute, (DECIDED, FINALLY_DECIDING, DECIDING)))
        return [(Slot(slot), Mint(mint), deciding_of(blob)) for slot, mint, blob, _ in rows]

    async def claim(self, genesis_hash: str) -> str:
        """Return the genesis hash of the log's chain: *genesis_hash* if none was recorded."""
        with transaction(self._db) as db:
            db.execute(
                "UPDATE progress SET genesis_hash = ifnull(genesis_hash, ?)", (genesis_hash,)
            )
            return str(db.execute("SELECT genesis_hash FROM progress").get)

    async def write(self, changes: Sequence[Change]) -> None:
        """Add *changes* to the log, all or none of them."""
        with transaction(self._db) as db:
            self._mints.refresh()
            seq = last_seq(db)
            for change in changes:
                match change:
                    case NewSlot():
                        seq += 1
                        self._append(seq, change)
                    case DeadSlot(slot):
                        seq += 1
                        self._retract(seq, slot)
                    case FinalSlot(slot):
                        seq += 1
                        db.execute(ADD_EVENT, (seq, "finalize", slot, None))
                        db.execute("UPDATE progress SET finalized_slot = ?", (slot,))
                    case Gap(first, last, reason):
                        db.execute(ADD_GAP, (first, last, reason))
                    case Unread():
                        self._quarantine(change)
                    case NotRead():
                        not_read.add(db, change)

    async def fold(self, slots_max: int) -> Folding:
        """Return a batch of up to *slots_max* final slots; one at a time."""
        return SqliteFolding(
            self._db,
            slots_max=slots_max,
            retention=self._retention,
            on_forget=self._mints.forget,
        )

    async def trim(self, events_max: int) -> int:
        """Forget up to *events_max* of the oldest events that are not needed; return how many."""
        with transaction(self._db) as db:
            folded, trimmed = db.execute("SELECT folded_seq, trimmed_seq FROM progress").get
            keep = db.execute(FIRST_TO_KEEP, (folded, RECENT_S)).get
            until = min(trimmed + events_max, keep - 1) if folded else trimmed
            if until <= trimmed:
                return 0
            db.execute(KEEP_DECIDING, (until,))
            db.execute("DELETE FROM swap WHERE seq <= ?", (until,))
            db.execute("DELETE FROM header WHERE seq <= ?", (until,))
            db.execute("DELETE FROM event WHERE seq <= ?", (until,))
            db.execute("UPDATE progress SET trimmed_seq = ?", (until,))
            return int(until - trimmed)

    async def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _append(self, seq: int, new: NewSlot) -> None:
        self._db.execute(ADD_EVENT, (seq, "append", new.header.slot, None))
        self._db.execute(ADD_HEADER, (seq, *header_row(new.header)))
        by_mint: dict[Mint, list[PricedSwap]] = {}
        for swap in new.swaps:
            by_mint.setdefault(swap.mint, []).append(swap)
        rows = (
            (
                *(seq, mint_id, swaps_blob(swaps), deciding_blob(new.deciding.get(mint))),
                *volumes_of(swaps),
            )
            for mint, swaps in by_mint.items()
            if (mint_id := self._mints.id_of(mint)) is not None
        )
        self._db.executemany(ADD_SWAPS, rows)

    def _retract(self, seq: int, slot: Slot) -> None:
        killed = self._db.execute(KILL, (slot,)).get
        assert killed is not None, f"expected slot {slot} to be the newest that lives"
        self._db.execute(COUNT_FROM_TIP, (slot,))
        mints = (Mint(address) for (address,) in self._db.execute(TOUCHED, (killed,)))
        self._db.execute(ADD_EVENT, (seq, "retract", slot, mints_blob(mints)))

    def _quarantine(self, unread: Unread) -> None:
        row = (unread.slot, unread.signature, unread.program, unread.reason)
        self._db.execute(ADD_UNREAD, row)
        newest = self._db.last_insert_rowid()
        self._db.execute("DELETE FROM quarantine WHERE id <= ?", (newest - QUARANTINE_MAX,))
