"""GET /v1/token/{tokenAddress}/swaps: pages of swaps, excluded volumes, cursors and errors."""

from typing import Any

import pytest
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from mintscope.api.series.swaps import decimal
from mintscope.kit.primitives import Signature
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.solana.blocks import USDC
from support.scenes.service import credit_token


def swap(index: int, **changes: Any) -> PricedSwap:
    detail = SwapDetail(
        Signature(f"signed-{index}"), "pumpswap", 1_500_000_000, 9, USDC, 225_000_000, 6
    )
    fields: dict[str, Any] = {
        "mint": TOKEN, "transaction_index": index, "outer": 2, "inner": -1, "leg": 0,
        "is_buy": True, "volume": 225_000_000, "price_usd": 150.0, "price_sol": 1.0,
        "pool": "pool", "detail": detail,
    }  # fmt: skip
    return PricedSwap(**(fields | changes))


async def test_a_page_is_newest_first_with_every_field_of_its_swaps(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    sold = SwapDetail(Signature("signed-1"), "unknown", 5, None, TOKEN, 1)
    await market.traded.slot(1, BEGIN_S, swap(0))
    await market.traded.finalize(1)
    offered = swap(1, is_buy=False, price_usd=None, price_sol=None, offered=(149.0, 0.9))
    dust = swap(2, is_buy=False, price_usd=None, price_sol=None, pool=None, detail=sold)
    await market.traded.slot(2, BEGIN_S + 1, offered, dust)

    response = await market.ask("swaps", credit_token=token)

    assert response.status_code == 200
    assert response.headers["x-credits-remaining"] == "0"
    assert response.headers["x-data-slot"] == "2"
    amounts = {
        "tokenAmount": {"raw": "1500000000", "decimal": "1.5"},
        "quote": USDC,
        "quoteAmount": {"raw": "225000000", "decimal": "225"},
    }
    assert response.json()["data"] == {
        "token": TOKEN,
        "swaps": [
            {
                "slot": 2, "t": BEGIN_S + 1, "signature": "signed-1", "program": "unknown",
                "pool": None, "side": "sell",
                "tokenAmount": {"raw": "5", "decimal": None},
                "quote": TOKEN,
                "quoteAmount": {"raw": "1", "decimal": "0.000000001"},
                "price": None, "setsPrice": False, "isFinal": False,
                "recognisedBy": "transfers", "reason": "noPrice",
                "excludedVolume": None, "excludedReason": None,
            },
            {
                "slot": 2, "t": BEGIN_S + 1, "signature": "signed-1", "program": "pumpswap",
                "pool": "pool", "side": "sell", **amounts,
                "price": {"usd": 149.0, "sol": 0.9}, "setsPrice": False, "isFinal": False,
                "recognisedBy": "table", "reason": "otherPool",
                "excludedVolume": None, "excludedReason": None,
            },
            {
                "slot": 1, "t": BEGIN_S, "signature": "signed-0", "program": "pumpswap",
                "pool": "pool", "side": "buy", **amounts,
                "price": {"usd": 150.0, "sol": 1.0}, "setsPrice": True, "isFinal": True,
                "recognisedBy": "table", "reason": None,
                "excludedVolume": None, "excludedReason": None,
            },
        ],
        "nextCursor": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "excluded"),
    [
        (Evidence(None, 2_500_000, "signer", trip=2), (2.5, "roundTrip")),
        (Evidence(None, 2_500_000, "signer"), (2.5, "roundTrip")),
        (Evidence(None, 2_500_000, "signer", is_direct=False), (2.5, "quote")),
        (Evidence(None, 2_500_000, "signer", uncounted=1), (2.5, "roundTrip")),
        (Evidence(None, 2_500_000, "signer", is_direct=False, uncounted=2), (2.5, "quote")),
        (Evidence(None, 0, "signer"), (None, None)),
        (None, (None, None)),
    ],
)
async def test_an_excluded_volume_is_shown_with_its_reason(
    market: SeriesService,
    evidence: Evidence | None,
    excluded: tuple[float | None, str | None],
) -> None:
    """In rows from older versions, `uncounted` of the evidence is None."""
    token = await market.service.issue(1)
    counted = swap(1, evidence=Evidence(None, 225_000_000, "signer"))
    await market.traded.slot(1, BEGIN_S, swap(0, volume=0, evidence=evidence), counted)
    response = await market.ask("swaps", credit_token=token)
    kept, trip = response.json()["data"]["swaps"]
    assert (kept["excludedVolume"], kept["excludedReason"]) == (None, None)
    assert (trip["excludedVolume"], trip["excludedReason"]) == excluded


@pytest.mark.parametrize(
    ("trip", "offered", "reason"),
    [
        (0, (149.0, 0.9), "otherPool"),
        (1, (149.0, 0.9), "roundTrip"),
        (2, (149.0, 0.9), "roundTrip"),
        (0, None, "noPrice"),
    ],
)
async def test_a_swap_at_a_rejected_price_is_excluded_from_volume_for_that_reason(
    market: SeriesService, trip: int, offered: tuple[float, float] | None, reason: str
) -> None:
    token = await market.service.issue(1)
    evidence = Evidence(None, 2_500_000, "signer", trip=trip, uncounted=0)
    rejected = swap(0, volume=0, price_usd=None, price_sol=None, offered=offered, evidence=evidence)
    counted = swap(1, evidence=Evidence(None, 225_000_000, "signer", uncounted=0))
    await market.traded.slot(1, BEGIN_S, rejected, counted)
    response = await market.ask("swaps", credit_token=token)
    kept, excluded = response.json()["data"]["swaps"]
    assert (kept["excludedVolume"], kept["reason"]) == (None, None)
    assert (excluded["excludedVolume"], excluded["excludedReason"]) == (2.5, reason)
    assert excluded["reason"] == reason


async def test_cursors_are_stable_while_swaps_come_and_slots_are_retracted(
    market: SeriesService,
) -> None:
    token = await market.service.issue(3)
    for number in range(1, 5):
        await market.traded.slot(number, BEGIN_S, *(swap(n) for n in range(2)))

    async def page(**query: Any) -> dict[str, Any]:
        response = await market.ask("swaps", credit_token=token, limit=3, **query)
        return dict(response.json()["data"])

    first = await page()
    await market.traded.retract(4)
    await market.traded.slot(4, BEGIN_S, *(swap(n) for n in range(4)))
    second = await page(cursor=first["nextCursor"])
    third = await page(cursor=second["nextCursor"])

    slots = [[line["slot"] for line in each["swaps"]] for each in (first, second, third)]
    assert slots == [[4, 4, 3], [3, 2, 2], [1, 1]]
    assert third["nextCursor"] is None
    assert await market.service.left(token) == 0


async def test_errors_equal_those_of_the_report_and_an_empty_page_is_free(
    market: SeriesService,
) -> None:
    token = await market.service.issue(1)
    await market.traded.slot(1, BEGIN_S, swap(0))

    async def refused(**asked: Any) -> tuple[int, str]:
        response = await market.ask("swaps", **asked)
        return response.status_code, response.json()["error"]["code"]

    assert await refused(mint="abc") == (400, "INVALID_TOKEN_ADDRESS")
    assert await refused(limit=501) == (400, "BAD_REQUEST")
    assert await refused(cursor="x") == (400, "BAD_REQUEST")
    assert await refused() == (402, "PAYMENT_REQUIRED")
    assert await refused(credit_token=credit_token(99)) == (401, "INVALID_TOKEN")
    assert await refused(credit_token=token, mint=UNTRACKED) == (404, "TOKEN_NOT_FOUND")
    quiet = await market.ask("swaps", credit_token=token, mint=QUIET)
    assert (quiet.status_code, quiet.json()["data"]["swaps"]) == (200, [])
    market.service.clock.step(301_000)
    assert await refused(credit_token=token) == (503, "DATA_STALE")
    assert await market.service.left(token) == 1


@pytest.mark.parametrize(
    ("raw", "decimals", "expected"),
    [
        (0, 6, "0"), (1, 6, "0.000001"), (10, 0, "10"), (1_000_000, 6, "1"),
        (123_456_789, 6, "123.456789"), (2**64 - 1, 9, "18446744073.709551615"), (5, None, None),
    ],
)  # fmt: skip
def test_amounts_are_exact(raw: int, decimals: int | None, expected: str | None) -> None:
    assert decimal(raw, decimals) == expected
