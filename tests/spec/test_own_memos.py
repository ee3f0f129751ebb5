"""Payments with the client's own memo or none: the quote in `accepted` buys one answer.

Official clients for TypeScript before 2.10, and those that pin them, write 32 random hexadecimal
digits instead of `extra.memo`; agentcash writes no memo. The terms that they answer are in
`accepted`.
"""

import asyncio
from random import Random
from typing import Any, Final

import httpx
import pytest

from support.fakes.reports import TOO_YOUNG, TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.restored import back_up, restored
from support.scenes.payments.selling_api import (
    KEY,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    demanded,
    opened,
    signature_header,
)

REPORT: Final = f"/v1/token/{TRACKED}"
OWN: Final = b"9f3c5a7e1b2d4f608192a3b4c5d6e7f8"
# A memo of more than 34 bytes needs more units than the 20,000 of official clients.
ENOUGH_UNITS: Final = b"\x02" + (100_000).to_bytes(4, "little")
BUNDLE_500: Final = "/v1/credits/purchase?bundle=500"


def refusal(response: httpx.Response) -> tuple[int, str]:
    body = response.json()["error"]
    return response.status_code, body["code"]


def expect_refused(response: httpx.Response, reason: str) -> None:
    assert refusal(response) == (402, "PAYMENT_FAILED")
    assert f"refused: {reason}" in response.json()["error"]["message"]


def rows(world: World) -> int:
    """Return the number of stored payments that have not failed."""
    return int(world.sql("SELECT count(*) FROM payment WHERE state <> 'failed'"))


@pytest.mark.parametrize(
    "memo",
    [OWN, b"0123456789abcdef", "Pago de prueba número 7".encode(), b"x" * 64],
    ids=["official", "shortest", "a text", "longest"],
)
async def test_a_payment_with_its_own_memo_buys_the_resource_of_its_quote(
    shop: SellingApi, world: World, memo: bytes
) -> None:
    changes = {"memo": memo, "units": ENOUGH_UNITS}
    report = await shop.send("GET", REPORT, await shop.paid("GET", REPORT, **changes))
    payment = await shop.paid("POST", PURCHASE, **changes)
    bundle = await shop.send("POST", PURCHASE, payment, key=KEY)
    again = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert (report.status_code, bundle.status_code) == (200, 201)
    assert again.json()["data"] == bundle.json()["data"]
    assert rows(world) == 2
    assert await world.audit(full=True) == []


def without_memo(shop: SellingApi, demand: dict[str, Any]) -> bytes:
    """Return the transaction of clients that write no memo (agentcash 0.14)."""
    recipe = shop.recipe(demand)
    return recipe.build(recipe.instructions()[:3])


async def test_a_payment_without_a_memo_buys_the_resource_of_its_quote(
    shop: SellingApi, world: World
) -> None:
    for method, path in (("GET", REPORT), ("POST", PURCHASE)):
        demand = await shop.demand(method, path)
        payment = signature_header(demand, without_memo(shop, demand))
        elsewhere = await shop.send("GET", f"{REPORT}/swaps", payment)
        answer = await shop.send(method, path, payment, key=f"{KEY}-{method}")
        assert answer.is_success
        expect_refused(elsewhere, "quote_invalid")
    assert rows(world) == 2
    assert await world.audit(full=True) == []


async def test_two_equal_transactions_without_a_memo_are_one_payment(
    shop: SellingApi, world: World
) -> None:
    demands = [await shop.demand("POST", PURCHASE) for _ in range(2)]
    wires = [without_memo(shop, demand) for demand in demands]
    payments = map(signature_header, demands, wires)
    first, second = [
        await shop.send("POST", PURCHASE, payment, key=key)
        for payment, key in zip(payments, (KEY, OTHER_KEY), strict=True)
    ]
    assert wires[0] == wires[1]
    assert first.status_code == 201
    assert refusal(second) == (409, "PAYMENT_ALREADY_USED")
    assert "with `extra.memo` or a new blockhash" in second.json()["error"]["message"]

    world.slots(1)  # a new slot has another blockhash
    demand = await shop.demand("POST", PURCHASE)
    third = signature_header(demand, without_memo(shop, demand))
    assert (await shop.send("POST", PURCHASE, third, key=OTHER_KEY)).status_code == 201
    assert rows(world) == 2


async def test_a_payment_without_memo_and_quote_is_refused(shop: SellingApi, world: World) -> None:
    demand = await shop.demand("GET", REPORT)
    payment = signature_header(demand, without_memo(shop, demand), extra={})

    expect_refused(await shop.send("GET", REPORT, payment), "one_memo_expected")
    assert world.calls == []


async def test_one_transaction_buys_one_answer(shop: SellingApi, world: World) -> None:
    demand = await shop.demand("POST", PURCHASE)
    wire = shop.transaction(demand, memo=OWN)
    first = await shop.send("POST", PURCHASE, signature_header(demand, wire), key=KEY)
    again = signature_header(await shop.demand("POST", PURCHASE), wire)  # with another quote

    assert first.status_code == 201
    for key in (None, OTHER_KEY):
        answer = await shop.send("POST", PURCHASE, again, key=key)
        assert refusal(answer) == (409, "PAYMENT_ALREADY_USED")
    assert rows(world) == 1


async def test_one_quote_is_valid_for_one_payment(shop: SellingApi, world: World) -> None:
    demand = await shop.demand("POST", PURCHASE)
    first = await shop.send("POST", PURCHASE, shop.pay(demand, memo=OWN), key=KEY)
    second = await shop.send("POST", PURCHASE, shop.pay(demand, memo=OWN[::-1]), key=OTHER_KEY)

    assert first.status_code == 201
    expect_refused(second, "quote_used")
    assert rows(world) == 1


async def test_a_payment_with_the_quote_of_another_route_is_refused(
    shop: SellingApi, world: World
) -> None:
    """A quote is for one resource and one amount."""
    sold = [("GET", REPORT), ("GET", f"/v1/token/{TOO_YOUNG}"), ("POST", PURCHASE),
            ("POST", BUNDLE_500), ("GET", f"{REPORT}/swaps")]  # fmt: skip
    for number, asked in enumerate(sold):
        payment = await shop.paid(*asked, memo=OWN + b"%d" % number)
        for bought in sold:
            if bought != asked:
                expect_refused(await shop.send(*bought, payment), "quote_invalid")
    assert world.calls == []


async def test_a_quote_of_another_resource_is_refused_as_an_own_memo(
    shop: SellingApi, world: World
) -> None:
    quote = (await shop.demand("GET", REPORT))["accepts"][0]["extra"]["memo"].encode()
    payment = await shop.paid("GET", f"{REPORT}/swaps", memo=quote)

    expect_refused(await shop.send("GET", f"{REPORT}/swaps", payment), "quote_invalid")
    assert world.calls == []


@pytest.mark.parametrize(
    "memo", [b"", b"short", b"x" * 15, b"x" * 65, b"\xff" * 32], ids=lambda memo: repr(memo[:5])
)
async def test_an_invalid_own_memo_is_refused_with_the_rules_for_memos(
    shop: SellingApi, world: World, memo: bytes
) -> None:
    answer = await shop.send("GET", REPORT, await shop.paid("GET", REPORT, memo=memo))

    expect_refused(answer, "quote_invalid")
    assert "Your own memo (a text of 16 to 64 bytes" in answer.json()["error"]["message"]
    assert world.calls == []


@pytest.mark.parametrize(
    "extra", [None, {}, {"memo": None}, {"memo": 7}, {"memo": "x" * 32}, {"memo": ["a"]}]
)
async def test_a_payment_with_its_own_memo_and_no_quote_is_refused(
    shop: SellingApi, world: World, extra: dict[str, Any] | None
) -> None:
    demand = await shop.demand("GET", REPORT)
    payment = signature_header(demand, shop.transaction(demand, memo=OWN), extra=extra or {})

    expect_refused(await shop.send("GET", REPORT, payment), "quote_invalid")
    assert world.calls == []


async def test_an_old_quote_is_refused(shop: SellingApi, world: World) -> None:
    demand = await shop.demand("GET", REPORT)
    world.seconds(121)

    expect_refused(await shop.send("GET", REPORT, shop.pay(demand, memo=OWN)), "quote_expired")


async def test_twenty_concurrent_requests_with_one_transaction_are_one_payment(
    shop: SellingApi, world: World
) -> None:
    """Each of the twenty requests names another quote."""
    demands = [await shop.demand("POST", PURCHASE) for _ in range(20)]
    wire = shop.transaction(demands[0], memo=OWN)
    answers = await asyncio.gather(
        *(
            shop.send("POST", PURCHASE, signature_header(demand, wire), key=f"{KEY}-{number}")
            for number, demand in enumerate(demands)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert rows(world) == 1
    assert list(world.ledger().values()) == [10]
    assert world.received() == 25_000
    assert world.fees() == 10_001


@pytest.mark.parametrize("memo", [OWN, None], ids=["own", "none"])
async def test_a_strangers_quote_does_not_redeem_a_payment_after_a_restore(
    world: World, memo: bytes | None
) -> None:
    """The landed transaction is public, but has no quote that ties it to an Idempotency-Key."""
    async with opened(world) as shop:
        copy = back_up(world)
        demand = await shop.demand("POST", PURCHASE)
        wire = shop.transaction(demand, memo=memo) if memo else without_memo(shop, demand)
        assert (
            await shop.send("POST", PURCHASE, signature_header(demand, wire), key=KEY)
        ).status_code == 201

    async with restored(world, copy, after_s=30) as shop:
        strangers = await shop.client.post(PURCHASE, headers={"Idempotency-Key": OTHER_KEY})
        offered = signature_header(demanded(strangers), wire)
        answer = await shop.send("POST", PURCHASE, offered, key=OTHER_KEY)
    assert refusal(answer) == (409, "PAYMENT_ALREADY_USED")


async def test_any_variation_buys_one_answer_or_none(shop: SellingApi, world: World) -> None:
    """Quotes, memos, routes and keys are random; each payment in the store bought one answer."""
    chance, routes = Random(11), [("GET", REPORT), ("GET", f"{REPORT}/swaps"), ("POST", PURCHASE)]
    answered = 0
    for number in range(75):
        if number % 25 == 0:
            world.clock.advance(60_000)
            quotes = {route: [await shop.demand(*route) for _ in range(3)] for route in routes}
            memos = [b"%s-%d-%d" % (OWN[:16], number, each) for each in range(3)]
        asked = chance.choice(routes)
        shown = chance.choice(quotes[asked if chance.random() < 0.7 else chance.choice(routes)])
        signed = shown if chance.random() < 0.7 else chance.choice(quotes[chance.choice(routes)])
        changes: dict[str, Any] = {} if chance.random() < 0.2 else {"memo": chance.choice(memos)}
        payment = signature_header(shown, shop.transaction(signed, **changes))
        before = rows(world)
        answer = await shop.send(*asked, payment, key=f"{KEY}{number % 7}")
        answered += answer.is_success and rows(world) > before
        assert answer.status_code in {200, 201, 402, 409}, answer.text
    assert rows(world) == answered > 5
    assert await world.audit(full=True) == []
