"""GET /v1/token/{tokenAddress}/pools: the pools of a token, and the candles of one pool."""

from typing import Any

import pytest
from msgspec.structs import replace
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from mintscope.kit.primitives import Mint, Signature, UnixS
from mintscope.market.engine.pool_book import POOL_CANDLES_S
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.market.series.pools import KeptPools
from mintscope.market.standing import Offer, Standing, stand
from mintscope.solana.blocks import USDC


def swap(index: int, mint: Mint = TOKEN) -> PricedSwap:
    detail = SwapDetail(Signature(f"{index}"), "pumpswap", 10**9, 9, USDC, 225_000_000, 6)
    evidence = Evidence(
        10**10, 225_000_000, f"signer{index}", progress=420_000, fee_bps=115 + index
    )
    return PricedSwap(
        mint, index, 2, -1, 0, is_buy=True, volume=225_000_000, price_usd=150.0, price_sol=1.0,
        pool="pool", detail=detail, evidence=evidence,
    )  # fmt: skip


def standing(pool: str, at: int) -> Standing:
    offer = Offer(pool, "signer", 150.0, 1.0, 10**7, 10_000 * 10**6, UnixS(at))
    found, _ = stand(None, offer)
    assert found is not None
    return found


async def test_a_pool_has_every_field(market: SeriesService) -> None:
    token = await market.service.issue(2)
    moved = PricedSwap(
        TOKEN, 3, 0, -1, 0, is_buy=True, volume=0, price_usd=None, price_sol=None,
        pool="pool", evidence=Evidence(None, 0, "", succeeds="curve"),
    )  # fmt: skip
    await market.traded.slot(
        1, BEGIN_S, swap(0), swap(1), moved, standings={TOKEN: standing("pool", BEGIN_S)}
    )
    await market.traded.slot(2, BEGIN_S + 1)
    await market.traded.finalize(2)
    await market.traded.slot(3, BEGIN_S + 2, swap(2))  # not folded

    response = await market.ask("pools", credit_token=token)

    assert response.status_code == 200, response.text
    assert response.headers["x-credits-remaining"] == "1"
    flow = {"volumeUsd": 450.0, "buyVolumeUsd": 450.0, "swaps": 2, "traders": 2}
    spans = {name: flow[name] for name in ("volumeUsd", "buyVolumeUsd", "swaps")}
    spans["since"] = BEGIN_S
    assert response.json()["data"] == {
        "token": TOKEN,
        "pools": [
            {
                "pool": "pool", "venue": "pumpswap", "quote": USDC,
                "price": {"usd": 150.0, "sol": 1.0}, "lastSwapAt": BEGIN_S,
                "weight": 1.0, "agrees": True, "quoteUsd": 10_000.0, "tokenUsd": 10_000.0,
                "m5": flow, "h1": spans, "d1": spans, "kept": flow,
                "since": BEGIN_S, "fee": 0.0116, "progress": 0.42,
                "migration": {"from": "curve", "to": "pool", "slot": 1},
                "moves": [
                    {"usd": 100, "buy": pytest.approx(0.0201), "sell": pytest.approx(1 - 1.01**-2)},
                    {"usd": 1_000, "buy": pytest.approx(0.21), "sell": pytest.approx(1 - 1.1**-2)},
                    {"usd": 10_000, "buy": pytest.approx(3.0), "sell": pytest.approx(0.75)},
                ],
                "isEstimate": False,
            }
        ],
        "slot": 2,
        "asOf": BEGIN_S + 1,
        "swapsSince": BEGIN_S,
    }  # fmt: skip


async def test_candles_of_one_pool_have_only_its_swaps(market: SeriesService) -> None:
    token = await market.service.issue(3)
    start = BEGIN_S - BEGIN_S % 3_600 + 3_600
    other = replace(swap(1), pool="other", offered=(200.0, 2.0), price_usd=None, volume=0)
    await market.traded.slot(1, start, swap(0), other)
    await market.traded.slot(2, start + 300, replace(other, transaction_index=0), swap(1))
    await market.traded.slot(3, start + 600, swap(2))
    await market.traded.finalize(2)

    async def candles(pool: str, **query: Any) -> Any:
        return await market.ask("candles", credit_token=token, pool=pool, **query)

    m5 = (await candles("other", tf="m5")).json()["data"]
    assert m5["pool"] == "other"
    flat = {"o": 200.0, "h": 200.0, "l": 200.0, "c": 200.0, "sol": None, "imported": False}
    none = {"volume": 0.0, "buyVolume": 0.0, "sellVolume": 0.0}
    assert m5["candles"] == [
        {"t": start, **flat, **none, "swaps": 1, "isOpen": False},
        {"t": start + 300, **flat, **none, "swaps": 1, "isOpen": True},
    ]
    (hour,) = (await candles("pool", tf="h1")).json()["data"]["candles"]
    assert (hour["t"], hour["c"], hour["volume"], hour["swaps"]) == (start, 150.0, 450.0, 2)
    assert await market.service.left(token) == 1
    empty = await candles("unknown", tf="m5")
    assert (empty.status_code, empty.json()["data"]["candles"]) == (200, [])
    assert (await candles("pool", tf="m1")).status_code == 400
    assert (await candles("pool", tf="m5", in_="sol")).status_code == 400
    assert await market.service.left(token) == 1


async def test_a_refused_request_for_pools_is_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.traded.slot(1, BEGIN_S, swap(0))
    quiet = await market.ask("pools", credit_token=token, mint=QUIET)
    assert (quiet.status_code, quiet.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    other = await market.ask("pools", credit_token=token, mint=UNTRACKED)
    assert (other.status_code, other.json()["error"]["code"]) == (404, "TOKEN_NOT_FOUND")
    assert (await market.ask("pools", credit_token=token, limit=3)).status_code == 400
    assert (await market.ask("pools")).status_code == 402
    assert await market.service.left(token) == 1


async def test_a_request_without_credits_reads_no_candles_and_no_swaps(
    market: SeriesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await market.traded.slot(1, BEGIN_S, swap(0), standings={TOKEN: standing("pool", BEGIN_S)})
    await market.traded.finalize(1)
    used_up = await market.service.issue(1)
    assert (await market.ask("pools", credit_token=used_up)).status_code == 200
    await market.traded.slot(2, BEGIN_S + 1)
    series = market.traded.series
    spans = []
    read = series.pools

    async def pools(mint: Mint, since_s: int = POOL_CANDLES_S) -> KeptPools | None:
        spans.append(since_s)
        return await read(mint, since_s)

    monkeypatch.setattr(series, "pools", pools)
    monkeypatch.setattr(series, "swaps", None)
    assert (await market.ask("pools")).status_code == 402
    refused = await market.ask("pools", credit_token=used_up)
    assert refused.json()["error"]["code"] == "INSUFFICIENT_CREDITS"
    assert spans == [0, 0]
