"""Payments without a memo and with a client's own memo, varied in every way that a client can.

The payments are presented by x402 and by MPP.
Transactions and terms are combined at random, over routes, resources, amounts, assets, keys and
two processes; `make prove` tries 100,000.  An independent oracle checks that every payment that
landed was answered, that each transaction and each quote bought at most one answer, and that the
answer is for the quote in the memo, or for the quote that was sent beside a client's own memo.
"""

import os
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    SellingApi,
    credential_header,
    opened,
    signature_header,
)

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only the length of the test
VARIATIONS: Final = 100_000 if FULL else 300
ROUND: Final = 2_000 if FULL else 100  # variations of one pool of transactions and terms
ROUTES: Final = (
    ("GET", f"/v1/token/{TRACKED}"),
    ("GET", f"/v1/token/{TRACKED}/swaps"),
    ("GET", f"/v1/token/{TRACKED}/candles?tf=m5"),
    ("POST", "/v1/credits/purchase?bundle=10"),
    ("POST", "/v1/credits/purchase?bundle=50"),
)
ASSETS: Final = 2
ENOUGH_UNITS: Final = b"\x02" + (200_000).to_bytes(4, "little")  # enough for two memos
MEMOS: Final = ("none", "own", "quote", "two")
EXPECTED: Final = {200, 201, 400, 402, 409, 503}


@dataclass(frozen=True)
class Terms:
    """The 402 of a route, and the index of one of its offers."""

    route: tuple[str, str]
    demand: dict[str, Any]
    offer: int

    @property
    def amount(self) -> int:
        return int(self.demand["accepts"][self.offer]["amount"])

    @property
    def quote(self) -> str:
        return str(self.demand["accepts"][self.offer]["extra"]["memo"])

    def alone(self) -> dict[str, Any]:
        """Return the demand for payment, with only this one of its offers."""
        return self.demand | {"accepts": [self.demand["accepts"][self.offer]]}


@dataclass(frozen=True)
class Signed:
    """A transaction, its memo, and the terms that it pays."""

    wire: bytes
    memo: str
    terms: Terms


class Oracle:
    """Checks that the answers agree with the payments that landed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bought: dict[bytes, tuple[str, str]] = {}  # the route of each transaction
        self.quotes: set[str] = set()
        self.atoms = 0

    def received(self) -> int:
        world = self.world
        return world.received() + world.received(world.usdc_terms)

    def note(self, signed: Signed, shown: Terms, asked: tuple[str, str], *, is_new: bool) -> None:
        """Check and record that the request *asked* was answered for *signed*.

        shown     the terms that were sent with the transaction
        is_new    whether a payment landed; otherwise an earlier answer was sent again
        """
        assert signed.memo != "two", "a payment with two memos bought something"
        if not is_new:
            assert self.bought.get(signed.wire) == asked, "given again to another request"
            return
        assert signed.wire not in self.bought, "one transaction bought two answers"
        # A quote in the memo counts, not the quote beside it, which may be for the same route.
        used = signed.terms if signed.memo == "quote" else shown
        assert used.quote not in self.quotes, "one quote bought two answers"
        assert used.route == shown.route == asked, "a quote bought another resource"
        assert signed.terms.amount == used.amount == shown.amount, "bought at another price"
        self.bought[signed.wire] = asked
        self.quotes.add(used.quote)
        self.atoms += used.amount


async def pool_of(
    shop: SellingApi, chance: Random, number: int
) -> tuple[list[Terms], list[Signed]]:
    """Return terms of every route and asset, and a transaction for each, with any kind of memo."""
    terms = [
        Terms(route, await shop.demand(*route), offer)
        for route in ROUTES
        for offer in range(ASSETS)
        for _ in range(2)
    ]
    signed = []
    for place, each in enumerate(terms):
        memo = MEMOS[(place + number) % len(MEMOS)] if chance.random() < 0.5 else "own"
        text = each.quote if memo == "quote" else f"{number:06}-{place:04}-of-a-client"
        recipe = shop.recipe(each.alone(), memo=text.encode(), units=ENOUGH_UNITS)
        listed = recipe.instructions()
        if memo == "none":
            listed = listed[:3]
        elif memo == "two":
            listed = [*listed, listed[3]]
        signed.append(Signed(recipe.build(listed), memo, each))
    return terms, signed


@pytest.mark.timeout(3_600)
async def test_each_landed_payment_buys_exactly_one_answer(world: World) -> None:
    world.buyer = world.fund("buyer", atoms=10**12, usdc_atoms=10**12)
    chance = Random(30)
    oracle = Oracle(world)
    also = [world.usdc_terms]
    async with opened(world, also=also) as one, opened(world, also=also) as two:
        shops = (one, two)
        terms: list[Terms] = []
        signed: list[Signed] = []
        before = oracle.received()
        for number in range(VARIATIONS):
            if number % ROUND == 0:
                world.seconds(125)  # quotes and rate limits of the last round have expired
                terms, signed = await pool_of(one, chance, number)
            place = chance.randrange(len(terms))
            payment = signed[place]
            shown = terms[place] if chance.random() < 0.4 else chance.choice(terms)
            asked = shown.route if chance.random() < 0.6 else chance.choice(ROUTES)
            changes: dict[str, Any] = {}
            if chance.random() < 0.1:
                changes = {"amount": str(shown.amount + chance.choice((-1, 1)))}
            key = f"{KEY}-{chance.randrange(50)}" if chance.random() < 0.7 else None
            client = chance.choice(shops).client
            if chance.random() < 0.2:  # by MPP, whose memo is the quote
                sent = {"Authorization": credential_header(shown.alone(), payment.wire, **changes)}
            else:
                sent = {
                    "PAYMENT-SIGNATURE": signature_header(shown.alone(), payment.wire, **changes)
                }
            if key is not None:
                sent["Idempotency-Key"] = key
            answer = await client.request(*asked, headers=sent)
            assert answer.status_code in EXPECTED, answer.text
            atoms = oracle.received() - before
            if answer.is_success and "payment-response" in answer.headers:  # an empty page is free
                oracle.note(payment, shown, asked, is_new=atoms > oracle.atoms)
            assert atoms == oracle.atoms, "something was paid for without an answer"

    assert len(oracle.bought) > VARIATIONS // ROUND * 5
    assert await world.audit(full=True) == []
