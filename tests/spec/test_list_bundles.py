"""GET /v1/credits/bundles: the bundles that are sold, and their prices."""

from decimal import Decimal

import pytest

from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi
from support.scenes.service import Service

PATH = "/v1/credits/bundles"


async def test_the_list_has_four_bundles_and_their_currency(shop: SellingApi, world: World) -> None:
    """The payment token has 6 decimals and costs 1 USD: 2,500 atoms a request, less discount."""
    response = await shop.client.get(PATH)

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert set(body) == {"success", "data", "meta"}
    assert body["success"] is True
    assert set(body["meta"]) == {"timestamp"}
    assert body["data"] == {
        "bundles": [
            {
                "credits": 10, "price": 25_000, "pricePerCredit": 2_500,
                "discount": "0%", "priceUsd": "0.025",
            },
            {
                "credits": 50, "price": 112_500, "pricePerCredit": 2_250,
                "discount": "10%", "priceUsd": "0.1125",
            },
            {
                "credits": 100, "price": 200_000, "pricePerCredit": 2_000,
                "discount": "20%", "priceUsd": "0.2",
            },
            {
                "credits": 500, "price": 750_000, "pricePerCredit": 1_500,
                "discount": "40%", "priceUsd": "0.75",
            },
        ],
        "currency": {
            "asset": world.terms.asset,
            "name": "Scope",
            "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
            "decimals": 6,
            "symbol": "SCOPE",
        },
    }  # fmt: skip


@pytest.mark.parametrize("usd", ["0.0000007", "0.37", "1", "3", "123456.789"])
async def test_the_list_and_the_demand_agree_at_any_price(shop: SellingApi, usd: str) -> None:
    shop.price.usd = Decimal(usd)
    listed = (await shop.client.get(PATH)).json()["data"]["bundles"]

    for bundle in listed:
        assert bundle["price"] == bundle["pricePerCredit"] * bundle["credits"]
        assert Decimal(bundle["pricePerCredit"]) * Decimal(usd) / 10**6 >= Decimal(
            bundle["priceUsd"]
        ) / Decimal(bundle["credits"])
        demand = await shop.demand("POST", f"/v1/credits/purchase?bundle={bundle['credits']}")
        assert demand["accepts"][0]["amount"] == str(bundle["price"])


async def test_a_price_holds_for_a_minute(shop: SellingApi) -> None:
    first = (await shop.client.get(PATH)).json()["data"]
    shop.price.usd = Decimal("1.2")
    shop.world.clock.advance(59_000)
    assert (await shop.client.get(PATH)).json()["data"] == first
    shop.world.clock.advance(1_000)

    assert (await shop.client.get(PATH)).json()["data"] != first
    assert shop.price.reads == 2


@pytest.mark.parametrize(
    ("usd", "is_sold"),
    [
        ("0.00000000000009", True),  # 500 credits cost 0.9 of 2^63 atoms
        ("0.00000000000008", False),
        ("0.00000000000004", False),  # twice that: more than 2^64
        ("1e-29", False),
    ],
)
async def test_a_bundle_of_more_atoms_than_a_payment_carries_is_503_with_a_reason(
    shop: SellingApi, usd: str, *, is_sold: bool
) -> None:
    shop.price.usd = Decimal(usd)
    listed = await shop.client.get(PATH)
    asked = await shop.client.post("/v1/credits/purchase?bundle=500")

    if is_sold:
        assert listed.json()["data"]["bundles"][-1]["price"] < 2**63
        assert asked.status_code == 402
        return
    for response in (listed, asked):
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "PRICE_UNAVAILABLE"
        assert "more atoms than a payment can carry" in response.json()["error"]["message"]
        assert "retry-after" in response.headers


async def test_the_list_is_503_without_a_price(shop: SellingApi) -> None:
    shop.price.usd = None
    response = await shop.client.get(PATH)

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "PRICE_UNAVAILABLE"


async def test_the_list_is_503_if_payments_are_off(service: Service) -> None:
    response = await service.client.get(PATH)

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "PRICE_UNAVAILABLE"


async def test_the_list_ignores_a_wrong_credential(shop: SellingApi) -> None:
    response = await shop.client.get(PATH, headers={"Authorization": "Bearer nonsense"})

    assert response.status_code == 200
