"""A payment for any kind of page is recognised after a restore, on each engine.

The chain shows only the price of a page with a range, a cursor or a limit, not which page it is.
"""

from collections.abc import Sequence
from typing import Any, Final

import httpx

from mintscope.payments.audit import Orphan
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.restored import FINAL_S, forget_everything, paid_with_key
from support.scenes.payments.selling_api import (
    KEY,
    OTHER_KEY,
    SellingApi,
    decoded,
    opened,
    settlement,
)
from support.scenes.service import bearer
from support.scenes.stores import money_in

REPORT: Final = f"/v1/token/{TRACKED}"
SERIES: Final = ("candles?tf=m5&limit=2", "indicators?tf=m5&limit=2&names=rsi")
RANGES: Final = ("candles?fill=previous&tf=h1&from=1&to=4102444800", "indicators?tf=h1&from=1")


async def next_page(shop: SellingApi, path: str) -> str:
    """Read the page *path* for a credit, and return the path of the page after it."""
    read = await shop.client.get(path, headers=bearer(await shop.service.issue(1)))
    return f"{path}&cursor={read.json()['data']['nextCursor']}"


async def orphans(world: World) -> Sequence[Orphan]:
    """Run a full audit, and return the payments that it found without a row."""
    assert await world.audit(full=True) == []
    async with money_in(world.path.parent, clock=world.clock) as money:
        assert await money.books.why_stopped() is None
        return await money.books.orphans()


async def claimed(shop: SellingApi, purchase: str) -> httpx.Response:
    """Get a credit token for *purchase* by a challenge that the buyer's wallet signs."""
    wallet = shop.world.buyer
    claim = {"purchase": purchase, "wallet": str(wallet.pubkey())}
    asked = await shop.client.post("/v1/credits/rotate/challenge", json=claim)
    text = asked.json()["data"]["challenge"]
    signed = {"challenge": text, "signature": str(wallet.sign_message(text.encode()))}
    return await shop.client.post("/v1/credits/rotate", json=claim | signed)


async def test_every_paid_page_is_sent_again_to_its_buyer_after_a_restore(world: World) -> None:
    sold: list[tuple[str, str, Any]] = []
    async with opened(world) as shop:
        first = [f"{REPORT}/{page}" for page in SERIES]
        paths = [*first, *[await next_page(shop, path) for path in first]]
        paths += [f"{REPORT}/{page}" for page in RANGES]
        for number, path in enumerate(paths):
            key = f"{KEY}-{number}"
            payment = await paid_with_key(shop, "GET", path, key)
            answer = await shop.send("GET", path, payment, key=key)
            assert "payment-response" in answer.headers, (path, answer.text)
            sold.append((path, payment, answer))
    forget_everything(world)
    world.seconds(FINAL_S)

    async with opened(world) as shop:
        found = await orphans(world)
        assert [each.bought for each in found] == ["/v1/token"] * len(sold)
        for number, (path, payment, answer) in enumerate(sold):
            refused = await shop.send("GET", path, payment, key=OTHER_KEY)
            assert refused.status_code == 409
            for _ in range(2):
                again = await shop.send("GET", path, payment, key=f"{KEY}-{number}")
                assert again.is_success, again.text
                assert settlement(again) == settlement(answer)
        assert await orphans(world) == []
    assert world.calls.count("sendTransaction") == len(sold)


async def test_the_wallet_that_paid_for_a_page_gets_a_credit_after_a_restore(world: World) -> None:
    path = f"{REPORT}/{SERIES[0]}"
    async with opened(world) as shop:
        payment = await paid_with_key(shop, "GET", path, KEY)
        answer = await shop.send("GET", path, payment, key=KEY)
    forget_everything(world)
    world.seconds(FINAL_S)

    async with opened(world) as shop:
        moved = await claimed(shop, decoded(answer, "payment-response")["transaction"])
        assert moved.json()["data"]["credits"] == 1
        assert (await shop.send("GET", path, payment, key=KEY)).status_code == 409
    assert sum(world.ledger().values()) == 1
    assert await orphans(world) == []
