"""The traders of a mint in each span of five minutes; the fold stores them.

Trader  a signer, identified by the start of its address as a number: `log.signer_number`
Crowd   the traders of a span, each with its flow, and whether it bought and sold.  Those beyond the
        first TRADERS_MAX are summed as OTHERS

The result is a function of the swaps in order: it is the same after a restart or a fork.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from struct import Struct, pack, unpack
from typing import Final, NamedTuple

import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap, signer_number
from mintscope.market.timeframe import WIDTH_S, Timeframe

TRADERS_MAX: Final = 2_048  # the most traders of a span that are not summed: 32 kB
OTHERS: Final = 0  # no trader has this number
CROWDS_S: Final = DAY_S  # stored crowds are at most this much older than the newest one of the mint
SPAN_S: Final = WIDTH_S[Timeframe.M5]
FLOW_MAX: Final = 10**16  # the most micro-USD of a trader in a span: a day's sum fits in 63 bits
BOUGHT: Final = 1
SOLD: Final = 2
SIDES: Final = BOUGHT | SOLD
SIDE_BITS: Final = 2
HALF_BITS: Final = 32  # flows are summed in halves: the sum of all traders can exceed 64 bits
HALF: Final = (1 << HALF_BITS) - 1
HEAD: Final = Struct("<3Q")  # since, bucket and swaps
_NUMBERS: Final = np.dtype("<u8")


class CrowdRow(NamedTuple):
    """The traders of a mint in a span of five minutes.

    bucket    the start of the span
    swaps     the number of swaps with a signer
    traders   for each trader, and for OTHERS if there are any, two integers of 64 bits: the number
              of the trader, and the flow in micro-USD, shifted left by two bits.  The two lowest
              bits show whether the trader bought and sold
    """

    bucket: UnixS
    swaps: int
    traders: bytes


class CrowdChange(NamedTuple):
    """The changes that a batch of swaps makes to the stored traders of one mint.

    state    the state of the crowd book; None before the first swap with a signer
    closed   the crowds of the spans that have ended since the last `changed`, oldest first
    """

    state: bytes | None
    closed: Sequence[CrowdRow]


NO_CROWD: Final = CrowdChange(None, ())


class Union(NamedTuple):
    """The traders of several spans of five minutes, each counted once.

    flow        the micro-USD of all traders, including those that are not stored
    largest     the micro-USD of the largest traders, the largest first
    is_capped   whether a span had more than TRADERS_MAX traders: the others are counted only in
                *flow*
    """

    buyers: int
    sellers: int
    traders: int
    flow: int
    largest: Sequence[int]
    is_capped: bool


def union_of(rows: Iterable[CrowdRow], count: int) -> Union:
    """Return the number of traders in *rows* and the micro-USD that they traded, added up.

    Each trader is counted once.

    rows    crowds of spans that lie within CROWDS_S seconds
    count   the number of largest flows to return, at least 1
    """
    pairs = np.frombuffer(b"".join(row.traders for row in rows), _NUMBERS).reshape(-1, 2)
    if not len(pairs):
        return Union(0, 0, 0, 0, (), False)  # noqa: FBT003
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    numbers = pairs[:, 0]
    first = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    flows = np.add.reduceat(pairs[:, 1] >> SIDE_BITS, first)
    sides = np.bitwise_or.reduceat(pairs[:, 1] & SIDES, first)
    flow = (int((flows >> HALF_BITS).sum()) << HALF_BITS) + int((flows & HALF).sum())
    is_capped = bool(numbers[0] == OTHERS)  # OTHERS is the smallest number
    own = flows[is_capped:]  # without OTHERS
    sides = sides[is_capped:]
    largest = np.sort(np.partition(own, -count)[-count:] if len(own) > count else own)
    return Union(
        buyers=int(np.count_nonzero(sides & BOUGHT)),
        sellers=int(np.count_nonzero(sides & SOLD)),
        traders=len(own),
        flow=flow,
        largest=largest[::-1].tolist(),
        is_capped=is_capped,
    )


class CrowdBook:
    """The traders of one mint in spans of five minutes, and what changed since the last write.

    since   the time of the first swap with a signer; None before it
    """

    __slots__ = ("_bucket", "_closed", "_swaps", "_traders", "since")

    def __init__(self, state: bytes | None = None) -> None:
        self.since: UnixS | None = None
        self._bucket = UnixS(0)
        self._swaps = 0
        self._traders: dict[int, int] = {}
        self._closed: Sequence[CrowdRow] = ()  # for most mints of a batch, no span ends
        if state is not None:
            since, bucket, self._swaps, *pairs = unpack(f"<{len(state) // 8}Q", state)
            self.since = UnixS(since)
            self._bucket = UnixS(bucket)
            self._traders = dict(zip(pairs[::2], pairs[1::2], strict=True))

    def apply(self, time: UnixS, swaps: Iterable[PricedSwap]) -> None:
        """Add the traders of *swaps*, those of one slot, to the crowd of the current five minutes.

        Migrations and swaps without a signer are ignored.  *time*, the effective time of the slot,
        must not decrease.
        """
        traders = self._traders
        for swap in swaps:  # this runs for each swap
            evidence = swap.evidence
            if evidence is None or not evidence.signer or evidence.succeeds is not None:
                continue
            if time >= self._bucket + SPAN_S:
                self._begin(time)
                traders = self._traders
            self._swaps += 1
            trader = signer_number(evidence.signer)
            was = traders.get(trader, 0)
            if not was and len(traders) >= TRADERS_MAX:  # known traders have a value above 0
                trader = OTHERS
                was = traders.get(trader, 0)
            flow = (was >> SIDE_BITS) + evidence.flow
            if flow > FLOW_MAX:  # noqa: PLR1730 - a call costs more
                flow = FLOW_MAX
            traders[trader] = flow << SIDE_BITS | was & SIDES | (BOUGHT if swap.is_buy else SOLD)

    def rows(self) -> list[CrowdRow]:
        """Return the traders of spans that ended since the last `changed`, and of the open span.

        Oldest first; the list is empty if no swap was counted.
        """
        return [*self._closed, self._row()] if self._swaps else []

    def changed(self) -> CrowdChange:
        """Return the state of this book, and the crowds of spans that ended since the last call."""
        if self.since is None:
            return NO_CROWD
        closed = self._closed
        self._closed = ()
        head = HEAD.pack(self.since, self._bucket, self._swaps)
        return CrowdChange(head + self._packed(), closed)

    def _begin(self, time: UnixS) -> None:
        if self.since is None:
            self.since = time
        else:
            self._closed = [*self._closed, self._row()]
        self._bucket = UnixS(time - time % SPAN_S)
        self._swaps = 0
        self._traders = {}

    def _row(self) -> CrowdRow:
        return CrowdRow(self._bucket, self._swaps, self._packed())

    def _packed(self) -> bytes:
        # Most spans have a few traders, for which creating an array takes longer than it saves.
        traders = self._traders
        return pack(f"<{2 * len(traders)}Q", *chain.from_iterable(traders.items()))
