"""POST /v1/credits/purchase with an API key: the credits go to the account of its user."""

import pytest
from test_rotate import Interrupted

from mintscope.accounts.keys.scope import Scope
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, opened
from support.scenes.people.agent import Agent
from support.scenes.service import bearer, refusal


@pytest.fixture
async def key(shop: SellingApi) -> str:
    return await Agent(shop.service).key(Scope.TRADE_WRITE)


async def balance(shop: SellingApi, key: str) -> int:
    response = await shop.client.get("/v1/credits/balance", headers=bearer(key))
    return int(response.json()["data"]["balance"])


async def test_a_bundle_fills_the_account_and_the_key_spends_it(shop: SellingApi, key: str) -> None:
    me = (await shop.client.get("/v1/me", headers=bearer(key))).json()["data"]
    payment = await shop.paid("POST", PURCHASE)
    bought = await shop.send("POST", PURCHASE, payment, key=KEY, **bearer(key))

    assert bought.status_code == 201
    assert bought.json()["data"] == {"credits": 10, "pricePaid": 25_000, "userId": me["userId"]}
    assert await balance(shop, key) == 10
    data = await shop.client.get(f"/v1/token/{TRACKED}", headers=bearer(key))
    assert data.headers["x-credits-remaining"] == "9"
    again = await shop.send("POST", PURCHASE, payment, key=KEY, **bearer(key))
    assert again.json()["data"] == bought.json()["data"]
    assert await balance(shop, key) == 9
    assert refusal(await shop.send("POST", PURCHASE, payment, key=KEY)) == (401, "MISSING_TOKEN")


async def test_a_purchase_without_the_scope_is_403_and_not_paid(
    shop: SellingApi, world: World, key: str
) -> None:
    shop.service.accounts.change("UPDATE api_key SET scopes = ?", '["trade:read"]')
    payment = await shop.paid("POST", PURCHASE)
    for sent in (
        await shop.client.post(PURCHASE, headers=bearer(key)),
        await shop.send("POST", PURCHASE, payment, **bearer(key)),
    ):
        assert refusal(sent) == (403, "INSUFFICIENT_SCOPE")
    assert world.received() == 0


async def test_an_unpaid_purchase_creates_no_credit_account(shop: SellingApi, key: str) -> None:
    response = await shop.client.post(PURCHASE, headers=bearer(key))
    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert shop.service.accounts.rows("SELECT id FROM credit_account") == []


async def test_a_purchase_is_refused_if_its_account_is_removed_before_the_payment(
    world: World,
) -> None:
    """No one could spend the credits; without the API key, the same payment buys a credit token."""
    chain = Interrupted(world.chain())
    async with opened(world, chain=chain) as shop:
        key = await Agent(shop.service).key(Scope.TRADE_WRITE)
        me = (await shop.client.get("/v1/me", headers=bearer(key))).json()["data"]

        async def remove() -> None:
            await shop.service.accounts.remove_user(me["userId"])

        chain.meanwhile = remove
        payment = await shop.paid("POST", PURCHASE)
        refused = await shop.send("POST", PURCHASE, payment, key=KEY, **bearer(key))
        assert refusal(refused) == (401, "INVALID_TOKEN")
        assert "was removed before the payment was sent" in refused.text
        assert world.received() == 0

        bought = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert bought.status_code == 201, bought.text
        assert bought.json()["data"]["credits"] == 10
    await chain.chain.aclose()
    assert await world.audit(full=True) == []
