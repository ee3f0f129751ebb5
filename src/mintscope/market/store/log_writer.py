"""Writes the swap log, tracked mints and facts of mints to SQL tables."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.sql.database import (
    Batch,
    Database,
    DatabaseAccess,
    DatabaseError,
    Rows,
    Values,
    unavailable_on_database_error,
)
from mintscope.kit.time import HOUR_MS
from mintscope.market.coverage import NotRead, SlotCoverage
from mintscope.market.engine.fold import DEAD_MAX, GAPS_MAX, Tail
from mintscope.market.log import PricedSwap, volumes_of
from mintscope.market.mint_facts import MintFacts
from mintscope.market.ports import (
    DEFAULT_RETENTION,
    Change,
    FinalSlot,
    FoundMints,
    NewSlot,
    OrphanedSlot,
    Retention,
    TrackedMint,
    Unread,
)
from mintscope.market.pricing import RATE_WINDOW_S
from mintscope.market.series.store import details_blob
from mintscope.market.standing import Standing
from mintscope.market.store import log_reader as not_read
from mintscope.market.store.coverage import CoverageWriter, died, lost
from mintscope.market.store.fold import SqlFolding, keep_price_pools, price_pools
from mintscope.market.store.log_reader import (
    Result,
    header_of,
    header_row,
    last_seq,
    mints_blob,
    standing_blob,
    swaps_blob,
)
from mintscope.market.store.mints import MarketTables, MintIds, remove, track, untrack_all
from mintscope.market.store.retention import Forgetting, clear_some
from mintscope.solana.blocks import Gap

QUARANTINE_MAX: Final = 10_000

EVENTS: Final = Batch(
    "event", {"seq": "bigint", "kind": "text", "slot": "bigint", "mints": "bytea"}
)
HEADERS: Final = Batch(
    "header",
    {
        **dict.fromkeys(("seq", "slot", "parent_slot"), "bigint"),
        "blockhash": "text",
        "time": "bigint",
        "sol_usd": "double precision",
        "sol_usd_time": "bigint",
        "samples": "bytea",
    },
)
SWAPS: Final = Batch(
    "swap",
    {
        "seq": "bigint",
        "mint": "bigint",
        "swaps": "bytea",
        "deciding": "bytea",
        "bought": "bigint",
        "sold": "bigint",
        "details": "bytea",
    },
)

OTHERS: Final = Batch("other_deciding", {"seq": "bigint", "address": "text", "deciding": "bytea"})

# Only the newest living slot can die, so no living slot descends from a dead one.
KILL: Final = """
UPDATE header SET is_dead = 1
 WHERE seq = (SELECT max(seq) FROM header WHERE is_dead = 0) AND slot = ?
RETURNING seq
"""

DIED_FROM: Final = "SELECT parent_slot, time FROM header WHERE seq = ?"
TOUCHED: Final = """
SELECT (SELECT address FROM mint WHERE mint.id = swap.mint) FROM swap WHERE seq = ? ORDER BY mint
"""

# All swaps after the new tip count, even in a slot that the dead fork had skipped: they are logged
# after the mint was tracked.
COUNT_FROM_TIP: Final = """
UPDATE mint SET since_slot = coalesce((SELECT max(slot) FROM header WHERE is_dead = 0), -1)
 WHERE since_slot >= ?
"""

CHOSEN_BY_RULE: Final = "SELECT address FROM mint WHERE since_slot IS NOT NULL AND is_listed = 0"

DELETE: Final = "DELETE FROM {table} WHERE seq > ? AND seq <= ?"

ADD_UNREAD: Final = """
INSERT INTO quarantine (slot, signature, program, reason) VALUES (?, ?, ?, ?) RETURNING id
"""

# The headers of a `Tail`: of living slots from 60 s before the finalized slot on.
TAIL_HEADERS: Final = """
SELECT slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples
  FROM header
 WHERE is_dead = 0
   AND time >= coalesce((SELECT final.time FROM header AS final CROSS JOIN progress
                          WHERE final.slot = finalized_slot AND final.is_dead = 0), 0) - ?
 ORDER BY seq
"""

NEWEST_DEAD: Final = (
    "SELECT slot, blockhash FROM header WHERE is_dead = 1 ORDER BY seq DESC LIMIT ?"
)
NEWEST_GAPS: Final = "SELECT first, last, reason FROM gap ORDER BY first DESC, last DESC LIMIT ?"

# The first event that must not be deleted: it is not folded yet, or so near to the checkpoint that
# it must be stored, because loading a mint, pricing a slot or placing a block may read it.  Times
# do not decrease.
FIRST_TO_KEEP: Final = """
SELECT min(seq) FROM header WHERE time >= (SELECT time FROM header WHERE seq = ?) - ?
"""


class LogCopier:
    """Copies SQLite's write-ahead log into the database file, while the writer continues.

    access   runs *copy* in a thread, over a separate connection
    copy     copies the write-ahead log if it is long enough
    """

    def __init__(self, access: DatabaseAccess[Database], copy: Callable[[Database], None]) -> None:
        self._access = access
        self._copy = copy
        self._copying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to copy, unless a copy is running.  Raises DatabaseError if the last one failed."""
        last = self._copying
        if last is not None:
            if not last.done():
                return
            self._copying = None  # a failure is reported once, and the next call tries again
            last.result()
        self._copying = asyncio.create_task(self._access.run(self._copy))

    async def close(self) -> None:
        """Wait until a running copy ends, and close the connection."""
        try:
            if self._copying is not None:
                await asyncio.gather(self._copying, return_exceptions=True)
        finally:
            self._access.close()


class SqlMarketStore:
    """Writes the log and the fold of the market for ingest; one process writes at a time.

    access        runs work on the writer's connection, in one thread or in the event loop
    tables        the reads and writes that differ by database engine
    follows_all   whether the swaps of untracked mints are logged, too
    copier        copies the write-ahead log into the database file; None: the database has no such
                  log, or each commit copies it
    """

    def __init__(
        self,
        access: DatabaseAccess[Database],
        tables: MarketTables,
        *,
        follows_all: bool = False,
        retention: Retention = DEFAULT_RETENTION,
        copier: LogCopier | None = None,
    ) -> None:
        self._access = access
        self._copier = copier
        self._tables = tables
        self._follows_all = follows_all
        self._mints = MintIds(tables, creates=follows_all)
        self._retention = retention
        self._coverage = CoverageWriter()
        self._forgetting = Forgetting(self._mints.drop)

    async def start(self, *, mints: Sequence[Mint], follows_files: bool) -> Tail:
        """Return the tail of the log: the newest blocks, against which new ones are checked.

        If the log has no slot yet, *mints* are tracked.  A store that logs only tracked mints ends
        the tracking of those that a rule chose.

        follows_files   whether the market's clock follows replayed files; recorded for readers
        """
        return await self._access.run(lambda db: self._start(db, mints, follows_files))

    async def price_pools(self) -> Sequence[tuple[Slot, Mint, Standing]]:
        """Return (slot, mint, price pools of the mint after the slot), oldest first.

        For each mint, these are the newest slot that changed its pools and is no longer stored, as
        -1; the newest stored final slot that changed them; and all later ones.
        """
        return await self._access.run(price_pools)

    async def claim(self, genesis_hash: str) -> str:
        """Store *genesis_hash* if the log has no genesis hash; return the hash that is stored."""
        return await self._access.run(lambda db: _claim(db, genesis_hash))

    async def write(self, changes: Sequence[Change]) -> None:
        """Add *changes* to the log, all or none of them."""
        await self._access.run(lambda db: self._write(db, changes))

    async def fold(self, slots_max: int) -> SqlFolding:
        """Return a batch of up to *slots_max* final slots; save it before you read the next one."""
        return await SqlFolding.begin(
            self._access,
            self._tables,
            slots_max,
            retention=self._retention,
        )

    async def tracked_count(self) -> int:
        """Return the number of tracked mints."""
        count: int = await self._access.run(lambda db: db.execute(not_read.TRACKED_COUNT).get)
        return count

    async def trim(self, events_max: int) -> int:
        """Delete up to *events_max* of the oldest log events if nothing needs them.

        Returns the number of deleted events.  Each call also deletes some candles of mints that are
        no longer tracked and, after the start of a day, some mints that no longer trade.
        """
        trimmed = await self._access.run(lambda db: self._trim(db, events_max))
        if self._copier is not None:
            self._copier.start()
        return trimmed

    async def close(self) -> None:
        """Close the database."""
        if self._copier is not None:
            await self._copier.close()
        self._access.close()

    def _start(self, db: Database, mints: Sequence[Mint], follows_files: bool) -> Tail:  # noqa: FBT001
        with db.transaction():
            db.execute("UPDATE progress SET follows_files = ?", (follows_files,))
            if not self._follows_all:
                chosen = [Mint(address) for (address,) in db.execute(CHOSEN_BY_RULE)]
                untrack_all(db, self._tables, chosen)
            if not db.execute("SELECT 1 FROM header LIMIT 1").get:
                for mint in mints:
                    track(db, mint)
            self._tables.written(db)
            self._mints.forget()
            return Tail(
                headers=map(header_of, db.execute(TAIL_HEADERS, (RATE_WINDOW_S,))),
                finalized=db.execute("SELECT finalized_slot FROM progress").get,
                dead=[(slot, block) for slot, block in db.execute(NEWEST_DEAD, (DEAD_MAX,))][::-1],
                gaps=(Gap(*row) for row in reversed(list(db.execute(NEWEST_GAPS, (GAPS_MAX,))))),
            )

    def _trim(self, db: Database, events_max: int) -> int:
        trimmed = _trim(db, events_max, self._retention.swaps_s)
        clear_some(db)
        self._forgetting.steps(db)
        self._tables.tidy(db)
        return trimmed

    def _write(self, db: Database, changes: Sequence[Change]) -> None:
        with db.transaction():
            self._mints.refresh(db)
            slots = (change for change in changes if isinstance(change, NewSlot))
            traded = dict.fromkeys(swap.mint for new in slots for swap in new.swaps)
            added = _Added(self._mints.look_up(db, traded))
            covered: list[SlotCoverage] = []
            seq = last_seq(db)
            for change in changes:
                match change:
                    case NewSlot():
                        seq += 1
                        added.append(seq, change)
                    case OrphanedSlot(slot):
                        seq += 1
                        added.flush(db)  # the dead slot may be among the changes before
                        self._coverage.add(db, covered)
                        covered.clear()
                        _retract(db, seq, slot)
                    case FinalSlot(slot):
                        seq += 1
                        added.events.append((seq, "finalize", slot, None))
                        db.execute("UPDATE progress SET finalized_slot = ?", (slot,))
                    case Gap():
                        lost(db, change)
                    case Unread():
                        _quarantine(db, change)
                    case NotRead():
                        not_read.add(db, change)
                    case SlotCoverage():
                        covered.append(change)
            added.flush(db)
            self._coverage.add(db, covered)
            self._tables.written(db)


class _Added:
    """The rows of new events, which are written to the tables of the log together."""

    def __init__(self, numbers: Mapping[Mint, int | None]) -> None:
        self._numbers = numbers
        self.events: list[Sequence[object]] = []
        self._headers: list[Sequence[object]] = []
        self._swaps: list[Sequence[object]] = []
        self._others: list[Sequence[object]] = []

    def append(self, seq: int, new: NewSlot) -> None:
        self.events.append((seq, "append", new.header.slot, None))
        self._headers.append((seq, *header_row(new.header)))
        by_mint: dict[Mint, list[PricedSwap]] = {}
        for swap in new.swaps:
            by_mint.setdefault(swap.mint, []).append(swap)
        for mint, swaps in by_mint.items():
            number = self._numbers[mint]
            if number is not None:
                blob = standing_blob(new.standings.get(mint))
                row = (seq, number, swaps_blob(swaps), blob, *volumes_of(swaps))
                self._swaps.append((*row, details_blob(swaps)))
        for mint, standing in new.standings.items():
            if mint not in by_mint or self._numbers[mint] is None:  # its swaps are not logged here
                self._others.append((seq, mint, standing_blob(standing)))

    def flush(self, db: Database) -> None:
        """Write the rows that were added since the last call to the tables of the log."""
        for batch, rows in (
            (EVENTS, self.events),
            (HEADERS, self._headers),
            (SWAPS, self._swaps),
            (OTHERS, self._others),
        ):
            if rows:
                db.executemany(batch, rows)
                rows.clear()


def _retract(db: Database, seq: int, slot: Slot) -> None:
    killed = db.execute(KILL, (slot,)).get
    assert killed is not None, f"expected slot {slot} to be the newest that lives"
    db.execute(COUNT_FROM_TIP, (slot,))
    died(db, slot, *db.execute(DIED_FROM, (killed,)).get)
    mints = (Mint(address) for (address,) in db.execute(TOUCHED, (killed,)))
    db.executemany(EVENTS, [(seq, "retract", slot, mints_blob(mints))])


def _quarantine(db: Database, unread: Unread) -> None:
    row = (unread.slot, unread.signature, unread.program, unread.reason)
    newest = db.execute(ADD_UNREAD, row).get
    db.execute("DELETE FROM quarantine WHERE id <= ?", (newest - QUARANTINE_MAX,))


def _claim(db: Database, genesis_hash: str) -> str:
    with db.transaction():
        db.execute("UPDATE progress SET genesis_hash = coalesce(genesis_hash, ?)", (genesis_hash,))
        return str(db.execute("SELECT genesis_hash FROM progress").get)


def _trim(db: Database, events_max: int, keep_s: int) -> int:
    with db.transaction():
        folded, trimmed = db.execute("SELECT folded_seq, trimmed_seq FROM progress").get
        keep = db.execute(FIRST_TO_KEEP, (folded, keep_s)).get
        until = min(trimmed + events_max, keep - 1) if folded else trimmed
        if until <= trimmed:
            return 0
        keep_price_pools(db, until)
        for table in ("other_deciding", "swap", "header", "event"):
            db.execute(DELETE.format(table=table), (trimmed, until))
        db.execute("UPDATE progress SET trimmed_seq = ?", (until,))
        return int(until - trimmed)


TRACKED: Final = """
SELECT address, since_slot, since_time, is_listed, last_swap, state.state
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE since_slot IS NOT NULL AND {which}
"""
PAGE: Final = TRACKED.format(which="address > ? ORDER BY address LIMIT ?")
ONE: Final = TRACKED.format(which="address = ?")
# Not LIKE, which ignores case in SQLite, and not in PostgreSQL.
HAS_TEXT: Final = "since_slot IS NOT NULL AND (?1 = '' OR replace(address, ?1, '') <> address)"
COUNT: Final = f"SELECT count(*) FROM mint WHERE {HAS_TEXT}"  # noqa: S608  a constant
FOUND: Final = f"""
SELECT address, since_slot, since_time, is_listed, last_swap, NULL
  FROM mint LEFT JOIN state ON state.mint = id
 WHERE {HAS_TEXT}
 ORDER BY is_listed DESC, coalesce(last_swap, 0) DESC, address LIMIT ?2
"""  # noqa: S608  a constant

UNAVAILABLE: Final = "The market does not answer; try again."
IS_LISTED: Final = "SELECT is_listed FROM mint WHERE address = ?"


class SqlTracking:
    """The tracked mints in the store, which an operator may change while ingest runs.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def add(self, mint: Mint) -> bool:
        """Track *mint* for an operator: it becomes listed; return False if it was listed before."""
        return await self._run(lambda db: _add(db, mint))

    async def remove(self, mint: Mint) -> bool:
        """Untrack *mint* and delete its data; return False if it was not tracked.

        No rule tracks it again until an operator adds it.
        """
        return await self._run(lambda db: _remove(db, mint))

    async def page(self, after: str, limit: int) -> Sequence[TrackedMint]:
        """Return up to *limit* tracked mints whose addresses follow *after*, ordered by address."""
        return await self._run(lambda db: _read(db, PAGE, after, limit))

    async def found(self, text: str, limit: int) -> FoundMints:
        """Return up to *limit* tracked mints with *text* in their address, and how many there are.

        Mints that an operator listed come first, then those with the newest swaps.
        """
        return await self._run(lambda db: _found(db, text, limit))

    async def one(self, mint: Mint) -> TrackedMint | None:
        """Return *mint* with the slot from which it is tracked; None if it is not tracked."""
        return next(iter(await self._run(lambda db: _read(db, ONE, mint))), None)

    async def close(self) -> None:
        """Close the database."""
        self._access.close()

    async def _run(self, work: Callable[[Database], Result]) -> Result:
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(work)


def _add(db: Database, mint: Mint) -> bool:
    with db.transaction():
        was_listed = bool(db.execute(IS_LISTED, (mint,)).get)
        track(db, mint)
        return not was_listed


def _remove(db: Database, mint: Mint) -> bool:
    with db.transaction():
        return remove(db, mint)


def _found(db: Database, text: str, limit: int) -> FoundMints:
    return FoundMints(db.execute(COUNT, (text,)).get, _read(db, FOUND, text, limit))


def _read(db: Database, statement: str, *values: str | int) -> list[TrackedMint]:
    return [
        TrackedMint(Mint(address), Slot(since_slot), since_time, bool(is_listed), last_swap, state)
        for address, since_slot, since_time, is_listed, last_swap, state in db.execute(
            statement, values
        )
    ]


ALL: Final = "SELECT name, said FROM ingest_check ORDER BY since, name"
FORGET: Final = "DELETE FROM ingest_check WHERE name = ?"
KEEP: Final = """
INSERT INTO ingest_check (name, said, since) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET said = excluded.said
"""


class SqlIngestChecks:
    """Stores the failing checks of ingest.  Every method may raise ServiceUnavailable."""

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def keep(self, failing: Mapping[str, str], now: UnixMs) -> None:
        """Replace the stored checks with *failing*, messages by name; new ones fail since *now*."""

        def write(db: Database) -> None:
            with db.transaction():
                for name, _ in list(db.execute(ALL)):
                    if name not in failing:
                        db.execute(FORGET, (name,))
                for name, said in failing.items():
                    db.execute(KEEP, (name, said, now))

        await self._run(write)

    async def failing(self) -> Mapping[str, str]:
        """Return the messages of the ingest checks that fail now, by name, oldest first."""
        return await self._run(lambda db: {str(name): str(said) for name, said in db.execute(ALL)})

    async def expect_none(self) -> None:
        """Raise ServiceUnavailable with the messages of the ingest checks that fail, if any do."""
        failing = await self.failing()
        if failing:
            raise ServiceUnavailable("; ".join(failing.values()))

    async def close(self) -> None:
        """Close the database."""
        self._access.close()

    async def _run(self, work: Callable[[Database], Result]) -> Result:
        try:
            return await self._access.run(work)
        except DatabaseError as cause:  # not logged, because other checks report it
            raise ServiceUnavailable(UNAVAILABLE) from cause


# Facts read this much later than the stored ones replace them even if their slot is lower: a node
# may have returned the stored ones with an absurdly high slot.
NEWER_MS: Final = HOUR_MS

SAVE: Final = f"""
INSERT INTO mint_fact (mint, slot, read_at_ms, facts)
SELECT id, :slot, :read_at_ms, :facts FROM mint WHERE address = :mint
    ON CONFLICT (mint) DO UPDATE SET
       slot = excluded.slot, read_at_ms = excluded.read_at_ms, facts = excluded.facts
 WHERE excluded.slot >= mint_fact.slot OR excluded.read_at_ms > mint_fact.read_at_ms + {NEWER_MS}
RETURNING 1
"""  # noqa: S608  a constant
MISSED: Final = """
INSERT INTO mint_fact (mint, slot, read_at_ms) SELECT id, 0, :read_at_ms FROM mint
 WHERE address = :mint
    ON CONFLICT (mint) DO UPDATE SET read_at_ms = excluded.read_at_ms
"""
ONE_FACT: Final = "SELECT facts FROM mint_fact JOIN mint ON mint_fact.mint = id WHERE address = ?"
# The mint is written before its facts: deleting a mint locks both in the same order.
READ: Final = "UPDATE mint SET facts_read_at_ms = :read_at_ms WHERE address = :mint"
DUE: Final = """
SELECT address FROM mint WHERE since_slot IS NOT NULL AND facts_read_at_ms < ?
 ORDER BY facts_read_at_ms, address LIMIT ?
"""


class SqlMintFacts:
    """Stores the facts of mints from a node, such as names; this is safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    def __init__(self, access: DatabaseAccess[Database]) -> None:
        self._access = access

    async def save(self, mint: Mint, facts: MintFacts) -> bool:
        """Store *facts*; return False if *mint* has no row, or facts newer by NEWER_MS."""
        row = {
            "mint": mint,
            "slot": facts.slot,
            "read_at_ms": facts.read_at_ms,
            "facts": msgspec.json.encode(facts),
        }
        return bool((await self._written(SAVE, row)).get)

    async def missed(self, mint: Mint, read_at_ms: UnixMs) -> None:
        """Record that a read of *mint* failed at *read_at_ms*; its stored facts do not change."""
        await self._written(MISSED, {"mint": mint, "read_at_ms": read_at_ms})

    async def one(self, mint: Mint) -> MintFacts | None:
        """Return the stored facts of *mint*, such as its name; None if none are stored."""
        kept = (await self._read(ONE_FACT, (mint,))).get
        return None if kept is None else msgspec.json.decode(kept, type=MintFacts)

    async def due(self, before_ms: UnixMs, mints_max: int) -> Sequence[Mint]:
        """Return up to *mints_max* mints whose facts are older than *before_ms*, oldest first."""
        rows = await self._read(DUE, (before_ms, mints_max))
        return [Mint(address) for (address,) in rows]

    async def close(self) -> None:
        """Close the database."""
        self._access.close()

    async def _read(self, statement: str, values: Values) -> Rows:
        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(lambda db: db.execute(statement, values))

    async def _written(self, statement: str, values: Mapping[str, object]) -> Rows:
        def write(db: Database) -> Rows:
            with db.transaction():
                db.execute(READ, {name: values[name] for name in ("mint", "read_at_ms")})
                return db.execute(statement, values)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._access.run(write)
