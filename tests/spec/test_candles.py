"""GET /v1/token/{tokenAddress}/candles: pages, cursors, filled candles, errors and cost."""

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from series_service import BEGIN_S, QUIET, UNTRACKED, SeriesService
from typing_extensions import override

from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.series.pools import AskedCandles, KeptCandles, KeptSwaps, SeriesCandle
from support.fakes.series import FakeSeries
from support.scenes.live_market import TRADED, trade, traded_log
from support.scenes.service import NOW, bearer, credit_token, running_service

IMPORTED_AT: Final = UnixS(NOW // 1000 - NOW // 1000 % 60 - 3_600)


async def page(market: SeriesService, token: str, **query: Any) -> dict[str, Any]:
    response = await market.ask("candles", credit_token=token, **query)
    assert response.status_code == 200, response.text
    return dict(response.json()["data"])


async def test_a_page_is_oldest_first_with_every_field_of_its_candles(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 2.0, volume=1_500_000)
    await market.trade(59, 1.5, is_buy=False, volume=250_000)
    await market.trade(60, 1.0, volume=1)

    response = await market.ask("candles", credit_token=token, tf="m1")

    assert response.headers["x-credits-remaining"] == "0"
    assert response.headers["x-data-slot"] == "3"
    assert response.headers["x-data-status"] == "live"
    assert response.headers["cache-control"] == "private, no-store"
    assert response.json()["data"] == {
        "token": "So11111111111111111111111111111111111111112",
        "tf": "m1",
        "candles": [
            {
                "t": BEGIN_S, "o": 2.0, "h": 2.0, "l": 1.5, "c": 1.5,
                "sol": {"o": 0.02, "h": 0.02, "l": 0.015, "c": 0.015},
                "volume": 1.75, "buyVolume": 1.5, "sellVolume": 0.25,
                "swaps": 2, "imported": False, "isOpen": False,
            },
            {
                "t": BEGIN_S + 60, "o": 1.0, "h": 1.0, "l": 1.0, "c": 1.0,
                "sol": {"o": 0.01, "h": 0.01, "l": 0.01, "c": 0.01},
                "volume": 1e-06, "buyVolume": 1e-06, "sellVolume": 0.0,
                "swaps": 1, "imported": False, "isOpen": True,
            },
        ],
        "nextCursor": None,
    }  # fmt: skip


class PartlyImported(FakeSeries):
    """A series with the candles of the log, and one imported candle before them."""

    @override
    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        kept = await super().candles(mint, asked, known)
        assert kept is not None
        sol = (None, None, None, None)
        given = SeriesCandle(IMPORTED_AT, 1.0, 3.0, 0.5, 2.0, 0, 0, 0, *sol, 2_500_000)
        return replace(kept, rows=[given, *kept.rows])


async def test_an_imported_candle_is_marked_and_has_no_sides_and_no_swaps(tmp_path: Path) -> None:
    log = traded_log(NOW // 1000)
    async with running_service(tmp_path, series=PartlyImported(log)) as service:
        headers = bearer(await service.issue(1))
        path = f"/v1/token/{TRADED[0]}/candles?tf=m1"
        answer = await service.client.get(path, headers=headers)

    given, *own = answer.json()["data"]["candles"]
    assert given == {
        "t": IMPORTED_AT, "o": 1.0, "h": 3.0, "l": 0.5, "c": 2.0, "sol": None, "volume": 2.5,
        "buyVolume": None, "sellVolume": None, "swaps": None, "imported": True, "isOpen": False,
    }  # fmt: skip
    assert own
    assert {each["imported"] for each in own} == {False}
    assert all(each["swaps"] for each in own)


async def test_the_newest_page_comes_first_and_cursors_are_stable(market: SeriesService) -> None:
    token = await market.service.issue(4)
    for n in range(10):
        await market.trade(60 * n, 1.0 + n)
    await market.traded.finalize(7)

    first = await page(market, token, tf="m1", limit=4)
    await market.trade(60 * 10, 11.0)  # a new candle moves no page
    second = await page(market, token, tf="m1", limit=4, cursor=first["nextCursor"])
    third = await page(market, token, tf="m1", limit=4, cursor=second["nextCursor"])

    opens = [[candle["o"] for candle in each["candles"]] for each in (third, second, first)]
    assert opens == [[1.0, 2.0], [3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0]]
    assert third["nextCursor"] is None
    assert await market.service.left(token) == 1


@pytest.mark.parametrize("tf", ["m1", "m5", "m15", "h1", "h4", "d1"])
async def test_the_newest_candle_closes_at_the_price_of_the_report(
    market: SeriesService, tf: str
) -> None:
    token = await market.service.issue(20)
    for n in range(12):
        await market.trade(61 * n, 1.0 + n / 7)
        if n == 9:
            await market.traded.finalize(5)
        if n < 9:
            continue
        candles = await market.ask("candles", credit_token=token, tf=tf)
        report = await market.report(token)
        newest, reported = candles.json()["data"]["candles"][-1], report.json()["data"]
        assert candles.headers["x-data-slot"] == report.headers["x-data-slot"]
        assert (newest["c"], newest["sol"]["c"]) == (
            reported["price"]["usd"],
            reported["price"]["sol"],
        )


class Counted(FakeSeries):
    """A series that counts how often candles are read."""

    reads = 0

    @override
    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        self.reads += 1
        return await super().candles(mint, asked, known)


async def test_a_page_is_read_again_after_a_new_slot_or_a_second(
    tmp_path: Path,
) -> None:
    log = traded_log(NOW // 1000)
    series = Counted(log)
    async with running_service(tmp_path, series=series) as service:
        headers, path = bearer(await service.issue(9)), f"/v1/token/{TRADED[0]}/candles?tf=m1"

        async def newest(query: str = "") -> dict[str, Any]:
            answer = await service.client.get(path + query, headers=headers)
            return dict(answer.json()["data"]["candles"][-1])

        first = await newest()
        assert (await newest(), series.reads) == (first, 1)
        await newest("&limit=3")
        assert series.reads == 2
        trade(log, *TRADED)
        assert (await newest())["swaps"] == first["swaps"] + 1
        assert series.reads == 3
        service.clock.advance(1_000)
        await newest()

    assert series.reads == 4


async def test_a_page_without_candles_costs_nothing(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)

    empty = await page(market, token, tf="m1", to=BEGIN_S - 60)

    assert (empty["candles"], empty["nextCursor"]) == ([], None)
    assert await market.service.left(token) == 1


async def test_empty_minutes_are_filled_only_on_request(market: SeriesService) -> None:
    token = await market.service.issue(2)
    await market.trade(0, 1.0)
    await market.trade(90, None, volume=3 * 10**6)
    await market.trade(180, 2.0)

    skipped = await page(market, token, tf="m1")
    filled = await page(market, token, tf="m1", fill="previous")

    assert [(c["t"] - BEGIN_S, c["swaps"]) for c in skipped["candles"]] == [(0, 1), (180, 1)]
    assert [(c["t"] - BEGIN_S, c["c"], c["swaps"], c["volume"]) for c in filled["candles"]] == [
        (0, 1.0, 1, 1.0), (60, 1.0, 0, 3.0), (120, 1.0, 0, 0.0), (180, 2.0, 1, 1.0),
    ]  # fmt: skip


async def test_a_page_has_a_volume_profile_only_on_request(market: SeriesService) -> None:
    token = await market.service.issue(3)
    await market.trade(0, 1.0, volume=10_000_000)
    await market.trade(60, 5.0, volume=4_000_000)
    await market.trade(90, 6.0, volume=4_000_000)

    found = (await page(market, token, tf="m1", profile=5))["volumeProfile"]
    assert found["bins"] == [
        {"low": 1.0 + n, "high": 2.0 + n, "volumeUsd": volume}
        for n, volume in enumerate((10.0, 0.0, 0.0, 0.0, 8.0))
    ]
    del found["bins"]
    assert found == {"pointOfControl": 1.5, "valueAreaLow": 1.0, "valueAreaHigh": 6.0}
    assert "volumeProfile" not in await page(market, token, tf="m1")
    assert (await page(market, token, tf="m1", profile=5, to=1))["candles"] == []


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"tf": "m1", "profile": 201},
        {"tf": "m2"},
        {"tf": "m1", "limit": 0},
        {"tf": "m1", "limit": 1_001},
        {"tf": "m1", "from_": -1},
        {"tf": "m1", "from_": 2, "to": 1},
        {"tf": "m1", "fill": "zero"},
        {"tf": "m1", "cursor": "x"},
        {"tf": "m1", "cursor": "WyJiZWZvcmUiLCJoMSIsMV0"},  # a cursor of h1
        {"tf": "m1", "more": 1},
    ],
)
async def test_an_invalid_query_is_refused_before_any_payment(
    market: SeriesService, query: dict[str, Any]
) -> None:
    response = await market.ask("candles", **query)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")


async def test_errors_equal_those_of_the_report(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 1.0)

    async def refused(**asked: Any) -> tuple[int, str]:
        response = await market.ask("candles", **{"tf": "m1", **asked})
        return response.status_code, response.json()["error"]["code"]

    assert await refused(mint="abc") == (400, "INVALID_TOKEN_ADDRESS")
    assert await refused() == (402, "PAYMENT_REQUIRED")
    assert await refused(credit_token=credit_token(99)) == (401, "INVALID_TOKEN")
    assert await refused(credit_token=token, mint=UNTRACKED) == (404, "TOKEN_NOT_FOUND")
    for tf in ("m1", "s15", "h4"):
        expected = (404, "INSUFFICIENT_DATA")
        assert await refused(credit_token=token, mint=QUIET, tf=tf) == expected
    market.service.clock.step(301_000)
    assert await refused(credit_token=token) == (503, "DATA_STALE")
    assert await market.service.left(token) == 1


class CountedSeries(FakeSeries):
    """A series that counts how often swaps are read."""

    read_count = 0

    @override
    async def kept_swaps(self, mint: Mint, until: UnixS, spans: int) -> KeptSwaps | None:
        self.read_count += 1
        return await super().kept_swaps(mint, until, spans)


@pytest.mark.parametrize("asked", ["candles?", "candles?format=csv&", "indicators?"])
async def test_swaps_are_read_only_for_a_client_that_can_pay(tmp_path: Path, asked: str) -> None:
    log = traded_log(NOW // 1000)
    series = CountedSeries(log)
    async with running_service(tmp_path, series=series) as service:
        token = await service.issue(1)
        counts: list[int] = []
        for headers, status in (({}, 402), (bearer(token), 200), (bearer(token), 402)):
            path = f"/v1/token/{TRADED[0]}/{asked}tf=s15&to={NOW // 1000 - 15 * len(counts)}"
            answer = await service.client.get(path, headers=headers)
            assert answer.status_code == status, answer.text
            counts.append(series.read_count)

    assert counts == [0, 1, 1]
