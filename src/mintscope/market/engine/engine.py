"""The tokens in use in memory, and their reports as of the newest event of the log.

Pure and synchronous: the tailer calls `apply` for each event and `insert` for each mint that it has
loaded.  Every report is a function of the log up to `seq`, no matter when its mint was loaded or
how often it was evicted.  Only its coverage, set by `cover`, does not come from the log.

During a load, further events arrive.  So `expect` is called before the load: from then on events of
the mint are stored, and `insert` applies those that are newer than the loaded snapshot.

There is no timer: a candle closes when a later one opens, and a read computes all that depends on
"now".  A row that was loaded contains the same bits as a row to which all swaps of its mint were
applied.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.coverage import ReportCoverage, ReportCoverages
from mintscope.market.engine import kernels
from mintscope.market.engine.fold import price_of, read_state
from mintscope.market.engine.frames import Frames
from mintscope.market.engine.given import Candles, Floats, Trades, Volumes
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
    Tracked,
    Untracked,
)
from mintscope.market.report import NO_FRAMES, PLAIN, ReportKind, TokenReport, tag_of, token_report
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import AskedFrame, Timeframe

FRAMES_MAX: Final = 2_000  # the most mints with requested frames: 8 kB a mint, 20 us a swap
CANDLES_LOADED: Final = kernels.SWING + 1  # including the open one

# `load` refills the windows m1, m5 and m15 from swaps, and h1, h4 and d1 from minutes.
FROM_SWAPS: Final = (0, 3)
FROM_MINUTES: Final = (3, len(kernels.GRAINS))


def as_trades(swaps: Sequence[tuple[int, UnixS, PricedSwap]]) -> Trades:
    """Return *swaps*, which are in order, as arrays; those without a price and volume are left out.

    swaps   (row of the mint, effective time, swap)
    """
    swaps = [one for one in swaps if one[2].volume or one[2].price_usd is not None]
    return Trades(
        np.array([row for row, _, _ in swaps], np.int64),
        np.array([time for _, time, _ in swaps], np.int64),
        np.array([swap.price_usd for _, _, swap in swaps], np.float64),  # None becomes NaN
        np.array([swap.price_sol for _, _, swap in swaps], np.float64),
        np.array([swap.volume for _, _, swap in swaps], np.int64),
        np.array([swap.is_buy for _, _, swap in swaps], np.bool_),
    )


class Engine:
    """Holds the live data of up to *capacity* mints, each in a row, at first without trades.

    Rows are numbered from 0.  The memory of a row is allocated on first use.
    """

    def __init__(self, capacity: int) -> None:
        self._rows = np.zeros(capacity, kernels.ROW)
        self._out = np.zeros(kernels.SNAPSHOT)
        self._warm_up()

    def apply(self, trades: Trades) -> None:
        """Add *trades* to the rows of their mints; the times of one row must not decrease."""
        kernels.apply(self._rows, trades)

    def snapshot(self, row: int, now: UnixS, *, leaves_out_open: bool = False) -> Floats:
        """Return the numbers from which the report of the mint in *row* is made, as of *now*.

        They are in the layout of `kernels.snapshot`.  The next call overwrites the array.  If the
        count is 0, the mint has no price, and no other number has a meaning.

        leaves_out_open   whether indicators leave out the candles that are open at *now*
        """
        kernels.snapshot(self._rows, row, now, self._out)
        if leaves_out_open:
            kernels.leave_out_open(self._rows, row, now, self._out)
        return self._out

    def clear(self, row: int) -> None:
        """Clear *row*, for a mint that has not traded yet."""
        self._rows[row] = np.zeros((), kernels.ROW)

    def load(self, row: int, loaded: LoadedMint) -> None:
        """Fill *row* with the state of a mint after all its swaps up to position `loaded.seq`.

        Raises ValueError if the stored state cannot be read or contradicts the candles.
        """
        self.clear(row)
        if loaded.state is not None:
            self._load_candles(row, loaded.state, loaded)
            if loaded.imported_from is not None:
                # Reports begin with the first imported candle; the state begins with the first
                # candle that was not imported.
                first = min(loaded.imported_from, int(self._rows[row]["first"]))
                self._rows[row]["first"] = first
        self._refill(row, FROM_MINUTES, loaded.minutes)
        folded = [
            (kept.time, *((kept.swap.volume, 0) if kept.swap.is_buy else (0, kept.swap.volume)))
            for kept in loaded.tail
            if kept.folded
        ]
        self._refill(row, FROM_SWAPS, folded)
        ahead = [(row, kept.time, kept.swap) for kept in loaded.tail if not kept.folded]
        self.apply(as_trades(ahead))

    def _load_candles(self, row: int, state: bytes, loaded: LoadedMint) -> None:
        record = read_state(state)[0]
        target = self._rows[row]
        target["first"] = record["first"]
        target["price_sol"] = record["price_sol"]
        for k, timeframe in enumerate(Timeframe):
            kept = record["frames"][k]
            candles = loaded.candles.get(timeframe, ())[-CANDLES_LOADED:]
            expected = min(int(kept["count"]), CANDLES_LOADED)
            if len(candles) == expected - 1 == kernels.SWING:
                # An earlier version stored one candle fewer: then the oldest stored candle is used
                # twice.
                candles = (candles[0], *candles)
            if len(candles) != expected:
                raise ValueError(
                    f"expected {expected} {timeframe} candles of {loaded.mint}, were {len(candles)}"
                )
            if not candles:
                continue
            newest = candles[-1]
            target["accs"][k] = kept["acc"]
            target["frames"][k] = (
                kept["count"], newest.bucket // kernels.WIDTHS[k],
                newest.high, newest.low, newest.close, 0.0, 0.0,
            )  # fmt: skip
            self._refill_ring(row, k, candles[:-1])

    def _refill_ring(self, row: int, k: int, closed: Sequence[CandleRow]) -> None:
        columns = np.array([(each.high, each.low, each.close) for each in closed], np.float64)
        candles = Candles(*np.ascontiguousarray(columns.reshape(-1, 3).T))
        kernels.refill_ring(self._rows[row], k, candles)

    def _refill(
        self, row: int, windows: tuple[int, int], volumes: Sequence[tuple[int, int, int]]
    ) -> None:
        columns = np.array(volumes, np.int64).reshape(-1, 3).T
        times, buys, sells = (np.ascontiguousarray(column) for column in columns)
        kernels.refill_windows(self._rows[row], windows, Volumes(times, buys, sells))

    def _warm_up(self) -> None:
        """Compile the kernels that change rows, so that the first swap need not wait for it."""
        self._refill(0, FROM_MINUTES, ())
        self._refill_ring(0, 0, ())
        self.apply(as_trades(()))
        self.snapshot(0, UnixS(0), leaves_out_open=True)
        none = np.zeros(0)
        kernels.series(
            np.zeros(1, kernels.FRAME)[0],
            np.zeros(kernels.ACC),
            Candles(none, none, none),
            kernels.SERVICE,
            np.zeros((0, kernels.READ)),
        )


def frames_of(loaded: LoadedMint) -> Frames | None:
    """Return the timeframes of *loaded* that are computed on request, up to its newest swap.

    None if they were not loaded.  Raises ValueError if the stored data cannot be read.
    """
    if loaded.frames is None:
        return None
    frames = Frames(loaded.frames)
    for kept in loaded.tail:
        if not kept.folded:
            add_to_frames(frames, kept.time, kept.swap)
    return frames


def add_to_frames(frames: Frames | None, time: UnixS, swap: PricedSwap) -> None:
    """Add *swap* to *frames*, the timeframes of its mint that are computed on request.

    Nothing happens if *frames* is None or if the swap sets no price.
    """
    price = None if frames is None else price_of(swap)
    if frames is not None and price is not None:
        frames.apply(time, price)


@dataclass(slots=True)
class _Expected:
    """A mint that is being loaded, and its log events after position *since*."""

    since: int
    events: list[Event] = field(default_factory=list)


class _Made(NamedTuple):
    """A report as JSON, its entity tag (ETag), and the age of its price."""

    body: bytes
    tag: bytes
    price_age_ms: int | None


class LiveMarket:
    """The state of up to *capacity* mints in memory, from which their reports are made.

    The least recently used mint is dropped first.

    seq       the position of the newest applied event
    tracked   the mints that are tracked after this event
    """

    def __init__(self, capacity: int) -> None:
        self.seq = 0
        self.tracked: set[Mint] = set()
        self._engine = Engine(capacity)
        self._free = list(range(capacity))
        self._live: OrderedDict[Mint, int] = OrderedDict()
        self._standings: dict[Mint, bytes] = {}  # the packed pools of each mint
        # Requested frames by mint, the least recently used first.
        self._frames: OrderedDict[Mint, Frames] = OrderedDict()
        self._expected: dict[Mint, _Expected] = {}
        # The times of the slots that may still be retracted, and of the newest final slot.
        self._times: dict[Slot, UnixS] = {}
        # The plain reports that were made at `_bodies_time`; their mints have not traded since.
        self._bodies: dict[Mint, _Made] = {}
        self._bodies_time: UnixS | None = None
        self._last = _Made(b"", b"", None)
        self._encoder = msgspec.json.Encoder()
        self._coverages: ReportCoverages | None = None

    def __len__(self) -> int:
        """Return the number of mints in memory."""
        return len(self._live)

    def __contains__(self, mint: str) -> bool:
        return mint in self._live

    def has(self, mint: Mint, kind: ReportKind) -> bool:
        """Return whether *mint* is in memory with all data that reports of *kind* need."""
        if mint not in self._live:
            return False
        frames = self._frames.get(mint)
        return not kind.timeframes or (frames is not None and frames.has(kind.timeframes))

    def frames_to_load(self, mint: Mint, kind: ReportKind) -> Collection[str]:
        """Return the names of the timeframes to load for a report of *kind* on *mint*.

        They are those that the report needs, and those that *mint* has in memory: a load replaces
        both.
        """
        frames = self._frames.get(mint)
        known = () if frames is None else [each for each in AskedFrame if frames.has([each])]
        return {*kind.timeframes, *known}

    @property
    def slot(self) -> Slot | None:
        """The newest applied slot; None before the first one."""
        return next(reversed(self._times), None)

    @property
    def time(self) -> UnixS | None:
        """The effective time of `slot`: "now" in every report; None before the first slot."""
        return next(reversed(self._times.values()), None)

    def restart(self, tip: LogTip, tracked: frozenset[Mint]) -> None:
        """Drop all mints from memory, and continue from the position *tip* of the log.

        tracked   the tracked mints; they must have been read after *tip*
        """
        for mint in list(self._live):
            self._drop(mint)
        self._expected.clear()  # so `insert` returns False for the loads that are under way
        self.seq = tip.seq
        self.tracked = set(tracked)
        self._times = {}
        if tip.slot is not None and tip.time is not None:
            self._times[tip.slot] = tip.time

    def apply(self, event: Event) -> None:
        """Apply *event*, the next one of the log; do nothing if it was applied before.

        Raises LogTrimmed if an earlier event is missing, or if the slot before a retracted one is
        not known: then `restart` is needed.
        """
        if event.seq <= self.seq:
            return
        if event.seq != self.seq + 1:
            raise LogTrimmed(f"expected event {self.seq + 1}, was {event.seq}")
        match event:
            case Appended(header=header):
                self._times[header.slot] = header.time
                self._append(event)
            case SlotFinalized(slot=slot):
                self._finalize(slot)
            case Retracted(slot=slot, mints=mints):
                self._times.pop(slot, None)
                if not self._times:
                    raise LogTrimmed(f"expected a slot before {slot}, was none")
                for mint in mints:
                    self._drop(mint, event)
            case Tracked(mint=mint):
                self.tracked.add(mint)
            case Untracked(mint=mint):
                self.tracked.discard(mint)
                self._drop(mint, event)
        self.seq = event.seq

    def expect(self, mint: Mint) -> None:
        """Keep the events of *mint* that arrive from now on, because it is about to be loaded."""
        self._expected[mint] = _Expected(self.seq)

    def abandon(self, mint: Mint) -> None:
        """Drop the kept events of *mint*, because its load has ended."""
        self._expected.pop(mint, None)

    def insert(self, loaded: LoadedMint) -> bool:
        """Add a loaded mint to those in memory; return False if it must be loaded again.

        That is so if `expect` was not called before the load, or if its log events since then are
        not only new swaps.  All events up to `loaded.seq` must have been applied.  Raises
        ValueError if the loaded data cannot be read, or contradict each other.
        """
        assert loaded.seq <= self.seq, f"expected at most {self.seq}, was {loaded.seq}"
        expected = self._expected.pop(loaded.mint, None)
        if expected is None or loaded.seq < expected.since:  # events in between were not stored
            return False
        since = [event for event in expected.events if event.seq > loaded.seq]
        appended = [event for event in since if isinstance(event, Appended)]
        if len(appended) < len(since):  # the mint was untracked, or a slot with its swaps retracted
            return False
        self._drop(loaded.mint)  # it may be in memory with too few frames
        row = self._take_row()
        try:
            self._engine.load(row, loaded)
        except ValueError:
            self._free.append(row)
            raise
        self._live[loaded.mint] = row
        frames = frames_of(loaded)
        if frames is not None:
            self._frames[loaded.mint] = frames
            if len(self._frames) > FRAMES_MAX:
                self._frames.popitem(last=False)
        self._stand(loaded.mint, loaded.standings[-1][1] if loaded.standings else None)
        for event in appended:
            self._stand(loaded.mint, event.standings.get(loaded.mint))
        trades = [
            (row, event.header.time, swap)
            for event in appended
            for swap in event.swaps
            if swap.mint == loaded.mint
        ]
        self._engine.apply(as_trades(trades))
        for _, time, swap in trades:
            add_to_frames(frames, time, swap)
        return True

    def report(self, mint: Mint, kind: ReportKind = PLAIN) -> bytes:
        """Return the current report of *mint* as JSON; *mint* must be in memory.

        Raises InsufficientData if the mint has too few candles.
        """
        self._live.move_to_end(mint)
        if kind != PLAIN:
            self._last = self._made(mint, kind)
            return self._last.body
        if self.time != self._bodies_time:  # pressure and the age of the price depend on the time
            self._bodies.clear()
            self._bodies_time = self.time
        made = self._bodies.get(mint)
        if made is None:
            made = self._bodies[mint] = self._made(mint, kind)
        self._last = made
        return made.body

    def _made(self, mint: Mint, kind: ReportKind) -> _Made:
        values, now = self._values(mint, kind)
        coverage = UNSET if self._coverages is None else self._coverages.of(mint)
        report = self._report(mint, kind, values, now, coverage)
        price = report.price
        tag = tag_of(values, price, self._frame_values(mint, kind, now))
        return _Made(self._encoder.encode(report), tag, price.age_ms)

    def tag(self) -> bytes:
        """Return the entity tag (ETag) of the last report that `report` returned."""
        return self._last.tag

    def price_age_ms(self) -> int | None:
        """Return the age of the price in the last report that `report` returned; None: unknown.

        It is in milliseconds, see `ReadReport.price_age_ms`.
        """
        return self._last.price_age_ms

    def cover(self, coverages: ReportCoverages) -> None:
        """Include *coverages*, the shares of exchanges that were read, in reports from now on."""
        self._coverages = coverages
        self._bodies.clear()

    def read(self, mint: Mint, kind: ReportKind = PLAIN) -> TokenReport:
        """Return the current report of *mint* without coverage; *mint* must be in memory.

        Raises InsufficientData if the mint has too few candles.
        """
        values, now = self._values(mint, kind)
        return self._report(mint, kind, values, now, UNSET)

    def _report(
        self,
        mint: Mint,
        kind: ReportKind,
        values: Floats,
        now: UnixS,
        coverage: ReportCoverage | UnsetType,
    ) -> TokenReport:
        basis = basis_of(self._standings.get(mint))
        return token_report(
            mint,
            values,
            now,
            coverage,
            basis=basis,
            is_partial=kind.is_partial,
            frames=self._frame_values(mint, kind, now),
        )

    def _frame_values(self, mint: Mint, kind: ReportKind, now: UnixS) -> Mapping[str, Floats]:
        if not kind.timeframes:
            return NO_FRAMES
        self._frames.move_to_end(mint)
        return self._frames[mint].read(kind.timeframes, now, leaves_out_open=kind.is_closed)

    def _values(self, mint: Mint, kind: ReportKind) -> tuple[Floats, UnixS]:
        row = self._live[mint]
        now = self.time
        if now is None:
            raise InsufficientData("expected at least one block; none has been read yet")
        return self._engine.snapshot(row, now, leaves_out_open=kind.is_closed), now

    def _append(self, event: Appended) -> None:
        trades: list[tuple[int, UnixS, PricedSwap]] = []
        for swap in event.swaps:
            row = self._live.get(swap.mint)
            if row is not None:
                self._bodies.pop(swap.mint, None)
                self._stand(swap.mint, event.standings.get(swap.mint))
                trades.append((row, event.header.time, swap))
                if self._frames:  # saves a look-up for each swap while no mint has frames
                    add_to_frames(self._frames.get(swap.mint), event.header.time, swap)
            if self._expected:  # saves a call for each swap while no mint is being loaded
                self._keep(swap.mint, event)
        if trades:
            self._engine.apply(as_trades(trades))

    def _stand(self, mint: Mint, packed: bytes | None) -> None:
        """Set the pools of *mint* to those in *packed*; None: leave them unchanged.

        *mint* must be in memory.
        """
        if packed is not None:
            self._standings[mint] = packed

    def _keep(self, mint: Mint, event: Event) -> None:
        expected = self._expected.get(mint)
        if expected is not None and (not expected.events or expected.events[-1] is not event):
            expected.events.append(event)

    def _drop(self, mint: Mint, event: Event | None = None) -> None:
        """Remove *mint* from memory.

        event   an event of the mint to keep for its load, if it is being loaded; None: there is
                none
        """
        row = self._live.pop(mint, None)
        if row is not None:
            self._bodies.pop(mint, None)
            self._standings.pop(mint, None)
            self._frames.pop(mint, None)
            self._free.append(row)
        if event is not None:
            self._keep(mint, event)

    def _take_row(self) -> int:
        if not self._free:
            self._drop(next(iter(self._live)))
        return self._free.pop()

    def _finalize(self, slot: Slot) -> None:
        """Drop the times of slots up to *slot*, which are final; keep that of the newest one."""
        # If all newer slots are retracted, "now" is the time of the newest final slot.
        final = [kept for kept in self._times if kept <= slot]
        for kept in final[:-1]:
            del self._times[kept]
