"""The port of the series, and what it reads of a mint in one snapshot."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.core.market.log import LogTip, PricedSwap, Waypoint
from mintscope.core.market.timeframe import Timeframe


class SeriesCandle(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A candle with a price, as `log.CandleRow` has it.

    imported_volume   micro-USD, of a candle that a provider gave: it has no sides and no swaps;
                      None: our own
    """

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    buy_volume: int
    sell_volume: int
    count: int
    open_sol: float | None
    high_sol: float | None
    low_sol: float | None
    close_sol: float | None
    imported_volume: int | None = None


class UnpricedVolume(NamedTuple):
    """Volume in a span of a timeframe in which no swap set a price, micro-USD."""

    bucket: UnixS
    buy_volume: int
    sell_volume: int


class AskedCandles(NamedTuple):
    """Which candles are asked for: up to *rows_max*, the newest that begin by *until*."""

    timeframe: Timeframe
    until: UnixS
    rows_max: int


class KeptCandles(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one timeframe of a mint, from one snapshot.

    tip         of the log, then
    state       what the finalized fold kept of the mint; None before its first swap
    in_sol      what stands beside it
    rows        folded candles that were asked for, oldest first; if the oldest that is kept
                begins later than they may: that one
    has_older   older ones are kept
    newer       how many folded ones are kept behind them
    unpriced    folded spans without a price from the oldest of the rows on, or of all if there
                are no older ones, that begin by then; oldest first
    waypoints   those whose candles are among the rows, oldest first
    tail        (effective time, swap) of what is in the log and not folded yet, in order
    """

    tip: LogTip
    state: bytes | None
    in_sol: bytes | None
    rows: Sequence[SeriesCandle]
    has_older: bool
    newer: int
    waypoints: Sequence[Waypoint]
    tail: Sequence[tuple[UnixS, PricedSwap]]
    unpriced: Sequence[UnpricedVolume] = ()


class SwapPlace(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a swap stands on the chain; places are in the order of the chain."""

    slot: Slot
    transaction_index: int
    outer: int
    inner: int
    leg: int


class LoggedSwap(msgspec.Struct, frozen=True, gc=False):
    """A swap of the log, with its detail.

    time   effective, of its slot
    """

    place: SwapPlace
    time: UnixS
    swap: PricedSwap


class LoggedSwaps(msgspec.Struct, frozen=True, kw_only=True):
    """Swaps of a mint, from one snapshot.

    tip        of the log, then
    final      the newest final slot, None before the first
    swaps      newest first, of slots that live; none that was logged without its detail
    has_older  older ones are kept
    """

    tip: LogTip
    final: Slot | None
    swaps: Sequence[LoggedSwap]
    has_older: bool


class SeriesReader(Protocol):
    """Reads series while ingest writes.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def tip(self) -> LogTip:
        """Return where the log stands."""

    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        """Return the candles of *mint* that are asked for; None if it is not tracked.

        known   an earlier answer to the same question: what stands as it stood need not be read
        """

    async def swaps(self, mint: Mint, before: SwapPlace | None, limit: int) -> LoggedSwaps | None:
        """Return up to *limit* swaps of *mint* before a place; None if it is not tracked."""
