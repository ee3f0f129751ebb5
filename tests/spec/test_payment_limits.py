"""Payments count against the limit of an IP address; a settled payment and its 402 count once."""

from collections.abc import AsyncIterator

import pytest

from mintscope.app.config.config import ApiConfig
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, demanded, opened
from support.scenes.service import bearer

PATH = f"/v1/token/{TRACKED}"
API = ApiConfig(rate_limit_requests=5)


@pytest.fixture
async def shop(world: World) -> AsyncIterator[SellingApi]:
    async with opened(world, api=API) as shop:
        yield shop


async def test_a_settled_payment_and_its_402_use_one_unit_of_the_limit(shop: SellingApi) -> None:
    for left in (4, 3, 2, 1):
        unpaid = await shop.client.get(PATH)
        assert unpaid.headers["x-ratelimit-remaining"] == str(left)
        paid = await shop.send("GET", PATH, shop.pay(demanded(unpaid)))
        assert paid.status_code == 200


async def test_a_refused_payment_gives_no_unit_of_the_limit_back(shop: SellingApi) -> None:
    demand = await shop.demand("GET", PATH)
    for _ in range(4):
        assert (await shop.send("GET", PATH, shop.pay(demand, amount=1))).status_code == 402

    assert (await shop.send("GET", PATH, shop.pay(demand))).status_code == 429
    assert shop.world.calls == []


async def test_an_answer_that_is_sent_again_gives_no_unit_of_the_limit_back(
    shop: SellingApi,
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    statuses = [(await shop.send("POST", PURCHASE, payment, key=KEY)).status_code for _ in range(6)]

    assert statuses == [201] * 5 + [429]


async def test_a_payment_beside_a_credit_token_counts_against_the_address(shop: SellingApi) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    statuses = [
        (await shop.send("GET", PATH, "nonsense", **bearer(token))).status_code for _ in range(5)
    ]

    assert statuses == [400] * 4 + [429]
    assert (await shop.client.get(PATH, headers=bearer(token))).status_code == 200


async def test_the_limit_is_checked_before_the_payment(shop: SellingApi) -> None:
    payment = await shop.paid("POST", PURCHASE)
    await shop.send("POST", PURCHASE, payment, key=KEY)
    for _ in range(4):
        await shop.client.get("/v1/credits/bundles")

    limited = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert limited.status_code == 429
    assert int(limited.headers["retry-after"]) > 0
