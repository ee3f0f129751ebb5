"""Reads of a list: bounded pages, each from one snapshot."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mintscope.base.errors import TokenNotFound
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.listing.spans import D1, H1, M5
from mintscope.core.market.listing.store import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    MinuteVolume,
    PartVolume,
    SlotTrades,
)
from mintscope.core.market.log import LogTrimmed
from mintscope.core.market.mint_facts import MintFacts
from mintscope.edges.storage.database import AccessInThreads, Database
from mintscope.edges.storage.sql.listing.statements import (
    FACTS,
    FACTS_OF,
    FOLDED,
    LAST_OF_PAGE,
    MINTS,
    MINUTES,
    NUMBER,
    PARTS,
    SLOTS,
    SWAPS,
    TRACKED,
)
from mintscope.edges.storage.sql.market.rows import mints_of, swaps_of
from mintscope.edges.storage.sql.market_reading import MarketReading

READ_TIMEOUT_S: Final = 30.0  # what is listed can wait, and is much at the start
SLOTS_MAX: Final = 100

_facts: Final = msgspec.json.Decoder(MintFacts)


class SqlListReader:
    """Implements ListReader; `close` it when done."""

    def __init__(self, access: AccessInThreads[Database]) -> None:
        self._reading = MarketReading(access, timeout_s=READ_TIMEOUT_S)

    async def folded(self) -> tuple[FoldedTo, int]:
        """Return how far the fold has come, and the newest event of the log."""

        def read(db: Database) -> tuple[FoldedTo, int]:
            *folded, newest, _ = db.execute(FOLDED).get
            return FoldedTo(*folded), newest

        return await self._reading.in_snapshot(read)

    async def mints(self, after: int, limit: int) -> MintPage:
        """Return up to *limit* followed mints after the page that ended with *after*."""

        def read(db: Database) -> MintPage:
            last = db.execute(LAST_OF_PAGE, (after, limit)).get
            found = [] if last is None else _mints(db, after + 1, last)
            return MintPage(folded=_folded(db), mints=found, last=last or after)

        return await self._reading.in_snapshot(read)

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        """Return those of *mints* that are followed."""

        def read(db: Database) -> MintPage:
            numbers = [db.execute(NUMBER, (mint,)).get for mint in mints]
            found = [
                one
                for number in numbers
                if number is not None
                for one in _mints(db, number, number)
            ]
            return MintPage(folded=_folded(db), mints=found, last=0)

        return await self._reading.in_snapshot(read)

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        """Return the folded slots after event *after_seq* and not after *until_seq*, in order."""
        return await self._reading.in_snapshot(lambda db: _trades(db, after_seq, until_seq, limit))

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        """Return the mints that were tracked or untracked in between, each once."""

        def read(db: Database) -> Sequence[Mint]:
            _expect_kept(db, after_seq)
            rows = db.execute(TRACKED, (after_seq, until_seq))
            return list(dict.fromkeys(mints_of(blob)[0] for (blob,) in rows))

        return await self._reading.in_snapshot(read)

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        """Return up to *limit* facts that were read after *place*, in order."""
        values = {"at": place.read_at_ms, "mint": place.mint, "limit": limit}
        rows = await self._reading.in_snapshot(lambda db: list(db.execute(FACTS, values)))
        return [(FactPlace(at, Mint(mint)), _facts.decode(kept)) for at, mint, kept in rows]

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        """Return what is kept of *mint*."""
        found = await self._reading.in_snapshot(lambda db: db.execute(FACTS_OF, (mint,)).fetchone())
        if found is None:
            raise TokenNotFound(f"This service does not track {mint}.")
        (kept,) = found
        return None if kept is None else _facts.decode(kept)

    async def close(self) -> None:
        """Let go of the database and the thread."""
        self._reading.close()


def _folded(db: Database) -> FoldedTo:
    seq, slot, time, *_ = db.execute(FOLDED).get
    return FoldedTo(seq, slot, time)


def _mints(db: Database, first: int, last: int) -> list[MintAsFolded]:
    """Return the followed mints whose numbers are from *first* to *last*."""
    now = _folded(db).time or UnixS(0)
    numbers: dict[str, int] = {"first": first, "last": last}
    moments: dict[str, int] = {"five": M5.start(now), "hour": H1.start(now), "day": D1.start(now)}
    minutes: dict[int, list[MinuteVolume]] = defaultdict(list)
    for number, *minute in db.execute(MINUTES, numbers | {"hour": moments["hour"]}):
        minutes[number].append(MinuteVolume(*minute))
    parts: dict[int, list[PartVolume]] = defaultdict(list)
    for number, *part in db.execute(PARTS, numbers | {"day": moments["day"]}):
        parts[number].append(PartVolume(*part))
    return [
        MintAsFolded(
            mint=Mint(address),
            since=since,
            state=state,
            facts=None if facts is None else _facts.decode(facts),
            before=tuple(before),
            minutes=minutes[number],
            parts=parts[number],
            first_usd=first_usd,
            standing=standing,
        )
        for number, address, since, state, facts, first_usd, standing, *before in db.execute(
            MINTS, numbers | moments
        )
    ]


def _trades(db: Database, after_seq: int, until_seq: int, limit: int) -> list[SlotTrades]:
    _expect_kept(db, after_seq)
    slots: list[SlotTrades] = []
    count = 0
    for seq, slot, time in db.execute(SLOTS, (after_seq, until_seq, SLOTS_MAX)):
        if count >= limit:
            break
        trades = [_trade(row) for row in db.execute(SWAPS, (seq, slot))]
        slots.append(SlotTrades(FoldedTo(seq, slot, time), trades))
        count += len(trades)
    return slots


def _trade(row: Any) -> MintTrades:
    address, bought, volume, blob, standing = row
    mint = Mint(address)
    priced = [swap for swap in swaps_of(mint, blob) if swap.price_usd is not None]
    if not priced:
        return MintTrades(mint, volume, bought, 0, None, None, standing=standing)
    newest = priced[-1]
    first_usd = priced[0].price_usd
    prices = (newest.price_usd, newest.price_sol, first_usd)
    return MintTrades(mint, volume, bought, len(priced), *prices, standing)


def _expect_kept(db: Database, after_seq: int) -> None:
    trimmed = db.execute(FOLDED).get[-1]
    if after_seq < trimmed:
        raise LogTrimmed(f"expected events after {after_seq}; they are no longer kept")
