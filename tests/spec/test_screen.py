"""GET and POST /v1/screen: the tokens that meet a condition, in pages."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import USDC, USDT, WSOL
from support.fakes.facts import FACTS
from support.scenes.service import NOW, Service, bearer

PATH: Final = "/v1/screen"
START: Final = NOW // 1000 - 600
SYMBOLS: Final = {WSOL: "SOL", USDC: "USDC", USDT: "USDT"}


def swap(mint: Mint, usd: float, micro_usd: int) -> PricedSwap:
    return PricedSwap(mint, 0, 0, -1, 0, True, micro_usd, usd, usd / 100, "pool")  # noqa: FBT003


@pytest.fixture
async def screened(service: Service) -> Service:
    """Return a service with SOL, traded in ten minutes, USDC, traded in one, and USDT, in none."""
    market = service.market
    await market.append(1, START)
    for mint, symbol in SYMBOLS.items():
        await market.track(mint)
        facts = replace(FACTS, symbol=symbol, name=symbol, supply=10**9, read_at_ms=UnixMs(NOW))
        await market.learn(mint, facts)
    for n in range(10):
        await market.append(2 + n, START + 60 * n, swap(WSOL, 100.0 + n, 5_000_000))
    await market.append(20, START + 590, swap(USDC, 1.0, 9_000_000))
    await service.lister.refresh()
    return service


async def ask(service: Service, credit_count: int = 9, **query: Any) -> Any:
    token = await service.issue(credit_count)
    return await service.client.get(PATH, params=query, headers=bearer(token))


async def symbols(service: Service, where: str, **query: Any) -> list[str]:
    response = await ask(service, where=where, **query)
    assert response.status_code == 200, response.text
    return [each["symbol"] for each in response.json()["data"]["tokens"]]


async def test_a_page_has_the_fields_of_the_condition_and_costs_a_credit(screened: Service) -> None:
    response = await ask(screened, where="ema9_m1 > 100 and not price < 1", sort="price")

    assert response.status_code == 200
    assert response.headers["x-credits-remaining"] == "8"
    assert response.headers["x-data-slot"] == "20"
    assert response.headers["x-data-age-ms"] == "10000"
    assert response.headers["cache-control"] == "private, no-store"
    assert response.json()["data"] == {
        "tokens": [
            {
                "mint": WSOL,
                "symbol": "SOL",
                "name": "SOL",
                "values": {"price": 109.0, "ema9_m1": pytest.approx(105.0)},
            }
        ],
        "matches": 1,
        "slot": 20,
        "asOf": START + 590,
        "nextCursor": None,
    }


async def test_the_fields_of_a_page_may_be_chosen(screened: Service) -> None:
    names = "swaps_d1,volume_d1,confidence,rsi_h1,age_s,market_cap,pressure_h1"
    response = await ask(screened, where="price = 1", fields=names)
    (found,) = response.json()["data"]["tokens"]
    assert found["values"] == {
        "swaps_d1": 1, "volume_d1": 9.0, "confidence": "low", "rsi_h1": None, "age_s": 590,
        "market_cap": 1_000.0, "pressure_h1": 1.0,
    }  # fmt: skip


async def test_an_unknown_value_meets_no_condition_and_is_sorted_last(screened: Service) -> None:
    assert await symbols(screened, "price > 0") == ["SOL", "USDC"]
    assert await symbols(screened, "not price > 0") == []
    assert await symbols(screened, "price > 0 or age_s > 0") == ["SOL", "USDC", "USDT"]
    assert await symbols(screened, "", sort="price", order="asc") == ["USDC", "SOL", "USDT"]


async def test_a_crossing_is_seen_in_the_newest_candle(screened: Service) -> None:
    assert await symbols(screened, "crosses_above(price, ema9_m1)") == []
    await screened.market.append(30, START + 600, swap(WSOL, 1.0, 1))
    await screened.lister.refresh()
    assert await symbols(screened, "crosses_below(price, ema9_m1)") == ["SOL"]
    await screened.market.append(31, START + 660, swap(WSOL, 900.0, 1))
    await screened.lister.refresh()
    assert await symbols(screened, "crosses_below(price, ema9_m1)") == []
    assert await symbols(screened, "crosses_above(price, ema9_m1)") == ["SOL"]


async def test_a_cursor_returns_the_next_page_of_the_same_query(screened: Service) -> None:
    first = (await ask(screened, sort="price", limit=1)).json()["data"]
    assert (first["matches"], [each["symbol"] for each in first["tokens"]]) == (3, ["SOL"])
    cursor = first["nextCursor"]
    second = (await ask(screened, sort="price", limit=2, cursor=cursor)).json()["data"]
    assert [each["symbol"] for each in second["tokens"]] == ["USDC", "USDT"]
    assert second["nextCursor"] is None
    for other in ({"sort": "age_s"}, {"order": "asc"}, {"where": "price > 0"}):
        refused = await ask(screened, **({"sort": "price", "cursor": cursor} | other))
        assert refused.status_code == 400
        assert "cursor" in refused.json()["error"]["message"]


async def test_a_request_by_body_gets_the_page_of_the_same_query(screened: Service) -> None:
    headers = bearer(await screened.issue(3))
    body: dict[str, Any] = {
        "where": "price > 0",
        "sort": "price",
        "order": "asc",
        "fields": ["price"],
        "limit": 5,
    }
    response = await screened.client.post(PATH, json=body, headers=headers)
    assert response.headers["x-credits-remaining"] == "2"
    query = await ask(screened, **(body | {"fields": "price"}))
    assert response.json()["data"] == query.json()["data"]
    response = await screened.client.post(PATH, json={"were": "price > 0"}, headers=headers)
    assert response.status_code == 400


async def test_an_empty_page_is_free(screened: Service) -> None:
    token = await screened.issue(1)
    query = {"where": "price > 1e9"}
    response = await screened.client.get(PATH, params=query, headers=bearer(token))
    assert response.status_code == 200
    assert response.json()["data"]["tokens"] == []
    assert await screened.left(token) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"where": "price > 1 and rsi < 3"}, "where: at character 15: unknown field 'rsi'; did"),
        ({"where": "price >"}, "where: at character 8: expected a field, a number or `(`"),
        ({"where": "p" * 1_001}, "where: "),
        ({"sort": "prise"}, "sort: unknown field 'prise'; did you mean price?"),
        ({"fields": "price,rsi"}, "fields: unknown field 'rsi'; did you mean"),
        ({"limit": 101}, "limit: expected an integer from 1 to 100; was '101'"),
        ({"cursor": "x"}, "cursor: expected"),
    ],
)
async def test_an_invalid_request_is_refused_before_a_payment_is_requested(
    screened: Service, query: dict[str, Any], message: str
) -> None:
    response = await screened.client.get(PATH, params=query)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "BAD_REQUEST"
    assert response.json()["error"]["message"].startswith(message)


async def test_a_request_without_a_credential_is_402(screened: Service) -> None:
    response = await screened.client.get(PATH, params={"where": "price > 1"})
    assert response.status_code == 402


async def test_data_that_is_too_old_is_not_sold(screened: Service) -> None:
    screened.clock.advance(291_000)
    response = await ask(screened, 1, where="price > 1")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "DATA_STALE")


@pytest.mark.parametrize("path", [PATH, "/v1/tokens/batch", "/v1/prices", "/v1/backtest"])
async def test_fields_in_the_query_of_a_paid_post_are_refused_free_of_charge(
    screened: Service, path: str
) -> None:
    token = await screened.issue(1)

    response = await screened.client.post(path + "?where=price > 9", headers=bearer(token))

    assert response.status_code == 400
    assert response.json()["error"]["message"] == "expected no query fields; was 'where'"
    assert await screened.left(token) == 1
