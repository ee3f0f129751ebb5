"""A fake `LogReader` in memory, which returns the events that a test appends."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.frames import Frames
from mintscope.market.log import (
    Appended,
    CandleRow,
    Event,
    LoadedMint,
    LogTip,
    LogTrimmed,
    PricedSwap,
    Retracted,
    SlotFinalized,
    SlotHeader,
    TailSwap,
    Tracked,
    Untracked,
    Waypoint,
)
from mintscope.market.timeframe import AskedFrame, Timeframe

DAY_S = 86_400
TAIL_S = 900

Timed = tuple[UnixS, PricedSwap]


class Kept:
    """The stored candles and state of one mint, in memory; each `fold` is one transaction."""

    def __init__(self) -> None:
        self.rows: dict[Timeframe, dict[UnixS, CandleRow]] = {t: {} for t in Timeframe}
        self.waypoints: dict[Timeframe, list[Waypoint]] = {t: [] for t in Timeframe}
        self.state: bytes | None = None
        self.in_sol: bytes | None = None

    def fold(self, swaps: Sequence[Timed]) -> None:
        fold = MintFold.from_state(self.state, self.in_sol)
        for time, swap in swaps:
            fold.apply(time, swap)
        for timeframe, rows in fold.changed().items():
            self.rows[timeframe].update((row.bucket, row) for row in rows)
        for timeframe, waypoint in fold.waypoints():
            self.waypoints[timeframe].append(waypoint)
        self.state, self.in_sol = fold.state(), fold.in_sol()

    def load(
        self,
        mint: Mint,
        seq: int,
        swaps: Sequence[Timed],
        folded: int,
        slots: Sequence[Slot] | None = None,
    ) -> LoadedMint:
        """Return *mint* as loaded at *seq*; the first *folded* of *swaps* are in its candles.

        The tail has the folded swaps that are less than 15 minutes older than the newest of them,
        and all later swaps, because these can still be retracted.
        """
        final = swaps[folded - 1][0] if folded else 0
        return LoadedMint(
            mint=mint,
            seq=seq,
            state=self.state,
            candles={
                t: [row for row in rows.values() if row.count][-101:]
                for t, rows in self.rows.items()
            },
            minutes=[
                (row.bucket, row.buy_volume, row.sell_volume)
                for row in self.rows[Timeframe.M1].values()
                if row.bucket > final - DAY_S - 60
            ],
            tail=[
                TailSwap(slots[n] if slots else Slot(0), time, n < folded, swap)
                for n, (time, swap) in enumerate(swaps)
                if n >= folded or time > final - TAIL_S
            ],
        )


def frames_after(swaps: Sequence[Timed], timeframes: Collection[str]) -> bytes | None:
    """Return the packed `Frames` after *swaps*; None if *timeframes* is empty."""
    if not timeframes:
        return None
    frames = Frames()
    if AskedFrame.S15 in timeframes:
        frames.begin_short(())
    if {*timeframes} - {AskedFrame.S15}:
        frames.begin_wide({}, ())
    for time, swap in swaps:
        if swap.price_usd is not None:
            frames.apply(time, swap.price_usd)
    return frames.packed()


class FakeLog:
    """A LogReader over a list of events, and the methods that append to it.

    page        the maximum number of events that one read returns
    folded      the newest folded slot in the tip
    trimmed     the seq up to which events can no longer be read
    failing     an error that every read of the tip raises
    asking      a function that every read of the tip awaits
    meanwhile   a function that every load awaits after it has taken its snapshot of the log
    """

    def __init__(self) -> None:
        self.page = 256
        self.failing: Exception | None = None
        self.asking: Callable[[], Awaitable[object]] | None = None
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.asked = 0
        self.loads = 0
        self.kept: list[Event] = []  # the event with number n is at index n - 1
        self._followed: set[Mint] = set()  # currently tracked mints
        self.seq = 0
        self.trimmed = 0
        self.follows_files = False
        self.folded: Slot | None = None
        self.genesis: str | None = None

    async def tip(self) -> LogTip:
        self.asked += 1
        if self.failing is not None:
            raise self.failing
        if self.asking is not None:
            await self.asking()
        return self.tip_at(self.seq)

    async def events(self, after_seq: int, limit: int) -> Sequence[Event]:
        if after_seq < self.trimmed:
            raise LogTrimmed(f"expected at least {self.trimmed}, was {after_seq}")
        return self.kept[after_seq : after_seq + min(limit, self.page)]

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        return self.seq, self.tracked_at(self.seq)

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        found: dict[UnixS, Slot] = {}
        for slot in self.slots_at(self.seq):
            found.setdefault(slot.header.time, slot.header.slot)
        oldest = max(found, default=0) - span_s
        return [(slot, time) for time, slot in found.items() if time > oldest]

    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        self.loads += 1
        loaded = self.load_at(self.seq, mint, timeframes)
        if self.meanwhile is not None:
            await self.meanwhile()
        return loaded

    def append(
        self,
        slot: int,
        time: int,
        *swaps: PricedSwap,
        standings: Mapping[Mint, bytes] | None = None,
    ) -> None:
        header = SlotHeader(
            slot=Slot(slot), parent_slot=Slot(slot - 1), blockhash=str(slot), time=UnixS(time)
        )
        kept = tuple(swap for swap in swaps if swap.mint in self._followed)
        mints = {swap.mint for swap in kept}
        standing = {mint: each for mint, each in (standings or {}).items() if mint in mints}
        self._add(Appended(self.seq + 1, header, kept, standing))

    def finalize(self, slot: int) -> None:
        self._add(SlotFinalized(self.seq + 1, Slot(slot)))

    def retract(self) -> None:
        """Append an event that retracts the newest slot."""
        dead = self.slots_at(self.seq)[-1]
        mints = dict.fromkeys(swap.mint for swap in dead.swaps)
        self._add(Retracted(self.seq + 1, dead.header.slot, tuple(mints)))

    def track(self, mint: Mint) -> None:
        self._add(Tracked(self.seq + 1, mint))

    def untrack(self, mint: Mint) -> None:
        self._add(Untracked(self.seq + 1, mint))

    def slots_at(self, seq: int) -> list[Appended]:
        """Return the slots of the first *seq* events that were not retracted, oldest first."""
        alive: dict[Slot, Appended] = {}
        for event in self.kept[:seq]:
            if isinstance(event, Appended):
                alive[event.header.slot] = event
            elif isinstance(event, Retracted):
                del alive[event.slot]
        return list(alive.values())

    def swaps_at(self, seq: int, mint: Mint) -> list[Timed]:
        """Return the swaps of *mint* not retracted at *seq*, since its tracking last began."""
        return [(header.time, swap) for header, swap in self._found(seq, mint)]

    def tip_at(self, seq: int) -> LogTip:
        slots = self.slots_at(seq)
        final = [event.slot for event in self.kept[:seq] if isinstance(event, SlotFinalized)]
        return LogTip(
            seq=seq,
            slot=slots[-1].header.slot if slots else None,
            time=slots[-1].header.time if slots else None,
            follows_files=self.follows_files,
            final=final[-1] if final else None,
            folded=self.folded,
            genesis_hash=self.genesis,
        )

    def tracked_at(self, seq: int) -> frozenset[Mint]:
        found: set[Mint] = set()
        for event in self.kept[:seq]:
            if isinstance(event, Tracked):
                found.add(event.mint)
            elif isinstance(event, Untracked):
                found.discard(event.mint)
        return frozenset(found)

    def load_at(self, seq: int, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        """Return the data of *mint* after event *seq* of the log; None if it is not tracked.

        The candles contain only swaps of final slots.
        """
        if mint not in self.tracked_at(seq):
            return None
        found = self._found(seq, mint)
        folded = self.folded_at(seq, mint)
        swaps = [(header.time, swap) for header, swap in found]
        kept = Kept()
        kept.fold(swaps[:folded])
        loaded = kept.load(mint, seq, swaps, folded, [header.slot for header, _ in found])
        frames = frames_after(swaps[:folded], timeframes)
        standings = self.standings_at(seq, mint)
        return msgspec.structs.replace(loaded, standings=standings, frames=frames)

    def standings_at(self, seq: int, mint: Mint) -> Sequence[tuple[Slot, bytes]]:
        """Return each change of the price pools of *mint*, without those in orphaned slots."""
        slots = self.slots_at(seq)
        return [(e.header.slot, e.standings[mint]) for e in slots if mint in e.standings]

    def final_at(self, seq: int) -> Slot | None:
        """Return the newest slot that the first *seq* events made final; None if there is none."""
        final = [event.slot for event in self.kept[:seq] if isinstance(event, SlotFinalized)]
        return max(final, default=None)

    def folded_at(self, seq: int, mint: Mint) -> int:
        """Return the number of swaps of *mint* in final slots since its tracking last began."""
        final = self.final_at(seq) or -1
        return sum(header.slot <= final for header, _ in self._found(seq, mint))

    def _found(self, seq: int, mint: Mint) -> list[tuple[SlotHeader, PricedSwap]]:
        """Return the swaps of *mint* since its tracking last began, with their slots."""
        since = max(
            (e.seq for e in self.kept[:seq] if isinstance(e, Tracked) and e.mint == mint), default=0
        )
        return [
            (slot.header, swap)
            for slot in self.slots_at(seq)
            if slot.seq > since
            for swap in slot.swaps
            if swap.mint == mint
        ]

    def _add(self, event: Event) -> None:
        self.seq = event.seq
        self.kept.append(event)
        assert len(self.kept) == event.seq
        if isinstance(event, Tracked):
            self._followed.add(event.mint)
        elif isinstance(event, Untracked):
            self._followed.discard(event.mint)
