"""Cached candles and pages of series: how many are cached, and what counts as their size."""

from typing import Final, cast

from mintscope.api.series.swaps import (
    AT_LAST,
    BYTES_MAX,
    PAGE_BYTES,
    ROW_BYTES,
    ROWS_MAX,
    WINDOW_ROWS,
    Made,
    NewestCandles,
    RecentPages,
)
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.log import LogTip, PricedSwap
from mintscope.market.series.pools import AskedCandles, KeptCandles, SeriesReader
from mintscope.market.timeframe import Timeframe
from mintscope.payments.protocol.envelope import Resource

ASKED: Final = AskedCandles(Timeframe.M1, AT_LAST, 500)
TIP: Final = LogTip(seq=1, slot=Slot(7), time=UnixS(1_700_000_000), follows_files=False)


class OneAnswer:
    """A reader of series that returns the same *candles* for every mint.

    reads   the mints that were read by callers who had no earlier answer
    """

    def __init__(self, candles: KeptCandles) -> None:
        self._candles = candles
        self.reads: list[Mint] = []

    async def tip(self) -> LogTip:
        return TIP

    async def candles(
        self, mint: Mint, _asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        if known is None:
            self.reads.append(mint)
        return self._candles


def without_candles(*, state: bytes | None = None, tail_count: int = 0) -> KeptCandles:
    swap = PricedSwap(Mint("mint"), 0, 0, -1, 0, True, 10**6, None, None)  # noqa: FBT003
    return KeptCandles(
        tip=TIP,
        state=state,
        in_sol=None,
        rows=[],
        has_older=False,
        newer=0,
        waypoints=[],
        tail=[(UnixS(1_700_000_000), swap)] * tail_count,
    )


async def kept_count(candles: KeptCandles, asked_count: int) -> int:
    """Request *candles* of *asked_count* mints; return the number of mints that are then cached."""
    reader = OneAnswer(candles)
    newest = NewestCandles(cast("SeriesReader", reader), ManualClock(UnixMs(1_700_000_000_000)))
    mints = [Mint(f"{number}") for number in range(asked_count)]
    for mint in mints:
        await newest.read(mint, ASKED)
    reader.reads.clear()
    for mint in reversed(mints):  # those that are kept are asked for first, and replace no other
        await newest.read(mint, ASKED)
        if reader.reads:
            break
    return asked_count - 1 - int(reader.reads[0]) if reader.reads else asked_count


async def test_a_window_without_candles_counts_towards_the_cache_limit() -> None:
    most = ROWS_MAX // WINDOW_ROWS
    assert await kept_count(without_candles(), most + 1) == most


async def test_states_and_swaps_of_a_window_count_towards_the_cache_limit() -> None:
    of_states = without_candles(state=bytes(ROW_BYTES * (1_000 - WINDOW_ROWS)))
    assert await kept_count(of_states, 100) == ROWS_MAX // 1_000
    of_swaps = without_candles(tail_count=1_000 - WINDOW_ROWS)
    assert await kept_count(of_swaps, 100) == ROWS_MAX // 1_000


async def test_short_pages_count_more_than_their_bodies() -> None:
    reader = cast("SeriesReader", OneAnswer(without_candles()))
    pages = RecentPages(reader, ManualClock(UnixMs(1_700_000_000_000)))
    made: list[int] = []

    async def read(number: int) -> None:
        async def make() -> Made:
            made.append(number)
            return Made(TIP, b"page", is_empty=False)

        await pages.page(Resource(f"/v1/token/{number}"), make)

    count = BYTES_MAX // PAGE_BYTES
    for number in range(count):
        await read(number)
    made.clear()
    await read(count - 1)
    assert not made
    await read(0)
    assert made == [0]
