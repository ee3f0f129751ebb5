"""GET /v1/token/{tokenAddress}/pools"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.kit.primitives import Mint, Signature, UnixS
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.market.standing import Offer, stand
from mintscope.market.standings import pack
from mintscope.solana.blocks import USDC
from support.scenes.series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
    series_service,
)


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    """Return a service that lists TOKEN, which has a pool, and QUIET, which has none."""
    async with series_service(tmp_path) as market:
        offer = Offer("pool", "signer", 150.0, 1.0, 10**7, 10_000 * 10**6, UnixS(BEGIN_S))
        standing, _ = stand(None, offer)
        assert standing is not None
        lists = market.service.market
        lists.standings[TOKEN] = pack(standing)
        await lists.append(1, BEGIN_S)
        for mint in (TOKEN, QUIET):
            await lists.track(mint)
        await lists.append(2, BEGIN_S + 1)
        await market.service.lister.refresh()
        yield market


def swap(index: int, mint: Mint = TOKEN) -> PricedSwap:
    detail = SwapDetail(Signature(f"{index}"), "pumpswap", 10**9, 9, USDC, 225_000_000, 6)
    return PricedSwap(
        mint, index, 2, -1, 0, is_buy=True, volume=225_000_000, price_usd=150.0, price_sol=1.0,
        pool="pool", detail=detail, evidence=Evidence(10**10, 225_000_000, f"signer{index}"),
    )  # fmt: skip


async def test_a_pool_with_every_field(market: SeriesService) -> None:
    token = await market.service.issue(2)
    await market.traded.slot(1, BEGIN_S, swap(0), swap(1))
    await market.traded.slot(3, BEGIN_S + 2, swap(2))  # behind the slot of the list

    response = await market.ask("pools", credit_token=token)

    assert response.status_code == 200, response.text
    assert response.headers["x-credits-remaining"] == "1"
    flow = {"volumeUsd": 450.0, "buyVolumeUsd": 450.0, "swaps": 2, "traders": 2}
    assert response.json()["data"] == {
        "token": TOKEN,
        "pools": [
            {
                "pool": "pool", "venue": "pumpswap", "quote": USDC,
                "price": {"usd": 150.0, "sol": 1.0}, "lastSwapAt": BEGIN_S,
                "weight": 1.0, "agrees": True, "quoteUsd": 10_000.0, "tokenUsd": 10_000.0,
                "m5": flow, "kept": flow,
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


async def test_what_cannot_be_told_is_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.traded.slot(1, BEGIN_S, swap(0))
    quiet = await market.ask("pools", credit_token=token, mint=QUIET)
    assert (quiet.status_code, quiet.json()["error"]["code"]) == (404, "INSUFFICIENT_DATA")
    other = await market.ask("pools", credit_token=token, mint=UNTRACKED)
    assert (other.status_code, other.json()["error"]["code"]) == (404, "TOKEN_NOT_FOUND")
    assert (await market.ask("pools", credit_token=token, limit=3)).status_code == 400
    assert (await market.ask("pools")).status_code == 402
    assert await market.service.left(token) == 1
