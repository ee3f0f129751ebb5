"""POST /v1/credits/purchase?bundle=<size>: demands, payments, top-ups and refusals."""

from decimal import Decimal
from typing import Any

import httpx
import pytest

from mintscope.kit.credentials import CredentialKind, hint, is_well_formed
from mintscope.payments.ports import ChainUnavailable
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    decoded,
    demanded,
    encoded,
    opened,
)
from support.scenes.service import Service, bearer, refusal

PATH = "/v1/credits/purchase"


async def test_an_unpaid_purchase_is_402_with_the_demand(shop: SellingApi, world: World) -> None:
    response = await shop.client.post(PURCHASE)

    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert response.headers["cache-control"] == "no-store"
    demand = demanded(response)
    (offer,) = demand["accepts"]
    assert demand["x402Version"] == 2
    assert demand["resource"]["url"] == f"{ORIGIN}{PURCHASE}"
    assert len(offer["extra"].pop("memo")) == 32
    assert offer == {
        "scheme": "exact",
        "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "asset": world.terms.asset,
        "amount": "25000",
        "payTo": world.terms.pay_to,
        "maxTimeoutSeconds": 30,
        "extra": {
            "feePayer": world.terms.fee_payer,
            "decimals": 6,
            "transactionVersions": [0],
        },
    }
    assert set(demand["extensions"]) == {"payment-identifier", "bazaar"}


async def test_a_402_has_a_recent_blockhash_and_calls_no_node(
    shop: SellingApi, world: World
) -> None:
    """The blockhash is offered for 30 slots after it was read; then it is absent."""
    await world.chains[-1].refresh_offer()
    world.calls.clear()
    for _ in range(3):
        extra = (await shop.demand("POST", PURCHASE))["accepts"][0]["extra"]
        assert extra["recentBlockhash"] == str(world.blockhash())
        assert extra["lastValidBlockHeight"] == str(world.vm.block("confirmed").height + 150)
    world.slots(30)
    assert "recentBlockhash" in (await shop.demand("POST", PURCHASE))["accepts"][0]["extra"]
    world.slots(1)
    extra = (await shop.demand("POST", PURCHASE))["accepts"][0]["extra"]

    assert extra.keys() == {"feePayer", "decimals", "memo", "transactionVersions"}
    assert world.calls == []


async def test_the_offers_in_both_assets_have_the_blockhash(world: World) -> None:
    async with opened(world, also=[world.usdc_terms]) as shop:
        await world.chains[-1].refresh_offer()
        demand = await shop.demand("POST", PURCHASE)

    assert [each["extra"]["recentBlockhash"] for each in demand["accepts"]] == [
        str(world.blockhash())
    ] * 2


async def test_a_402_has_no_blockhash_if_the_node_does_not_answer(
    shop: SellingApi, world: World
) -> None:
    world.go_wrong(calls={"getLatestBlockhash": {"kind": "http", "status": 503}})
    with pytest.raises(ChainUnavailable):
        await world.chains[-1].refresh_offer()
    demand = await shop.demand("POST", PURCHASE)

    assert "recentBlockhash" not in demand["accepts"][0]["extra"]
    assert demand["accepts"][0]["extra"]["transactionVersions"] == [0]


@pytest.mark.parametrize(
    ("size", "price"), [(10, 25_000), (50, 112_500), (100, 200_000), (500, 750_000)]
)
async def test_a_paid_purchase_is_201_with_a_credit_token(
    shop: SellingApi, world: World, size: int, price: int
) -> None:
    path = f"{PATH}?bundle={size}"
    response = await shop.send("POST", path, await shop.paid("POST", path))

    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert set(body["meta"]) == {"timestamp"}
    token = body["data"]["token"]
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, token)
    assert body["data"] == {"token": token, "credits": size, "pricePaid": price}
    receipt = decoded(response, "payment-response")
    assert receipt["success"] is True
    assert receipt["payer"] == str(world.buyer.pubkey())
    assert world.vm.landed(receipt["transaction"]) is not None
    assert world.received() == price
    balance = await shop.client.get("/v1/credits/balance", headers=bearer(token))
    assert balance.json()["data"] == {"balance": size}


async def test_bought_credits_can_be_spent_to_the_last(shop: SellingApi) -> None:
    headers = bearer((await shop.buy()).json()["data"]["token"])
    for left in range(9, -1, -1):
        response = await shop.client.get(f"/v1/token/{TRACKED}", headers=headers)
        assert response.headers["x-credits-remaining"] == str(left)
    response = await shop.client.get(f"/v1/token/{TRACKED}", headers=headers)

    assert refusal(response) == (402, "INSUFFICIENT_CREDITS")
    assert demanded(response)["accepts"][0]["amount"] == "2500"


@pytest.mark.parametrize(
    "query",
    ["", "?bundle=", "?bundle=11", "?bundle=0", "?bundle=-10", "?bundle=10.0", "?bundle=ten",
     "?bundle=010", "?bundle=+10", "?bundle=%2B10", "?bundle=10&bundle=10", "?bundle=10&bundle=50",
     "?Bundle=10", "?bundle=1e1", "?bundle=\u0661\u0660", "?bundle=10%00", "?bundle=%ff",
     "?bundle=10" + "&a=1" * 50],
)  # fmt: skip
async def test_a_bundle_that_is_not_sold_is_400(shop: SellingApi, query: str) -> None:
    response = await shop.client.post(f"{PATH}{query}")

    assert refusal(response) == (400, "INVALID_BUNDLE")
    assert "payment-required" not in response.headers


async def test_a_payment_for_a_bundle_that_is_not_sold_is_not_taken(
    shop: SellingApi, world: World
) -> None:
    payment = await shop.paid("POST", PURCHASE)

    assert refusal(await shop.send("POST", f"{PATH}?bundle=11", payment))[1] == "INVALID_BUNDLE"
    assert world.received() == 0


async def test_a_purchase_with_an_unknown_query_field_is_refused_before_its_payment(
    shop: SellingApi, world: World
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    response = await shop.send("POST", f"{PURCHASE}&foo=1", payment)

    assert refusal(response) == (400, "BAD_REQUEST")
    assert response.json()["error"]["message"] == "expected only the query field bundle; was 'foo'"
    assert world.received() == 0


async def test_a_purchase_without_a_price_is_503_if_its_bundle_is_sold(
    shop: SellingApi, world: World
) -> None:
    """Nothing is settled, not even a payment whose quote has expired."""
    demand = await shop.demand("POST", PURCHASE)
    world.seconds(121)
    late = shop.pay(demand)
    shop.price.usd = None

    unpaid = await shop.client.post(PURCHASE)
    for response in (unpaid, await shop.send("POST", PURCHASE, late, key=KEY)):
        assert refusal(response) == (503, "PRICE_UNAVAILABLE")
        assert response.headers["retry-after"] == "5"
    assert refusal(await shop.client.post(f"{PATH}?bundle=11")) == (400, "INVALID_BUNDLE")
    assert "sendTransaction" not in world.calls
    assert world.received() == 0
    assert world.sql("SELECT count(*) FROM payment") == 0


async def test_a_quoted_amount_is_honoured_for_120_s(shop: SellingApi, world: World) -> None:
    """The quote holds even if the price has changed, or is unknown."""
    dearer, unknown, late = [await shop.demand("POST", PURCHASE) for _ in range(3)]
    world.seconds(60)
    shop.price.usd = Decimal("0.8")
    response = await shop.send("POST", PURCHASE, shop.pay(dearer))
    assert response.json()["data"]["pricePaid"] == 25_000
    shop.price.usd = None
    world.seconds(55)
    assert (await shop.send("POST", PURCHASE, shop.pay(unknown))).status_code == 201
    world.seconds(10)

    response = await shop.send("POST", PURCHASE, shop.pay(late))
    assert refusal(response) == (503, "PRICE_UNAVAILABLE")
    shop.price.usd = Decimal("0.8")
    world.seconds(10)
    response = await shop.send("POST", PURCHASE, shop.pay(late))
    assert refusal(response) == (402, "PAYMENT_FAILED")
    assert decoded(response, "payment-response")["errorReason"] == "quote_expired"
    assert demanded(response)["accepts"][0]["amount"] == "31250"
    assert world.received() == 50_000


async def test_a_known_payment_is_answered_after_its_quote_and_without_a_price(
    shop: SellingApi,
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    first = await shop.send("POST", PURCHASE, payment, key=KEY)
    shop.price.usd = None
    shop.world.clock.advance(3_600_000)
    again = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert again.status_code == first.status_code == 201
    assert again.json()["data"] == first.json()["data"]


async def test_a_credit_token_in_the_request_is_topped_up(shop: SellingApi, world: World) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    path = f"{PATH}?bundle=50"
    payment = await shop.paid("POST", path)
    response = await shop.send("POST", path, payment, key=OTHER_KEY, **bearer(token))

    assert response.status_code == 201
    assert response.json()["data"] == {"token": token, "credits": 50, "pricePaid": 112_500}
    assert world.ledger() == {hint(token): 60}
    again = await shop.send("POST", path, payment, key=OTHER_KEY, **bearer(token))
    assert again.json()["data"] == response.json()["data"]
    assert refusal(await shop.send("POST", path, payment, key=OTHER_KEY)) == (401, "MISSING_TOKEN")
    assert refusal(await shop.send("POST", path, payment, **bearer(token)))[0] == 409
    assert world.ledger() == {hint(token): 60}


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("Bearer svc_credit_12", "INVALID_TOKEN"),
        ("Bearer svc_live_" + "0" * 80, "INVALID_TOKEN"),
        ("Bearer", "MISSING_TOKEN"),
        ("Basic YTpi", "MISSING_TOKEN"),
    ],
)
async def test_a_top_up_of_an_invalid_credit_token_is_401_and_not_paid(
    shop: SellingApi, world: World, authorization: str, code: str
) -> None:
    headers = {"authorization": authorization}
    payment = await shop.paid("POST", PURCHASE)

    assert refusal(await shop.client.post(PURCHASE, headers=headers)) == (401, code)
    assert refusal(await shop.send("POST", PURCHASE, payment, **headers)) == (401, code)
    assert world.received() == 0


async def test_two_equal_purchases_are_two_payments(shop: SellingApi, world: World) -> None:
    first, second = await shop.buy(key=KEY), await shop.buy(key=OTHER_KEY)

    assert first.json()["data"]["token"] != second.json()["data"]["token"]
    assert sorted(world.ledger().values()) == [10, 10]


async def test_a_purchase_is_503_if_payments_are_off(service: Service) -> None:
    assert refusal(await service.client.post(PURCHASE)) == (503, "PRICE_UNAVAILABLE")
    assert refusal(await service.client.post(PATH)) == (400, "INVALID_BUNDLE")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_a_purchase_by_another_method_than_post_is_405(shop: SellingApi, method: str) -> None:
    payment = await shop.paid("POST", PURCHASE)

    assert (await shop.send(method, PURCHASE, payment)).status_code == 405
    assert shop.world.received() == 0


async def test_the_payment_identifier_is_an_idempotency_key(shop: SellingApi) -> None:
    plain = await shop.paid("POST", PURCHASE)
    payment = with_identifier(plain, KEY)
    first = await shop.send("POST", PURCHASE, payment)

    assert first.status_code == 201
    assert (await shop.send("POST", PURCHASE, payment)).json()["data"] == first.json()["data"]
    by_header = await shop.send("POST", PURCHASE, plain, key=KEY)
    assert by_header.json()["data"] == first.json()["data"]
    assert refusal(await shop.send("POST", PURCHASE, plain))[0] == 409


async def test_an_identifier_that_differs_from_the_idempotency_key_is_400(shop: SellingApi) -> None:
    payment = with_identifier(await shop.paid("POST", PURCHASE), KEY)

    assert refusal(await shop.send("POST", PURCHASE, payment, key=OTHER_KEY))[0] == 400
    assert shop.world.received() == 0


async def test_several_idempotency_keys_are_400(shop: SellingApi) -> None:
    keys = [(b"Idempotency-Key", each.encode()) for each in (KEY, OTHER_KEY)]

    assert refusal(await shop.client.post(PURCHASE, headers=keys)) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("key", ["", "short", "a" * 129, "sixteen characters", "caf\u00e9" * 5])
async def test_an_invalid_idempotency_key_is_400(shop: SellingApi, key: str) -> None:
    payment = await shop.paid("POST", PURCHASE)
    headers = [
        (b"PAYMENT-SIGNATURE", payment.encode()),
        (b"Idempotency-Key", key.encode("latin-1")),
    ]

    for sent in (headers, headers[1:]):  # with a payment and without
        response = await shop.client.post(PURCHASE, headers=sent)
        assert refusal(response) == (400, "BAD_REQUEST")
    assert shop.world.received() == 0


def with_identifier(payment: str, identifier: str) -> str:
    content: dict[str, Any] = decoded(httpx.Response(200, headers={"payment": payment}), "payment")
    content["extensions"] = {"payment-identifier": {"info": {"id": identifier}}}
    return encoded(content)
