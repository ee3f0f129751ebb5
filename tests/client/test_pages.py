"""The client requests each page of rows only when it is needed, and makes a table of the rows."""

import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest

from mintscope_client.calls import frames
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.pages import AsyncPagedLines, PagedLines
from mintscope_client.endpoints import series
from mintscope_client.endpoints.series import CandleLine, CandlesPage, IndicatorLine, PricesInSol

MINT = "So11111111111111111111111111111111111111112"
SOL = PricesInSol(o=1.0, h=1.0, l=1.0, c=1.0)


def candle(t: int, *, sol: PricesInSol | None = SOL, swaps: int | None = 3) -> CandleLine:
    return CandleLine(
        t=t,
        o=1.5,
        h=2.5,
        l=0.5,
        c=1.25,
        sol=sol,
        volume=10.0,
        buy_volume=4.0,
        sell_volume=6.0,
        swaps=swaps,
        imported=swaps is None,
        is_open=False,
    )


class Service:
    """A service with three pages of candles, the newest first."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def send(self, call: ApiCall[CandlesPage]) -> Answered[CandlesPage]:
        assert call.path == f"/v1/token/{MINT}/candles"
        self.asked.append(dict(call.query))
        number = int(self.asked[-1].get("cursor", "0"))
        lines = [candle(60 * (8 - 2 * number)), candle(60 * (9 - 2 * number), sol=None, swaps=None)]
        cursor = str(number + 1) if number < 2 else None
        return Answered(data=CandlesPage(MINT, "m1", lines, cursor))

    async def send_later(self, call: ApiCall[CandlesPage]) -> Answered[CandlesPage]:
        return self.send(call)


LISTING = series.candles(MINT, "m1", from_=7, limit=2, fill="previous")
TIMES = [480, 540, 360, 420, 240, 300]


def test_the_lines_of_all_pages_are_read_in_order() -> None:
    service = Service()

    assert [line.t for line in PagedLines(service.send, LISTING)] == TIMES
    same = {"tf": "m1", "from": "7", "limit": "2", "fill": "previous"}
    assert service.asked == [same, same | {"cursor": "1"}, same | {"cursor": "2"}]


async def test_the_lines_of_all_pages_are_read_in_order_by_asyncio() -> None:
    pages = AsyncPagedLines(Service().send_later, LISTING)

    assert [line.t async for line in pages] == TIMES
    assert (await pages.first()).candles[0].t == 480
    assert len(await pages.to_dataframe("polars")) == 6


def test_a_page_has_the_most_lines_allowed_because_it_costs_the_same() -> None:
    first = (
        series.candles(MINT, "m1").call_at(None).query,
        series.indicators(MINT, "m1").call_at(None).query,
        series.swaps(MINT).call_at(None).query,
    )

    assert [dict(query)["limit"] for query in first] == ["1000", "1000", "500"]


@pytest.mark.parametrize("library", ["pandas", "polars", None])
async def test_no_page_is_requested_if_the_library_of_the_table_is_missing(
    monkeypatch: pytest.MonkeyPatch, library: frames.Library | None
) -> None:
    service = Service()
    for name in frames.LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(ImportError):
        PagedLines(service.send, LISTING).to_dataframe(library)
    with pytest.raises(ImportError):
        await AsyncPagedLines(service.send_later, LISTING).to_dataframe(library)
    assert service.asked == []


def test_a_page_that_is_not_read_is_not_requested() -> None:
    service = Service()
    pages = PagedLines(service.send, LISTING)

    assert pages.first().next_cursor == "1"
    assert len(service.asked) == 1
    assert [page.next_cursor for page in pages.pages("1")] == ["2", None]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_lines_become_a_table(library: Any) -> None:
    table = PagedLines(Service().send, LISTING).to_dataframe(library)

    assert isinstance(table, import_module(library).DataFrame)
    columns = "t o h l c sol_o sol_h sol_l sol_c volume buy_volume sell_volume swaps"
    assert [*table.columns] == [*columns.split(), "imported", "is_open"]
    assert next(iter(table["t"])) == datetime.fromtimestamp(480, UTC)
    assert next(iter(table["sol_c"])) == 1.0
    assert table["c"].sum() == 6 * 1.25


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_indicators_with_parameters_are_columns_of_their_names(library: Any) -> None:
    line = IndicatorLine(t=60, values={"sma(50)": 1.5, "adx": {"adx": 30.0, "plusDi": None}})
    table = frames.to_dataframe([line, line], library)

    assert list(table.columns) == ["t", "is_open", "sma(50)", "adx_adx"]
    assert list(table["sma(50)"]) == [1.5, 1.5]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_may_be_empty_for_hundreds_of_rows(library: Any) -> None:
    empty = [IndicatorLine(t=60 * n, values={"sma(200)": None}) for n in range(199)]
    table = frames.to_dataframe(
        [*empty, IndicatorLine(t=60 * 199, ema200=2.5, values={"sma(200)": 1.5})], library
    )

    assert len(table) == 200
    assert (list(table["ema200"])[-1], list(table["sma(200)"])[-1]) == (2.5, 1.5)


def test_a_table_without_either_library_raises_an_error_that_names_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in frames.LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(ImportError, match="pandas and polars"):
        frames.to_dataframe([])
