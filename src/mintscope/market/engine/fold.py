"""Adds the swaps of final slots to the stored state and candles of their mints.

A source may drop, repeat and reorder blocks, and a reorg may abandon some.  `Tail` decides what
happens to each block from slot headers only, so after a restart, which reads them back, it decides
the same.

The fold has a MintFold for each changed mint, applies the swaps of each final slot to it in order,
and writes `changed()` and `state()` in the transaction that records its newest slot.  A fold that
continues from the written state returns the same bits as one that never stopped, and the engine
loads the same bytes: both close candles with the same kernel.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from math import nan
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mintscope.kit.errors import NeedsOperator
from mintscope.kit.primitives import Slot, UnixS
from mintscope.kit.time import TIME_MAX
from mintscope.market.engine.frames import NO_CANDLE, PACKED, Frame, Part
from mintscope.market.engine.kernels import ACC, GRAINS, PART_MAX, PRICE_MAX
from mintscope.market.log import CandleRow, PricedSwap, SlotHeader, Waypoint
from mintscope.market.pricing import RATE_WINDOW_S, sol_usd
from mintscope.market.sol_rate import Sample
from mintscope.market.timeframe import TIMEFRAMES, VOLUME_S_MAX, WIDTH_S, Timeframe
from mintscope.solana.blocks import Block, Gap, Tip

DEAD_MAX: Final = 1_024
GAPS_MAX: Final = 1_024


class ForkBelowFinalized(NeedsOperator):
    """The node or stream contradicts a slot that it reported as final: an operator must decide."""


class Known(NamedTuple):
    """The result for a block that must not be added to the log.

    The log has the block, or the block is too old for the log, retracted for good, or not newer
    than its own parent.
    """


class Hole(NamedTuple):
    """The result for a block that cannot be added to the log, because slots before it are missing.

    dead   the slots that must be retracted, newest first
    """

    dead: Sequence[SlotHeader]


class Follows(NamedTuple):
    """The result for a block that follows a block of the log.

    dead   the slots that must be retracted before it is added, newest first
    """

    dead: Sequence[SlotHeader]


class Tail:
    """The newest blocks of the log, with which new blocks are compared.

    headers     the headers of slots that are not retracted, from 60 s before *finalized* on, oldest
                first
    finalized   the newest final slot; None if no slot is final
    dead        (slot, blockhash) of the newest DEAD_MAX retracted slots, oldest first
    gaps        the newest GAPS_MAX gaps, oldest first
    """

    def __init__(
        self,
        *,
        headers: Iterable[SlotHeader] = (),
        finalized: Slot | None = None,
        dead: Iterable[tuple[Slot, str]] = (),
        gaps: Iterable[Gap] = (),
    ) -> None:
        self._headers = deque(headers)
        self._by_slot = {header.slot: header for header in self._headers}
        self._finalized = finalized
        self._dead = deque(dead, maxlen=DEAD_MAX)
        self._gaps = deque(gaps, maxlen=GAPS_MAX)

    def __len__(self) -> int:
        """Return the number of slot headers in memory."""
        return len(self._headers)

    @property
    def headers(self) -> Iterable[SlotHeader]:
        """The headers of the newest slots that are not retracted, oldest first."""
        return self._headers

    @property
    def tip(self) -> Tip | None:
        """The newest block of the log, from which a source resumes; None if the log is empty."""
        return Tip(self._headers[-1].slot, self._headers[-1].blockhash) if self._headers else None

    @property
    def time(self) -> UnixS | None:
        """The effective time of the newest block of the log; None if the log is empty."""
        return self._headers[-1].time if self._headers else None

    @property
    def finalized(self) -> Slot | None:
        """The newest final slot; None if no slot is final."""
        return self._finalized

    def place(self, block: Block) -> Known | Hole | Follows:
        """Return the place of *block* in the log; nothing is changed.

        It follows a block of the log, or slots before it are missing, or it adds nothing.  Raises
        ForkBelowFinalized if *block* would orphan a final slot.
        """
        if not self._headers:
            return Follows(())
        if self._is_settled(block) or block.parent_slot >= block.slot:
            return Known()
        parent = self._by_slot.get(block.parent_slot)
        if parent is None:
            return self._orphan(block)
        if parent.blockhash != block.parent_blockhash:
            return self._other_parent(block, parent.slot)
        # A source may repeat a retracted block: this one excludes a final slot, but is no new fork.
        if self._is_final(parent.slot + 1) and (block.slot, block.blockhash) in self._dead:
            return Known()
        return Follows(self._from(Slot(parent.slot + 1), block))

    def header(self, block: Block, samples: tuple[Sample, ...]) -> SlotHeader:
        """Return the header of *block*, as the next one of the log, with the rate of SOL.

        samples   the prices of SOL in *block*
        """
        time = self.effective(block.time)
        # Blocks before the first one with a time have time 0, so they have no rate.
        rate = sol_usd(reversed(self._headers), samples, time) if time else None
        return SlotHeader(
            slot=block.slot,
            parent_slot=block.parent_slot,
            blockhash=block.blockhash,
            time=time,
            sol_usd=None if rate is None else rate.usd,
            sol_usd_time=None if rate is None else rate.at,
            samples=samples,
        )

    def append(self, header: SlotHeader) -> None:
        """Add *header*, of the newest block of the log: it becomes the tip."""
        assert not self._headers or header.slot > self._headers[-1].slot
        self._headers.append(header)
        self._by_slot[header.slot] = header

    def retract(self) -> None:
        """Drop the newest block, because the chain has abandoned it."""
        header = self._headers.pop()
        assert not self._is_final(header.slot)
        del self._by_slot[header.slot]
        self._dead.append((header.slot, header.blockhash))

    def finalize(self, slot: Slot) -> Slot | None:
        """Record that the logged slots up to *slot* are final, and return the newest of them.

        None if this changes nothing.
        """
        newest = next((h.slot for h in reversed(self._headers) if h.slot <= slot), None)
        if newest is None or self._is_final(newest):
            return None
        self._finalized = newest
        self._forget(self._by_slot[newest].time)
        return newest

    def lose(self, gap: Gap) -> int:
        """Record that the slots of *gap* could not be read, so a block after them may follow.

        Returns the number of slots that are not in a gap with the same first slot yet.  If it is 0,
        *gap* is ignored; otherwise it replaces such gaps.
        """
        same = [one for one in self._gaps if one.first == gap.first]
        known_to = max((one.last for one in same), default=gap.first - 1)
        if gap.last <= known_to:
            return 0
        for one in same:
            self._gaps.remove(one)
        self._gaps.append(gap)
        return gap.last - known_to

    def _is_settled(self, block: Block) -> bool:
        """Return whether the log has *block*, or *block* is too old to change the log."""
        if self._is_final(block.slot) or block.slot < self._headers[0].slot:
            return True
        ours = self._by_slot.get(block.slot)
        return ours is not None and ours.blockhash == block.blockhash

    def _orphan(self, block: Block) -> Hole | Follows:
        """Return the result for *block*, whose parent is not in the log.

        It follows if it comes after a gap; otherwise, slots before it must be read first.
        """
        # No source could deliver the slots of a gap, so a block after it joins without its parent.
        after_gap = any(gap.first <= block.parent_slot <= gap.last for gap in self._gaps)
        if after_gap and block.slot > self._headers[-1].slot:
            return Follows(())
        return Hole(())

    def _other_parent(self, block: Block, slot: Slot) -> Hole:
        # A late block on a retracted parent must not retract our block.
        is_stale = (block.parent_slot, block.parent_blockhash) in self._dead
        return Hole(() if is_stale else self._from(slot, block))

    def _is_final(self, slot: int) -> bool:
        return self._finalized is not None and slot <= self._finalized

    def _from(self, slot: Slot, block: Block) -> Sequence[SlotHeader]:
        """Return the headers of the held blocks from *slot* on, newest first.

        They are on a fork that the chain abandons with *block*.  Raises ForkBelowFinalized if one
        of them is final.
        """
        dead = []
        for header in reversed(self._headers):
            if header.slot < slot:
                break
            if self._is_final(header.slot):
                raise ForkBelowFinalized(
                    f"expected every new block to build on finalized slot {self._finalized};"
                    f" block {block.slot} has parent {block.parent_slot}"
                )
            dead.append(header)
        return dead

    def effective(self, time: UnixS | None) -> UnixS:
        """Return the effective time of the next block, whose own time is *time*.

        It is not before the effective time of the newest block of the log, and equal to it if
        *time* is None or out of range.
        """
        previous = self._headers[-1].time if self._headers else UnixS(0)
        if time is None or not 0 <= time <= TIME_MAX:
            return previous
        return max(time, previous)

    def _forget(self, finalized: UnixS) -> None:
        """Drop the headers of slots that are more than RATE_WINDOW_S older than *finalized*.

        Nothing needs them: *finalized* is the time of the newest final slot.
        """
        while finalized - self._headers[0].time > RATE_WINDOW_S:
            del self._by_slot[self._headers.popleft().slot]


MINUTE_S: Final = WIDTH_S[Timeframe.M1]
STATE_VERSION: Final = 2
STATE: Final = np.dtype(
    [
        ("version", "<i8"),
        ("first", "<i8"),
        ("price_sol", "<f8"),
        (
            "frames",
            [
                ("acc", "<f8", ACC),
                ("count", "<i8"),
                ("bucket", "<i8"),
                ("buy", "<i8"),
                ("sell", "<i8"),
                ("open_bucket", "<i8"),
                ("prices", "<f8", 4),
                ("trades", "<i8"),
            ],
            len(Timeframe),
        ),
    ]
)
HEAD: Final = Struct("<qqd")
assert VOLUME_S_MAX * GRAINS[-1] == PART_MAX
assert HEAD.size + len(Timeframe) * PACKED.size == STATE.itemsize
# The newest h1 candle, which is the end of STATE: its bucket, its prices, the number of its trades.
NEWEST_H1: Final = Struct("<q4dq")

# The bucket (-1: none) and the trades of the newest h1 candle, then the prices in SOL of the newest
# candle of m1 to h1.  Any swap with a price changes one of the first two, so they show to which
# state the prices belong.
IN_SOL: Final = Struct("<qq" + "4d" * len(Timeframe))
EPOCH: Final = UnixS(0)
UNKNOWN: Final = (nan,) * 4 * len(Timeframe)
# By timeframe: the offset of its frame in STATE, and the index of its prices in IN_SOL.
PLACES: Final = [
    (timeframe, HEAD.size + n * PACKED.size, 4 * n) for n, timeframe in enumerate(TIMEFRAMES)
]


def read_state(state: bytes) -> NDArray[Any]:
    """Return the stored state of the fold of a mint as one STATE record.

    Per timeframe: the accumulators, the number of candles with a price, the newest bucket and its
    flow in micro-USD (bought, sold), and the newest candle with a price: its bucket (-1: none),
    open, high, low and close, and the number of its trades.

    Raises ValueError for bytes of another length or version.
    """
    return read_states([state]).copy()


def read_states(states: Sequence[bytes]) -> NDArray[Any]:
    """Return the stored states of folds as an array of STATE records, which cannot be changed.

    Raises ValueError for bytes of another length or version.
    """
    for state in states:
        if len(state) != STATE.itemsize:
            raise ValueError(f"expected a state of {STATE.itemsize} bytes, was {len(state)}")
    records = np.frombuffer(b"".join(states), STATE)
    for version in records["version"].tolist():
        if version != STATE_VERSION:
            raise ValueError(f"expected state version {STATE_VERSION}, was {version}")
    return records


class MintFold:
    """The fold of one mint: accumulators, newest candles, and the changes since the last write."""

    __slots__ = ("_first", "_part", "_passed", "_price_sol", "frames")

    # A minute lies in one candle of each frame, so its swaps are summed once, and this sum is added
    # to the four frames: this is faster than four additions of each swap.

    def __init__(
        self,
        first: UnixS = EPOCH,
        price_sol: float = 0.0,
        passed: list[tuple[Timeframe, Waypoint]] | None = None,
        frames: dict[Timeframe, Frame] | None = None,
    ) -> None:
        """Continue from the parts of a stored state; without arguments, begin a new fold.

        first       the start of the first minute with a price
        price_sol   the newest price in SOL; 0 before the first
        passed      the list to which *frames* append their waypoints
        frames      the candles and accumulators by timeframe
        """
        self._part: Part | None = None
        self._first = first
        self._price_sol = price_sol
        self._passed = [] if passed is None else passed
        self.frames = frames or {
            timeframe: Frame(timeframe, self._passed, WIDTH_S[timeframe])
            for timeframe in TIMEFRAMES
        }

    @classmethod
    def from_state(cls, state: bytes | None, in_sol: bytes | None = None) -> "MintFold":
        """Return the fold of a mint that continues from stored bytes.

        state    what `state()` returned last; None: begin a new fold
        in_sol   what `in_sol()` returned together with *state*; if it is None or belongs to another
                 state, the newest candles have no prices in SOL

        Raises ValueError if *state* has another length or version.
        """
        if state is None:
            return cls()
        if len(state) != STATE.itemsize:
            read_state(state)  # raises ValueError
        version, first, price_sol = HEAD.unpack_from(state)
        if version != STATE_VERSION:
            read_state(state)  # raises ValueError
        bucket, *_, trades = NEWEST_H1.unpack_from(state, len(state) - NEWEST_H1.size)
        prices = _of_state(in_sol, bucket, trades)
        passed: list[tuple[Timeframe, Waypoint]] = []
        frames = {
            timeframe: Frame.unpacked(timeframe, passed, state, at, prices[n : n + 4])
            for timeframe, at, n in PLACES
        }
        return cls(first, price_sol, passed, frames)

    def apply(self, time: UnixS, swap: PricedSwap) -> None:
        """Add the next swap of the mint.

        time   the effective time of its slot; must not decrease
        """
        price = price_of(swap)
        if price is not None:
            self._price_sol = swap.price_sol or 0.0
        elif not swap.volume:
            return
        part = self._part
        if part is None or time - time % MINUTE_S != part.time:
            self._add_part()
            part = self._part = Part(UnixS(time - time % MINUTE_S))
        part.add(price, swap)

    def waypoints(self) -> list[tuple[Timeframe, Waypoint]]:
        """Return the new waypoints since the last call, each with its timeframe."""
        self._add_part()
        if not self._passed:
            return []
        passed = [*self._passed]
        self._passed.clear()
        return passed

    def changed(self) -> dict[Timeframe, list[CandleRow]]:
        """Return the candles that changed since the last call, which replace the stored ones.

        They are oldest first.  A span with volume but no price is a candle with count 0, so the
        volumes of all timeframes have the same sum, unless a candle has reached its limit, see
        VOLUME_S_MAX.
        """
        self._add_part()
        return {timeframe: frame.changed() for timeframe, frame in self.frames.items()}

    def opened(self) -> list[Timeframe]:
        """Return the timeframes in which a candle has begun since the last call.

        Call `changed` first.
        """
        return [timeframe for timeframe, frame in self.frames.items() if frame.has_opened()]

    def state(self) -> bytes:
        """Return the accumulators of this fold as at most 700 bytes, which `from_state` reads."""
        self._add_part()
        head = HEAD.pack(STATE_VERSION, self._first, self._price_sol)
        return b"".join([head, *(frame.packed() for frame in self.frames.values())])

    def in_sol(self) -> bytes:
        """Return the open, high, low and close in SOL of each timeframe's newest candle, packed.

        The store keeps these bytes beside those of `state()`.
        """
        self._add_part()
        prices: list[float] = []
        for frame in self.frames.values():
            c = frame.candle or NO_CANDLE
            prices += c.open_sol, c.high_sol, c.low_sol, c.close_sol
        return IN_SOL.pack(c.bucket, c.count, *prices)  # of h1, the last frame

    def _add_part(self) -> None:
        part = self._part
        if part is None:
            return
        self._part = None
        if part.count and self.frames[Timeframe.M1].count == 0:  # before the frame counts *part*
            self._first = part.time
        for frame in self.frames.values():
            frame.add(part)


def _of_state(in_sol: bytes | None, bucket: float, trades: float) -> Sequence[float]:
    """Return the prices in SOL in *in_sol*, or NaN for each if they belong to another state.

    bucket, trades   the bucket and the number of trades of the newest h1 candle of the state that
                     is being read
    """
    if in_sol is None or len(in_sol) != IN_SOL.size:
        return UNKNOWN
    its_bucket, its_trades, *prices = IN_SOL.unpack(in_sol)
    return prices if (its_bucket, its_trades) == (bucket, trades) else UNKNOWN


def merged(
    state: bytes | None,
    in_sol: bytes | None,
    timeframe: Timeframe,
    swaps: Iterable[tuple[UnixS, PricedSwap]],
) -> list[CandleRow]:
    """Return the candles of *timeframe* that are new or changed after *swaps* are added to a fold.

    state    the stored state of the fold; None: it is new
    in_sol   its stored prices in SOL
    swaps    (effective time, swap) in order
    """
    fold = MintFold.from_state(state, in_sol)
    for time, swap in swaps:
        fold.apply(time, swap)
    return fold.changed()[timeframe]


def price_of(swap: PricedSwap) -> float | None:
    """Return the price in USD that *swap* adds to a candle; None if it adds none."""
    price = swap.price_usd
    # The same condition as in `kernels.apply`.
    return price if price is not None and 0.0 < price <= PRICE_MAX else None
