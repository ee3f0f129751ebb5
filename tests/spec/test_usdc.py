"""USDC beside the payment token, if the operator allows it: offers, payments, refusals."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any, Final

import pytest

from mintscope.app.payments import worth_by_prices_of
from mintscope.kit.primitives import UnixMs
from mintscope.payments.merchant import AcceptedToken
from mintscope.payments.price_cache import PriceCache
from mintscope.payments.pricing import Quote
from mintscope.solana.blocks import USDC
from support.fakes.reports import TRACKED
from support.scenes.mcp_service import mcp_beside, mcp_client, paying
from support.scenes.payments.payment_build import as_base64
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    PURCHASE,
    SellingApi,
    decoded,
    opened,
    signature_header,
)
from support.scenes.service import bearer, refusal
from support.scenes.whole_report import whole_report

REPORT: Final = f"/v1/token/{TRACKED}"
SOLD: Final = [("GET", REPORT, 2_500, 200), ("POST", PURCHASE, 25_000, 201)]
BUNDLES: Final = "/v1/credits/bundles"
Demand = dict[str, Any]


@pytest.fixture
async def shop(world: World) -> AsyncIterator[SellingApi]:
    """A service that accepts USDC and a token of half a dollar; its buyer has both tokens."""
    world.fund("buyer", usdc_atoms=10**9)
    async with opened(world, also=[world.usdc_terms]) as shop:
        shop.price.usd = Decimal("0.5")
        yield shop


def only(demand: Demand, asset: str) -> Demand:
    """Return *demand* with only those of its offers that are in *asset*."""
    return demand | {"accepts": [each for each in demand["accepts"] if each["asset"] == asset]}


def last_asset(world: World) -> str:
    return str(world.sql("SELECT asset FROM payment ORDER BY id DESC LIMIT 1"))


@pytest.mark.parametrize(("method", "path", "usdc_atoms", "_status"), SOLD)
async def test_a_402_offers_the_payment_token_first_and_then_usdc(
    shop: SellingApi, world: World, method: str, path: str, usdc_atoms: int, _status: int
) -> None:
    response = await shop.client.request(method, path)

    own, usdc = decoded(response, "payment-required")["accepts"]
    assert (own["asset"], own["amount"]) == (world.terms.asset, str(2 * usdc_atoms))
    assert usdc == {
        "scheme": "exact",
        "network": own["network"],
        "asset": USDC,
        "amount": str(usdc_atoms),
        "payTo": own["payTo"],
        "maxTimeoutSeconds": 30,
        "extra": {
            "feePayer": own["extra"]["feePayer"],
            "decimals": 6,
            "memo": usdc["extra"]["memo"],
            "transactionVersions": [0],
        },
    }
    reported = response.json()["error"]["details"]["accepts"]
    assert [(each["symbol"], each["amount"]) for each in reported] == [
        ("SCOPE", own["amount"]),
        ("USDC", usdc["amount"]),
    ]


@pytest.mark.parametrize(("method", "path", "usdc_atoms", "status"), SOLD)
async def test_each_asset_is_accepted_and_arrives_in_its_own_treasury(  # noqa: PLR0913  fixtures
    shop: SellingApi, world: World, *, method: str, path: str, usdc_atoms: int, status: int
) -> None:
    for terms, atoms in ((world.terms, 2 * usdc_atoms), (world.usdc_terms, usdc_atoms)):
        demand = only(await shop.demand(method, path), terms.asset)
        paid = await shop.send(method, path, shop.pay(demand))

        assert paid.status_code == status, paid.text
        assert world.received(terms) == atoms
        assert last_asset(world) == terms.asset
        if status == 201:
            assert paid.json()["data"]["pricePaid"] == atoms
            used = await shop.client.get(REPORT, headers=bearer(paid.json()["data"]["token"]))
            assert used.headers["x-credits-remaining"] == "9"
    world.seconds(30)
    assert await world.audit(full=True, is_usdc_taken=True) == []


async def test_the_worth_of_a_payment_is_that_at_the_time_of_payment(
    shop: SellingApi, world: World
) -> None:
    """The price of the payment token falls between the quote and the payment; USDC's does not."""
    asked = await shop.demand("POST", PURCHASE)
    own = only(asked, world.terms.asset)
    usdc = only(asked, USDC)
    world.seconds(61)
    shop.price.usd = Decimal("0.4999")
    for demand in (own, usdc):
        paid = await shop.send("POST", PURCHASE, shop.pay(demand))
        assert paid.status_code == 201, paid.text
    worth = [world.sql(f"SELECT {each}(worth) FROM payment") for each in ("min", "max")]
    assert worth == [24_995, 25_000]


class SlowPrice:
    """A price source that returns one dollar as soon as *is_reported* is set."""

    def __init__(self) -> None:
        self.is_reported = asyncio.Event()

    async def read(self, now: UnixMs) -> Quote:
        await self.is_reported.wait()
        return Quote(usd=Decimal(1), observed_at=now)


async def test_a_payment_does_not_cancel_the_reading_of_a_slow_price(world: World) -> None:
    price = SlowPrice()
    cache = PriceCache(price, decimals=world.terms.decimals, clock=world.clock)
    token = AcceptedToken(terms=world.terms, price_cache=cache, name="", symbol="")
    worth = worth_by_prices_of([token], patience_s=0)
    assert await worth(world.terms.asset, 10**world.terms.decimals) is None
    price.is_reported.set()
    # Let the background task finish the reading.
    for _ in range(10):
        await asyncio.sleep(0)
    assert cache.latest() is not None
    assert await worth(world.terms.asset, 10**world.terms.decimals) == 10**6


def another_offer(demand: Demand, shop: SellingApi) -> str:
    """Return a header that names the payment token, with a transaction that pays USDC."""
    own = only(demand, shop.world.terms.asset)
    return signature_header(own, shop.transaction(only(demand, USDC)))


def its_own_as_usdc(demand: Demand, shop: SellingApi) -> str:
    own = only(demand, shop.world.terms.asset)
    return signature_header(only(demand, USDC), shop.transaction(own))


def a_quote_of_the_other(demand: Demand, shop: SellingApi) -> str:
    memo = only(demand, shop.world.terms.asset)["accepts"][0]["extra"]["memo"].encode()
    return shop.pay(only(demand, USDC), memo=memo)


def the_amount_of_the_other(demand: Demand, shop: SellingApi) -> str:
    """Return a payment in USDC of the amount asked in the other token, which is twice as high."""
    own = only(demand, shop.world.terms.asset)
    changed = [only(demand, USDC)["accepts"][0] | {"amount": own["accepts"][0]["amount"]}]
    return shop.pay(demand | {"accepts": changed})


def too_little(demand: Demand, shop: SellingApi) -> str:
    usdc = only(demand, USDC)
    return shop.pay(usdc, amount=int(usdc["accepts"][0]["amount"]) - 1)


def a_third(demand: Demand, shop: SellingApi) -> str:
    usdc = only(demand, USDC)
    return signature_header(usdc, shop.transaction(usdc), asset=TRACKED)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        (another_offer, "mint_mismatch"),
        (its_own_as_usdc, "mint_mismatch"),
        (a_quote_of_the_other, "quote_invalid"),
        (the_amount_of_the_other, "quote_invalid"),
        (too_little, "amount_mismatch"),
        (a_third, "no_matching_requirement"),
    ],
)
@pytest.mark.parametrize("sold", SOLD)
async def test_a_payment_that_equals_no_offer_is_refused_and_not_sent(
    shop: SellingApi,
    world: World,
    sold: tuple[str, str, int, int],
    attack: Callable[[Demand, SellingApi], str],
    reason: str,
) -> None:
    method, path, *_ = sold
    payment = attack(await shop.demand(method, path), shop)
    refused = await shop.send(method, path, payment)

    assert refusal(refused) == (402, "PAYMENT_FAILED")
    assert decoded(refused, "payment-response")["errorReason"] == reason
    assert len(decoded(refused, "payment-required")["accepts"]) == 2
    assert "sendTransaction" not in world.calls
    assert world.sql("SELECT count(*) FROM payment") == 0


async def test_a_402_of_a_shop_without_usdc_has_one_offer_and_no_mention_of_usdc(
    world: World,
) -> None:
    """The header equals, byte for byte, that of versions that could not accept USDC."""
    async with opened(world) as shop:
        for method, path, atoms, _ in SOLD:
            response = await shop.client.request(method, path)
            reported, error = decoded(response, "payment-required"), response.json()["error"]
            (offer,) = reported["accepts"]
            expected = {
                "x402Version": 2,
                "error": "Payment required",
                "resource": reported["resource"] | {"url": f"{ORIGIN}{path}"},
                "accepts": [
                    {
                        "scheme": "exact",
                        "network": world.terms.network,
                        "asset": world.terms.asset,
                        "amount": str(atoms),
                        "payTo": world.terms.pay_to,
                        "maxTimeoutSeconds": 30,
                        "extra": {
                            "feePayer": world.terms.fee_payer,
                            "decimals": 6,
                            "memo": offer["extra"]["memo"],
                            "transactionVersions": [0],
                        },
                    }
                ],
                "extensions": {
                    name: reported["extensions"][name]
                    for name in ("payment-identifier", "bazaar", "sign-in-with-x")
                    if name != "sign-in-with-x" or method == "GET"
                },
            }
            text = json.dumps(expected, separators=(",", ":"), ensure_ascii=False)
            assert b64decode(response.headers["payment-required"]).decode() == text
            assert "USDC" not in text + response.text
            assert USDC not in text + response.text
            named = {"priceUsd", "accepts", "read", "buy"}
            assert {name: error["details"][name] for name in named} == {
                "priceUsd": f"{Decimal(atoms).scaleb(-6).normalize():f}",
                "accepts": [
                    {
                        "asset": world.terms.asset,
                        "symbol": "SCOPE",
                        "decimals": 6,
                        "amount": str(atoms),
                        "network": world.terms.network,
                        "payTo": world.terms.pay_to,
                    }
                ],
                "read": f"{ORIGIN}/llms.txt",
                "buy": f"{ORIGIN}{PURCHASE}",
            }


async def test_a_payment_in_usdc_is_refused_if_usdc_is_not_accepted(
    shop: SellingApi, world: World
) -> None:
    payment = shop.pay(only(await shop.demand("GET", REPORT), USDC))
    async with opened(world) as other:
        refused = await other.send("GET", REPORT, payment)

        assert decoded(refused, "payment-response")["errorReason"] == "no_matching_requirement"
        (offer,) = decoded(refused, "payment-required")["accepts"]
        assert offer["asset"] == world.terms.asset
        assert "also" not in (await other.client.get(BUNDLES)).json()["data"]


async def test_only_the_other_asset_is_offered_if_one_has_no_price(
    shop: SellingApi, world: World
) -> None:
    shop.price.usd = None
    (offer,) = (await shop.demand("GET", REPORT))["accepts"]
    assert offer["asset"] == USDC
    listed = (await shop.client.get(BUNDLES)).json()["data"]
    assert listed["currency"]["asset"] == USDC
    assert "also" not in listed
    paid = await shop.send("GET", REPORT, shop.pay({"accepts": [offer], "resource": {"url": ""}}))
    assert paid.status_code == 200, paid.text

    shop.usdc_price.usd = None
    world.clock.advance(61_000)
    assert refusal(await shop.client.post(PURCHASE)) == (503, "PRICE_UNAVAILABLE")
    assert refusal(await shop.client.get(BUNDLES)) == (503, "PRICE_UNAVAILABLE")


async def test_the_list_has_both_prices_and_agrees_with_the_demand(
    shop: SellingApi, world: World
) -> None:
    data = (await shop.client.get(BUNDLES)).json()["data"]

    assert data["currency"]["asset"] == world.terms.asset
    (also,) = data["also"]
    assert also["currency"] == {
        "asset": USDC,
        "name": "USD Coin",
        "network": world.terms.network,
        "decimals": 6,
        "symbol": "USDC",
    }
    for own, usdc in zip(data["bundles"], also["bundles"], strict=True):
        assert own["credits"] == usdc["credits"]
        assert own["priceUsd"] == usdc["priceUsd"]
        assert Decimal(usdc["price"]).scaleb(-6) == Decimal(usdc["priceUsd"])
        demand = await shop.demand("POST", f"/v1/credits/purchase?bundle={own['credits']}")
        amounts = [int(each["amount"]) for each in demand["accepts"]]
        assert amounts == [own["price"], usdc["price"]]


async def test_funds_in_one_asset_do_not_cover_a_payment_in_the_other(
    shop: SellingApi, world: World
) -> None:
    poor = world.fund("poor", atoms=0, usdc_atoms=25_000)
    demand = await shop.demand("POST", PURCHASE)
    refused = await shop.send(
        "POST", PURCHASE, shop.pay(only(demand, world.terms.asset), payer=poor)
    )
    assert decoded(refused, "payment-response")["errorReason"] == "insufficient_funds"

    paid = await shop.send("POST", PURCHASE, shop.pay(only(demand, USDC), payer=poor))
    assert paid.status_code == 201, paid.text


async def test_a_payment_in_usdc_is_answered_after_usdc_is_no_longer_accepted(
    shop: SellingApi, world: World
) -> None:
    asked = await shop.client.post(PURCHASE, headers={"Idempotency-Key": KEY})
    payment = shop.pay(only(decoded(asked, "payment-required"), USDC))
    first = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert first.status_code == 201
    world.seconds(30)
    async with opened(world) as other:
        await world.reconciler().once()
        again = await other.send("POST", PURCHASE, payment, key=KEY)

        assert again.json()["data"] == first.json()["data"]
    assert world.sql("SELECT state, final FROM payment") == ("issued", 1)


async def test_an_mcp_tool_can_be_paid_for_in_usdc(shop: SellingApi, world: World) -> None:
    shop.service.reports.body = whole_report(has_m1=False)
    async with mcp_beside(shop.service.app, shop.service.clock) as app, mcp_client(app) as client:
        unpaid = await client.call_tool("get_token", {"mint": TRACKED})
        assert len(unpaid.structured_content["accepts"]) == 2
        demand = only(unpaid.structured_content, USDC)
        payment = {
            "x402Version": 2,
            "payload": {"transaction": as_base64(shop.transaction(demand))},
            "accepted": demand["accepts"][0],
            "resource": demand["resource"],
        }
        paid = await client.call_tool("get_token", {"mint": TRACKED}, meta=paying(payment))

    assert not paid.is_error, paid
    assert paid.structured_content["meta"]["usdPaid"] == 0.0025
    assert world.received(world.usdc_terms) == 2_500
