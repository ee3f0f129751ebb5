"""Series of candles that are computed from narrower candles or from swaps."""

import threading
from collections.abc import Iterator

import pytest
from typing_extensions import override

from mintscope.api.series.series import read_series
from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.market.log import LogTip
from mintscope.market.series.pools import KeptCandles, SeriesCandle, UnpricedVolume
from mintscope.market.series.series import SHORT, WIDTHS, Range, Series, page_of
from mintscope.market.series.units import PriceUnit, Supply, priced_in


class Rows(list[SeriesCandle]):
    """A list of candles that records the threads that iterate over it."""

    def __init__(self, rows: list[SeriesCandle]) -> None:
        super().__init__(rows)
        self.threads: set[threading.Thread] = set()

    @override
    def __iter__(self) -> Iterator[SeriesCandle]:
        self.threads.add(threading.current_thread())
        return super().__iter__()


@pytest.mark.parametrize(
    ("tf", "unit", "is_apart"),
    [("m1", "usd", False), ("m1", "sol", True), ("m1", "marketcap", True), ("d1", "usd", True)],
)
async def test_only_derived_candles_are_made_in_another_thread(
    tf: str, unit: PriceUnit, *, is_apart: bool
) -> None:
    rows = Rows(
        [
            SeriesCandle(UnixS(3_600 * n), 1.0, 1.0, 1.0, 1.0, 1, 1, 1, 0.1, 0.1, 0.1, 0.1)
            for n in range(50)
        ]
    )
    tip = LogTip(seq=1, slot=None, time=UnixS(200_000), follows_files=False)
    kept = KeptCandles(
        tip=tip, state=None, in_sol=None, rows=rows, has_older=False, newer=0, waypoints=[], tail=[]
    )
    within = Range(width=WIDTHS[tf], since=UnixS(0), until=UnixS(200_000), limit=100)
    supply = Supply(5.0, "5", UnixMs(0)) if unit == "marketcap" else None
    series = await read_series(kept, within.asked, within, unit, supply)
    assert series.candles
    assert rows.threads
    assert (threading.current_thread() not in rows.threads) == is_apart


def test_a_page_without_prices_leads_to_older_pages() -> None:
    spans = [UnpricedVolume(UnixS(at), 1, 1) for at in (300, 315)]
    within = Range(width=SHORT, since=UnixS(0), until=UnixS(400), limit=2)
    older = Series([], has_older=True, closed=1, unpriced=spans)
    assert page_of(older, within, UnixS(400)) == ([], 285)
    assert page_of(older._replace(has_older=False), within, UnixS(400)) == ([], None)
    since = Range(width=SHORT, since=UnixS(286), until=UnixS(400), limit=2)
    assert page_of(older, since, UnixS(400)) == ([], None)


def test_a_span_without_a_price_in_sol_is_filled_and_keeps_its_volume() -> None:
    """A span has a candle only in USD if it was imported, or a swap in it had no price in SOL."""
    known = (0.1, 0.4, 0.1, 0.2)
    rows = [
        SeriesCandle(UnixS(0), 1.0, 4.0, 1.0, 2.0, 10, 20, 3, *known),
        SeriesCandle(UnixS(60), 2.0, 3.0, 2.0, 3.0, 5, 6, 2, 0.2, None, 0.2, 0.3),
        SeriesCandle(UnixS(120), 3.0, 3.0, 3.0, 3.0, 0, 0, 0, *(None,) * 4, 7),
        SeriesCandle(UnixS(240), 3.0, 4.0, 3.0, 4.0, 1, 0, 1, *known),
    ]
    unpriced = [UnpricedVolume(UnixS(180), 8, 9)]
    made = priced_in(Series(rows, has_older=False, closed=0, unpriced=unpriced), "sol", None)
    assert [each.bucket for each in made.candles] == [0, 240]
    within = Range(width=WIDTHS["m1"], since=UnixS(0), until=UnixS(299), limit=100, is_filled=True)
    page, _ = page_of(made, within, UnixS(299))
    assert [
        (each.bucket, each.close, each.buy_volume, each.sell_volume, each.imported_volume)
        for each in page
    ] == [
        (0, 0.2, 10, 20, None),
        (60, 0.2, 5, 6, None),
        (120, 0.2, 0, 0, 7),
        (180, 0.2, 8, 9, None),
        (240, 0.2, 1, 0, None),
    ]
