"""GET /v1/token/{tokenAddress}/traders: the sums that each trader of a token traded."""

import pytest
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from mintscope.api.series import pools
from mintscope.kit.primitives import Signature
from mintscope.market.engine.crowd_book import CrowdBook
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.solana.blocks import USDC
from support.scenes.traded import TradedStore


def swap(index: int, signer: str, micro_usd: int, amount: int, *, is_buy: bool) -> PricedSwap:
    detail = SwapDetail(Signature(f"{index}"), "pumpswap", amount, 9, USDC, micro_usd, 6)
    return PricedSwap(
        TOKEN, index, 2, -1, 0, is_buy=is_buy, volume=micro_usd, price_usd=150.0, price_sol=1.0,
        pool="pool", detail=detail, evidence=Evidence(None, micro_usd, signer),
    )  # fmt: skip


async def test_a_page_has_every_field_of_its_traders(market: SeriesService) -> None:
    token = await market.service.issue(2)
    await market.traded.slot(1, BEGIN_S, swap(0, "ann", 100_000_000, 10**9, is_buy=True))
    sold = swap(0, "ann", 60_000_000, 5 * 10**8, is_buy=False)
    await market.traded.slot(2, BEGIN_S + 1, sold, swap(1, "bob", 40_000_000, 10**8, is_buy=True))

    response = await market.ask("traders", credit_token=token)

    assert response.status_code == 200, response.text
    assert response.headers["x-credits-remaining"] == "1"
    crowd = {
        "buyers": 2, "sellers": 1, "traders": 2, "swaps": 3, "flowUsd": 200.0, "topShare": 0.8,
        "top10Share": 1.0,
    }  # fmt: skip
    spans = crowd | {"since": BEGIN_S, "isCapped": False}
    assert response.json()["data"] == {
        "token": TOKEN,
        "m5": crowd,
        "h1": spans,
        "d1": spans,
        "kept": crowd,
        "traders": [
            {
                "trader": "ann", "boughtUsd": 100.0, "soldUsd": 60.0,
                "bought": {"raw": "1000000000", "decimal": "1"},
                "sold": {"raw": "500000000", "decimal": "0.5"},
                "swaps": 2, "realisedUsd": pytest.approx(10.0),
                "firstAt": BEGIN_S, "lastAt": BEGIN_S + 1,
            },
            {
                "trader": "bob", "boughtUsd": 40.0, "soldUsd": 0.0,
                "bought": {"raw": "100000000", "decimal": "0.1"},
                "sold": {"raw": "0", "decimal": "0"},
                "swaps": 1, "realisedUsd": None,
                "firstAt": BEGIN_S + 1, "lastAt": BEGIN_S + 1,
            },
        ],
        "swapsSince": BEGIN_S,
        "shares": {"roundTrips": 0.0, "sandwiches": 0.0, "eachSlot": None},
        "firstBuyers": [
            {
                "trader": "ann", "at": BEGIN_S, "boughtUsd": 100.0,
                "bought": {"raw": "1000000000", "decimal": "1"},
            },
            {
                "trader": "bob", "at": BEGIN_S + 1, "boughtUsd": 40.0,
                "bought": {"raw": "100000000", "decimal": "0.1"},
            },
        ],
        "launch": {
            "buyers": 2,
            "bought": {"raw": "1100000000", "decimal": "1.1"},
            "held": {"raw": "600000000", "decimal": "0.6"},
        },
    }  # fmt: skip
    fewer = await market.ask("traders", credit_token=token, limit=1)
    assert [each["trader"] for each in fewer.json()["data"]["traders"]] == ["ann"]


async def test_the_sums_of_a_day_include_swaps_older_than_those_that_are_read(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    start = BEGIN_S - BEGIN_S % 300 + 300
    for n in range(26):  # an hour apart
        sold = [swap(i, f"{n:02} {i}", 10**6, 10**6, is_buy=False) for i in range(100)]
        await market.traded.slot(n + 1, start + n * 3_600, *sold)
    await market.traded.finalize(25)

    page = (await market.ask("traders", credit_token=token)).json()["data"]

    now = start + 25 * 3_600
    assert (page["kept"]["swaps"], page["swapsSince"]) == (2_000, now - 19 * 3_600)
    assert (page["h1"]["traders"], page["h1"]["since"]) == (100, now - 3_300)
    assert page["d1"] == {
        "buyers": 0, "sellers": 2_400, "traders": 2_400, "swaps": 2_400, "flowUsd": 2_400.0,
        "topShare": 1 / 2_400, "top10Share": 10 / 2_400, "since": now - 86_100, "isCapped": False,
    }  # fmt: skip


async def test_a_day_of_traders_is_sold_if_no_swap_is_kept(
    market: SeriesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await market.service.issue(1)
    used_up = await market.service.issue(1)
    await market.traded.slot(1, BEGIN_S, swap(0, "ann", 10**6, 1, is_buy=True))
    assert (await market.ask("traders", credit_token=used_up)).status_code == 200
    for number in (2, 3):
        await market.traded.slot(number, BEGIN_S + 1_800 * number)
    await market.traded.finalize(3)
    assert isinstance(market.traded, TradedStore)
    while await market.traded.market.store.trim(10):
        pass

    with monkeypatch.context() as without_a_day:
        without_a_day.setattr(CrowdBook, "apply", None)
        without_a_day.setattr(pools, "trader_page", None)
        assert (await market.ask("traders")).status_code == 402
        refused = await market.ask("traders", credit_token=used_up)
        assert refused.json()["error"]["code"] == "INSUFFICIENT_CREDITS"

    page = (await market.ask("traders", credit_token=token)).json()["data"]
    assert (page["traders"], page["kept"]["swaps"], page["h1"]["swaps"]) == ([], 0, 0)
    assert (page["d1"]["swaps"], page["d1"]["since"]) == (1, BEGIN_S)
    assert await market.service.left(token) == 0


async def test_a_page_without_swaps_is_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.traded.slot(1, BEGIN_S, swap(0, "ann", 1, 1, is_buy=True))
    quiet = await market.ask("traders", credit_token=token, mint=QUIET)
    assert (quiet.status_code, quiet.json()["data"]["traders"]) == (200, [])
    assert quiet.json()["data"]["kept"]["topShare"] is None
    assert quiet.json()["data"]["h1"] is quiet.json()["data"]["d1"] is None
    other = await market.ask("traders", credit_token=token, mint=UNTRACKED)
    assert (other.status_code, other.json()["error"]["code"]) == (404, "TOKEN_NOT_FOUND")
    assert (await market.ask("traders", credit_token=token, limit=101)).status_code == 400
    assert (await market.ask("traders")).status_code == 402
    assert await market.service.left(token) == 1
