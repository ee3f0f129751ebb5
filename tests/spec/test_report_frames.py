"""Reports, candles and indicators in timeframes that are computed on request, and in SOL."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from series_service import BEGIN_S, TOKEN, SeriesService, series_service

from mintscope.alerts.conditions import Tracks, read_field, watched_by
from mintscope.app.stores.market import Market
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap
from mintscope.market.mint_facts import MintFacts, TokenProgram
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.screening.grammar import ALL_FIELDS, parse_condition
from support.oracles.definitions import disagreements, ema, rsi
from support.scenes.service import bearer
from support.scenes.traded import TradedStore, new_slot

ALL: Final = "d1,h4,m30,s15"
FACTS: Final = MintFacts(
    slot=Slot(7),
    read_at_ms=UnixMs(BEGIN_S * 1000),
    program=TokenProgram.SPL,
    decimals=6,
    supply=5_000_500_000,
    mint_authority=None,
    freeze_authority=None,
    name=None,
    symbol="TKN",
    transfer_fee_bps=None,
    transfer_hook=None,
    permanent_delegate=None,
)


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    retention = Retention(DEFAULT_RETENTION.keep_s, swaps_s=DAY_S)
    async with series_service(tmp_path, retention=retention) as market:
        yield market


async def trade(market: SeriesService) -> None:
    """Trade for five days, at last at SOL prices unlike those in USD; finalize most slots."""
    slots = [
        market.made(1_700 * n, 2.0 + (n * 37 % 101) / 70, volume=10**6 + n, is_buy=n % 3 > 0)
        for n in range(260)
    ]
    await market.add(slots[:256])
    await market.traded.finalize(250)
    await market.add(slots[256:])
    at_last = []
    for n in range(20):
        market.slots += 1
        swap = PricedSwap(
            Mint(TOKEN), 0, 0, -1, 0, n % 2 > 0, 7 + n, 3.0 + n / 9, 0.02 + n / 7, "p"
        )
        at_last.append(new_slot(market.slots, BEGIN_S + 1_700 * 260 + 11 * n, [swap]))
    await market.add(at_last)


async def data(market: SeriesService, token: str, path: str, **query: Any) -> dict[str, Any]:
    answer = await market.ask(path, credit_token=token, **query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def report(market: SeriesService, token: str, query: str) -> dict[str, Any]:
    await market.follower.catch_up()
    path = f"/v1/token/{TOKEN}{query}"
    answer = await market.client.get(path, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def test_a_report_has_the_requested_timeframes(market: SeriesService) -> None:
    token = await market.service.issue(20)
    await trade(market)
    plain = await report(market, token, "")
    live = await report(market, token, f"?timeframes={ALL}")
    past = await report(market, token, f"?timeframes={ALL}&at=slot:{market.slots}")

    assert list(plain["indicators"]) == ["m1", "m5", "m15", "h1", "buySellPressure"]
    assert set(live["indicators"]) == {*plain["indicators"], *ALL.split(",")}
    assert live == past | {key: live[key] for key in live.keys() - past.keys()}
    assert {name: live["indicators"][name] for name in plain["indicators"]} == plain["indicators"]
    for name in ("m30", "h4", "d1"):
        series = await data(market, token, "indicators", tf=name, names="ema9,rsi,macd,fibonacci")
        newest = series["points"][-1]
        reported = live["indicators"][name]
        assert {key: newest[key] for key in ("ema9", "rsi", "macd", "fibonacci")} == {
            key: reported[key] for key in ("ema9", "rsi", "macd", "fibonacci")
        }
    assert live["indicators"]["h4"]["ema21"] is not None
    assert live["indicators"]["d1"]["ema9"] is None
    assert live["indicators"]["s15"]["ema9"] is not None
    one = await report(market, token, "?timeframes=h4")
    assert set(one["indicators"]) == {*plain["indicators"], "h4"}
    path = f"/v1/token/{TOKEN}?timeframes=h2"
    refused = await market.client.get(path, headers=bearer(token))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "BAD_REQUEST")


async def test_alerts_read_the_same_numbers_as_the_series(
    market: SeriesService,
) -> None:
    token = await market.service.issue(20)
    await trade(market)
    tip = await market.traded.reader.tip()
    loaded = await market.traded.reader.load(Mint(TOKEN), ("h4",))
    assert loaded is not None
    tracks = Tracks(1)
    tracks.begin(loaded.seq, tip.slot, tip.time)
    tracks.take(loaded)
    for is_closed, candles in ((False, "all"), (True, "closed")):
        reported = tracks.report(Mint(TOKEN), is_closed=is_closed)
        assert reported is not None
        for tf in ("m30", "h4", "d1"):
            names = "ema9,ema21,rsi,macd,fibonacci"
            series = await data(market, token, "indicators", tf=tf, names=names, candles=candles)
            newest = series["points"][-1]
            macd = newest["macd"] or {}
            levels = newest["fibonacci"]
            for name, value in {
                "ema9": newest["ema9"],
                "ema21": newest["ema21"],
                "rsi": newest["rsi"],
                "macd": macd.get("line"),
                "macd_signal": macd.get("signal"),
                "macd_histogram": macd.get("histogram"),
                "swing_high": levels["swingHigh"],
                "swing_low": levels["swingLow"],
            }.items():
                watched = watched_by(parse_condition(f"{name}_{tf} > 1", ALL_FIELDS))
                assert read_field(reported, watched.field) == value, (name, tf, candles)


@pytest.mark.parametrize("tf", ["m30", "h4"])
async def test_backtests_fire_by_the_same_numbers_as_the_series(
    market: SeriesService, tf: str
) -> None:
    """Conditions are evaluated at the end of each candle, with the newest closed h4 and d1."""
    token = await market.service.issue(20)
    await trade(market)
    closed = {"candles": "closed", "limit": 1_000}
    looks = (await data(market, token, "candles", tf=tf, **closed))["candles"]
    widths = {"m30": 1_800, "h4": 14_400, "d1": 86_400}
    of = {
        name: [
            (each["t"] + widths[name], each)
            for each in (
                await data(market, token, "indicators", tf=name, names="ema9,rsi,candle", **closed)
            )["points"]
        ]
        for name in ("h4", "d1")
    }
    rules: dict[str, Callable[[float, Any, Any], bool]] = {
        "ema9_h4 < price": lambda price, h4, _: (h4["ema9"] or 1e9) < price,
        "rsi_h4 > 50 and candles_d1 > 2": lambda _, h4, d1: (
            (h4["rsi"] or 0) > 50 and sum(each is not None for each in d1["seen"]) > 2
        ),
        "price > swing_high_d1 * 0.8": lambda price, _, d1: price > 0.8 * max(d1["highs"]),
    }
    for where, holds in rules.items():
        expected = []
        before = False
        for look in looks:
            end = look["t"] + widths[tf]
            h4s, d1s = ([each for at, each in of[name] if at <= end] for name in ("h4", "d1"))
            h4 = h4s[-1] if h4s else {"ema9": None, "rsi": None}
            d1 = {"seen": d1s, "highs": [each["candle"]["h"] for each in d1s] or [1e9]}
            now = holds(look["c"], h4, d1)
            if now and not before:
                expected.append((end, look["c"]))
            before = now
        page = await data(market, token, "backtest", where=where, tf=tf)
        assert page["looks"] == len(looks)
        assert [(each["t"], each["price"]) for each in page["firings"]] == expected, where
        assert expected
    answer = await market.client.post(
        "/v1/backtest", json={"mints": [TOKEN], "where": where, "tf": tf}, headers=bearer(token)
    )
    tested = answer.json()["data"]
    assert [(each["t"], each["price"]) for each in tested["firings"]] == expected
    kept = [
        len((await data(market, token, "candles", tf=name, limit=1_000))["candles"])
        for name in {"m30": ("m15", "h1"), "h4": ("h1",)}[tf]
    ]
    assert tested["candles"] == sum(kept)


async def test_candles_of_s15_and_m30_have_the_total_volume_of_m5(market: SeriesService) -> None:
    token = await market.service.issue(20)
    await trade(market)
    minutes = (await data(market, token, "candles", tf="m5", limit=1_000))["candles"]
    sums = {}
    for tf, width_s in (("s15", 15), ("m30", 1_800)):
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = await data(market, token, "candles", tf=tf, limit=150, **cursor)
            found = page["candles"] + found
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert all(each["t"] % width_s == 0 for each in found)
        assert [each["t"] for each in found] == sorted({each["t"] for each in found})
        assert found[0]["o"] == minutes[0]["o"]
        assert found[-1]["c"] == minutes[-1]["c"]
        sums[tf] = [
            round(sum(each[name] for each in found) * 1e6)
            for name in ("volume", "buyVolume", "sellVolume")
        ]
        sums[tf].append(sum(each["swaps"] for each in found))
    shown = (await data(market, token, "candles", tf="s15", limit=150))["candles"]
    points = (await data(market, token, "indicators", tf="s15", names="sma(5),rsi", limit=100))[
        "points"
    ]
    assert [each["t"] for each in points] == [each["t"] for each in shown[-100:]]
    closes = [each["c"] for each in shown]
    for n, each in enumerate(points, len(shown) - len(points)):
        assert each["values"]["sma(5)"] == pytest.approx(sum(closes[n - 4 : n + 1]) / 5, rel=1e-12)
    names = ("volume", "buyVolume", "sellVolume")
    wanted = [round(sum(each[name] for each in minutes) * 1e6) for name in names]
    wanted.append(sum(each["swaps"] for each in minutes))
    assert sums == {"s15": wanted, "m30": wanted}


async def test_candles_and_indicators_come_in_sol_and_as_market_capitalisation(
    market: SeriesService,
) -> None:
    token = await market.service.issue(20)
    await trade(market)
    usd = (await data(market, token, "candles", tf="h4"))["candles"]
    sol = await data(market, token, "candles", tf="h4", in_="sol")
    assert sol["in"] == "sol"
    assert [{key: each[key] for key in "ohlc"} for each in sol["candles"]] == [
        each["sol"] for each in usd
    ]
    assert [each["volume"] for each in sol["candles"]] == [each["volume"] for each in usd]
    closes = [each["sol"]["c"] for each in usd]
    points = await data(market, token, "indicators", tf="h4", names="ema9,rsi", in_="sol")
    expected = {"ema9": ema(closes, 9)[-1], "rsi": rsi(closes)[-1]}
    newest = points["points"][-1]
    assert disagreements({key: newest[key] for key in expected}, expected, 1.0) == []

    refused = await market.ask("candles", credit_token=token, tf="h4", in_="marketcap")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    assert isinstance(market.traded, TradedStore)
    stored: Market = market.traded.market
    assert await stored.facts.save(Mint(TOKEN), FACTS)
    caps = await data(market, token, "candles", tf="h4", in_="marketcap")
    assert (caps["in"], caps["supply"]) == (
        "marketcap", {"tokens": "5000.5", "readAt": BEGIN_S},
    )  # fmt: skip
    for cap, each in zip(caps["candles"], usd, strict=True):
        assert [cap[key] for key in "ohlc"] == pytest.approx(
            [each[key] * 5_000.5 for key in "ohlc"], rel=1e-15
        )
    capped = await data(market, token, "indicators", tf="m5", names="ema9,rsi", in_="marketcap")
    plain = await data(market, token, "indicators", tf="m5", names="ema9,rsi")
    for cap, each in zip(capped["points"], plain["points"], strict=True):
        assert cap["rsi"] == pytest.approx(each["rsi"], rel=1e-9)
        assert (cap["ema9"] or 0.0) == pytest.approx((each["ema9"] or 0.0) * 5_000.5, rel=1e-12)
