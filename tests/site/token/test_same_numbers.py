"""The numbers of a token's page are those of the API, each of them, at the same slot."""

import re
from html import unescape
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mintscope.market.report import TokenReport
from mintscope.site.token.shown import rows_of
from support.scenes.people.web_person import Person
from support.scenes.service import bearer, credit_token
from support.scenes.token_market import BONE, RISKY, SOL
from support.scenes.whole_report import whole_report

POINT = ("t", "o", "h", "l", "c", "buyVolume", "sellVolume")
TIMEFRAMES = ("m1", "m5", "m15", "h1")
VALUES = ("ema9", "ema21", "ema50", "ema200", "rsi")
LEVELS = {
    "0": "swingHigh", "23.6": "level236", "38.2": "level382", "50": "level500",
    "61.8": "level618", "76.4": "level764", "100": "swingLow",
}  # fmt: skip


async def data_of(person: Person, path: str) -> tuple[Any, dict[str, str]]:
    """Return the data of the API, paid for with a credit."""
    site, token = person.site, credit_token(len(path))
    if await site.ledger.find(token) is None:
        await site.ledger.issue(token, 100, "")
    answer = await person.client.get(path, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return answer.json()["data"], dict(answer.headers)


def fields_of(page: str) -> dict[str, str]:
    """Return the content of each named place of the page: the whole number, or the text."""
    found = {}
    for name, inside in re.findall(r'data-field="([^"]*)"[^>]*>(.*?)</(?:td|strong)>', page):
        title = re.search(r'title="([^"]*)"', inside)
        found[name] = unescape(title[1] if title else re.sub("<[^>]*>", "", inside))
    for name in ("sol", "slot"):
        match = re.search(rf'data-field="{name}">(.*?)</span>', page)
        assert match
        title = re.search(r'title="([^"]*)"', match[1])
        found[name] = title[1] if title else re.sub("<[^>]*>", "", match[1])
    return found


def attribute(page: str, name: str) -> Any:
    match = re.search(rf'data-{name}="([^"]*)"', page)
    assert match
    return msgspec.json.decode(unescape(match[1]))


@pytest.mark.parametrize("mint", [SOL, BONE])
async def test_each_number_of_the_page_is_that_of_the_api(stranger: Person, mint: str) -> None:
    report, headers = await data_of(stranger, f"/v1/token/{mint}")
    for timeframe in TIMEFRAMES:
        page = (await stranger.open(f"/token/{mint}?tf={timeframe}")).text
        shown = fields_of(page)

        assert int(shown.pop("slot").replace(",", "")) == int(headers["x-data-slot"])
        assert float(shown.pop("usd").removeprefix("$")) == report["price"]["usd"]
        assert float(shown.pop("sol").removesuffix(" SOL")) == report["price"]["sol"]
        assert {name: number_in(text) for name, text in shown.items()} == cells_of(report)
        levels = report["indicators"][timeframe]["fibonacci"]
        told = [[field, f"Fib {name} %", levels[field]] for name, field in LEVELS.items()]
        assert attribute(page, "levels") == told
        for name, share in report["indicators"]["buySellPressure"].items():
            assert text_of_share(page, name) == f"{share:.2f}"


def cells_of(report: dict[str, Any]) -> dict[str, float | None]:
    """Return the expected cells of the table of indicators."""
    cells = {}
    for frame in TIMEFRAMES:
        values = report["indicators"][frame]
        for name in VALUES:
            cells[f"{frame}.{name}"] = values[name]
        for part in ("line", "signal", "histogram"):
            cells[f"{frame}.macd.{part}"] = values["macd"] and values["macd"][part]
    return cells


def number_in(text: str) -> float | None:
    return None if text == "not known yet" else float(text)


def text_of_share(page: str, name: str) -> str:
    match = re.search(rf'data-pressure="{name}".*?<span class="number">([^<]*)', page, re.DOTALL)
    assert match
    return match[1]


async def test_the_chart_has_the_candles_and_indicators_of_the_api(stranger: Person) -> None:
    for timeframe in TIMEFRAMES:
        page = (await stranger.open(f"/token/{BONE}?tf={timeframe}")).text
        query = f"?tf={timeframe}&limit=150"
        candles, _ = await data_of(stranger, f"/v1/token/{BONE}/candles{query}")
        series, _ = await data_of(stranger, f"/v1/token/{BONE}/indicators{query}")
        points = attribute(page, "points")

        told = [[candle[name] for name in POINT] for candle in candles["candles"]]
        assert [point[:7] for point in points] == told
        assert [point[0] for point in points] == [each["t"] for each in series["points"]]
        for point, each in zip(points, series["points"], strict=True):
            macd = each["macd"] or dict.fromkeys(("line", "signal", "histogram"))
            assert point[8:] == [*(each[name] for name in VALUES), *macd.values()]


async def test_the_last_swaps_are_those_of_the_api(stranger: Person) -> None:
    page = (await stranger.open(f"/token/{RISKY}")).text
    swaps, _ = await data_of(stranger, f"/v1/token/{RISKY}/swaps?limit=12")

    lines = re.findall(r"<tr><td><time.*?</tr>", page)
    assert len(lines) == len(swaps["swaps"]) == 12
    for line, swap in zip(lines, swaps["swaps"], strict=True):
        assert f'href="https://solscan.io/tx/{swap["signature"]}"' in line
        assert f'href="https://explorer.solana.com/tx/{swap["signature"]}"' in line
        assert f">{swap['side']}<" in line
        assert f"${swap['price']['usd']!r}" in line


@pytest.mark.parametrize(
    ("rsi", "tone"), [(71.0, "extreme"), (29.0, "extreme"), (70.0, "level"), (55.0, "level")]
)
def test_an_overbought_token_looks_no_better_than_an_oversold_one(rsi: float, tone: str) -> None:
    report = msgspec.json.decode(whole_report(), type=TokenReport)
    frame = replace(report.indicators.m1, rsi=rsi)
    (row,) = [
        row
        for row in rows_of(replace(report, indicators=replace(report.indicators, m1=frame)))
        if row.cells[0].field == "m1.rsi"
    ]
    assert row.cells[0].tone == tone
