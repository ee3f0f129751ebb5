"""A single request is not sold if the network fee would exceed its price."""

from decimal import Decimal
from typing import Any

import pytest

from mintscope.payments.protocol.verify import FEE_LAMPORTS_USUAL
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, SellingApi, decoded, demanded
from support.scenes.service import refusal

PATH = f"/v1/token/{TRACKED}"
PRICE_USD = Decimal("0.0025")
CHEAP, DEAR = Decimal(150), Decimal(251)  # 10,001 lamports are 0.0015 and 0.00251 USD


def at(shop: SellingApi, sol_usd: Decimal | None) -> None:
    """Set the price of SOL to *sol_usd*, and let the prices be read again."""
    shop.sol.usd = sol_usd
    shop.world.seconds(61)


@pytest.mark.parametrize("sol_usd", [None, CHEAP, Decimal(249)])
async def test_a_single_request_is_sold_at_common_prices_of_sol(
    shop: SellingApi, sol_usd: Decimal | None
) -> None:
    at(shop, sol_usd)
    response = await shop.send("GET", PATH, await shop.paid("GET", PATH))

    assert response.status_code == 200


async def test_a_402_has_no_demand_if_the_fee_exceeds_the_price(shop: SellingApi) -> None:
    at(shop, DEAR)
    response = await shop.client.get(PATH)

    assert DEAR * FEE_LAMPORTS_USUAL / 10**9 > PRICE_USD
    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert "payment-required" not in response.headers
    assert "POST /v1/credits/purchase" in response.json()["error"]["message"]
    assert response.headers["x-token-status"] == "ready"


async def test_bundles_are_sold_if_the_fee_exceeds_the_price_of_a_request(shop: SellingApi) -> None:
    at(shop, DEAR)

    assert (await shop.buy()).status_code == 201
    token = (await shop.buy(key=KEY + "2")).json()["data"]["token"]
    paid = await shop.client.get(PATH, headers={"Authorization": f"Bearer {token}"})
    assert paid.status_code == 200


async def test_a_payment_below_its_fee_is_refused_before_it_is_sent(
    shop: SellingApi, world: World
) -> None:
    at(shop, CHEAP)
    payment = await shop.paid("GET", PATH)
    at(shop, DEAR)
    await shop.client.get(PATH)  # prices are read again
    response = await shop.send("GET", PATH, payment, key=KEY)

    assert refusal(response) == (402, "PAYMENT_FAILED")
    assert "nothing was charged" in response.json()["error"]["message"]
    assert "POST /v1/credits/purchase" in response.json()["error"]["message"]
    assert decoded(response, "payment-response")["errorReason"] == "network_fee_too_high"
    assert "payment-required" not in response.headers
    assert world.calls == []


async def test_a_priority_fee_above_the_price_of_a_request_is_refused(
    shop: SellingApi, world: World
) -> None:
    """The fee that is allowed for a bundle may be too much for a request."""
    at(shop, CHEAP)  # 16,666 lamports are 0.0025 USD
    # for 20,000 units: 7,000 lamports
    greedy: dict[str, Any] = {"price": b"\x03" + (350_000).to_bytes(8, "little")}
    refused = await shop.send("GET", PATH, await shop.paid("GET", PATH, **greedy))
    bought = await shop.buy(**greedy)

    assert refusal(refused) == (402, "PAYMENT_FAILED")
    assert decoded(refused, "payment-response")["errorReason"] == "network_fee_too_high"
    assert demanded(refused)["accepts"]  # a payment with a smaller fee is accepted
    assert bought.status_code == 201
    assert world.fees() == 17_000


async def test_a_paid_answer_is_sent_again_after_fees_have_risen(
    shop: SellingApi, world: World
) -> None:
    payment = await shop.paid("GET", PATH)
    first = await shop.send("GET", PATH, payment, key=KEY)
    at(shop, DEAR)
    await shop.client.get(PATH)
    again = await shop.send("GET", PATH, payment, key=KEY)

    assert again.status_code == 200
    assert again.json()["data"] == first.json()["data"]
    assert world.calls.count("sendTransaction") == 1
