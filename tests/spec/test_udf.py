"""GET /v1/udf/...: the requests of charts that use UDF."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
    series_service,
)

from mintscope.api.series.udf import shown_scale
from mintscope.kit.primitives import UnixMs
from mintscope.market.log import PricedSwap
from support.fakes.facts import FACTS
from support.scenes.service import NOW, bearer
from support.scenes.shown_market import mint_named


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    async with series_service(tmp_path) as market:
        lists = market.service.market
        await lists.append(1, BEGIN_S)
        for mint in (TOKEN, QUIET):
            await lists.track(mint)
        await lists.append(2, BEGIN_S + 1)
        await market.service.lister.refresh()
        for minute in range(30):
            await market.trade(60 * minute, 1.0 + minute, volume=2 * 10**6)
        yield market


async def ask(
    market: SeriesService, path: str, token: str | None = None, **query: object
) -> httpx.Response:
    headers = {} if token is None else bearer(token)
    asked = {name.rstrip("_"): str(value) for name, value in query.items()}
    answer: httpx.Response = await market.client.get(
        f"/v1/udf/{path}", params=asked, headers=headers
    )
    return answer


async def test_a_chart_finds_a_token_and_draws_its_bars(market: SeriesService) -> None:
    """The test sends the requests of the feed of TradingView's library, in its order."""
    token = await market.service.issue(1)

    config = (await ask(market, "config")).json()
    assert config["supports_search"]
    assert not config["supports_group_request"]
    assert abs(int((await ask(market, "time")).text) - BEGIN_S) < 3_600
    found = (await ask(market, "search", query=TOKEN[:6], type="", exchange="", limit=10)).json()
    assert [each["ticker"] for each in found] == [TOKEN]
    shouted = await ask(market, "search", query=TOKEN.upper(), limit=30)
    assert shouted.json() == found  # the library sends typed text in upper case
    symbol = (await ask(market, "symbols", symbol=found[0]["ticker"])).json()
    assert (symbol["ticker"], symbol["type"], symbol["session"]) == (TOKEN, "crypto", "24x7")
    assert set(symbol["supported_resolutions"]) <= set(config["supported_resolutions"])
    assert symbol["pricescale"] == 100  # the list has no price of the token

    bars = (
        await ask(
            market, "history", token, symbol=symbol["ticker"], resolution="5", from_=BEGIN_S,
            to=BEGIN_S + 1_800, countback=3,
        )
    ).json()  # fmt: skip
    assert bars["s"] == "ok"
    last = BEGIN_S + 1_799 - (BEGIN_S + 1_799) % 300
    assert bars["t"] == [last - 600, last - 300, last]
    closes = [min(30.0, 1.0 + (at + 299 - BEGIN_S) // 60) for at in bars["t"]]
    assert bars["c"] == closes
    assert bars["v"][:2] == [10.0, 10.0]
    assert len({len(bars[name]) for name in "tohlcv"}) == 1
    assert await market.service.left(token) == 0

    full_name = f"{symbol['exchange']}:{TOKEN}"  # the library makes such names
    assert (await ask(market, "symbols", symbol=full_name)).json() == symbol
    bars = {"resolution": "5", "from_": BEGIN_S, "to": BEGIN_S + 1_800, "countback": 3}
    again = await ask(market, "history", await market.service.issue(1), symbol=full_name, **bars)
    assert again.json()["t"] == [last - 600, last - 300, last]

    marks = (await ask(market, "marks", symbol=TOKEN, from_=0, to=BEGIN_S * 2)).json()
    (since,) = marks["time"]
    assert BEGIN_S <= since <= BEGIN_S + 1
    assert (await ask(market, "marks", symbol=TOKEN, from_=since, to=since)).json() == marks
    assert {len(values) for values in marks.values()} == {1}
    before = (await ask(market, "marks", symbol=TOKEN, from_=0, to=since - 1)).json()
    assert {len(values) for values in before.values()} == {0}


async def test_a_span_without_bars_is_no_data_and_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    asked = {"symbol": TOKEN, "from_": 0, "to": 100}
    resolutions = (await ask(market, "config")).json()["supported_resolutions"]
    assert "30" in resolutions
    for each in resolutions:
        answer = await ask(market, "history", token, resolution=each, **asked)
        assert answer.json() == {"s": "no_data"}
    assert await market.service.left(token) == 1


async def test_a_symbol_equal_to_the_mint_of_another_token_does_not_replace_it(
    market: SeriesService,
) -> None:
    lists = market.service.market
    imitator = replace(FACTS, symbol=TOKEN, name="An imitator", read_at_ms=UnixMs(NOW))
    await lists.learn(QUIET, imitator)
    trade = PricedSwap(QUIET, 0, 0, -1, 0, True, 10**15, 1.0, 0.01, "pool")  # noqa: FBT003
    await lists.append(900, BEGIN_S + 10_000, trade)
    await lists.append(901, BEGIN_S + 20_000, trade)
    await market.service.lister.refresh()

    found = (await ask(market, "search", query=TOKEN)).json()
    assert [each["ticker"] for each in found] == [QUIET, TOKEN]  # by volume
    assert (await ask(market, "symbols", symbol=TOKEN)).json()["ticker"] == TOKEN


async def test_a_short_symbol_finds_its_token_among_many_that_contain_it(
    market: SeriesService,
) -> None:
    lists = market.service.market
    others = [mint_named(f"P{number}") for number in range(60)]
    symbols = {mint: f"PAID{number}" for number, mint in enumerate(others)} | {QUIET: "AI"}
    for mint, symbol in symbols.items():
        if mint != QUIET:
            await lists.track(mint)
        await lists.learn(mint, replace(FACTS, symbol=symbol, name=symbol, read_at_ms=UnixMs(NOW)))
    trades = [
        PricedSwap(mint, place, 0, -1, 0, True, 10**8, 1.0, 0.01, "pool")  # noqa: FBT003
        for place, mint in enumerate(others)
    ]
    await lists.append(900, BEGIN_S + 10_000, *trades)
    await lists.append(901, BEGIN_S + 20_000)
    await market.service.lister.refresh()

    assert len((await ask(market, "search", query="ai", limit=50)).json()) == 50
    for symbol in ("AI", "Solana:AI"):
        found = await ask(market, "symbols", symbol=symbol)
        assert found.json().get("ticker") == QUIET
    assert (await ask(market, "symbols", symbol="ai")).status_code == 404


async def test_an_error_has_the_shape_of_udf(market: SeriesService) -> None:
    token = await market.service.issue(1)
    bars = {"symbol": UNTRACKED, "resolution": "1"}
    for answer, status, code in (
        (await ask(market, "symbols", symbol="NOPE"), 404, "TOKEN_NOT_FOUND"),
        (await ask(market, "history", token, **bars), 404, "TOKEN_NOT_FOUND"),
        (await ask(market, "history", **bars | {"symbol": TOKEN}), 402, "PAYMENT_REQUIRED"),
        (await ask(market, "history", token, symbol=TOKEN, resolution="7"), 400, "BAD_REQUEST"),
    ):
        assert (answer.status_code, answer.headers["x-error-code"]) == (status, code)
        assert answer.json()["s"] == "error"
        assert answer.json()["errmsg"]
    assert await market.service.left(token) == 1


@pytest.mark.parametrize(
    ("usd", "scale"),
    [
        (None, 100),
        (171.25, 1_000),
        (2e6, 100),
        (0.4321, 10**6),
        (2.2584e-5, 10**10),
        (1e-14, 10**16),
    ],
)
def test_a_scale_shows_six_digits_of_a_price(usd: float | None, scale: int) -> None:
    assert shown_scale(usd) == scale
