"""A payment expires with its blockhash, at any pace, and its buyer is answered at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from solders.hash import Hash

from mintscope.payments.protocol.envelope import HELD_OPEN_S
from mintscope_devchain.blockstore import SlotPace, slot_pace
from support.scenes.payments.payment_world import World, world_at
from support.scenes.payments.selling_api import (
    KEY,
    PURCHASE,
    SellingApi,
    decoded,
    demanded,
    opened,
)

GOOD_BLOCKS: Final = 150
OFFERED_BLOCKS: Final = 30  # how old a blockhash of a 402 may be
PACES: Final = [
    slot_pace(slot_ms, final) for slot_ms in (100, 200, 400, 800) for final in (150, 13_000)
]
TODAY: Final = [slot_pace(200, 150), slot_pace(200, 13_000)]
HASTY_S: Final = 0.02  # real time, like the wait of a handler
QUOTE_S: Final = 120


def named(pace: SlotPace) -> str:
    return f"{pace.slot} ms, final after {pace.finalize} ms"


every_pace = pytest.mark.parametrize("pace", PACES, ids=named)
paces_of_today = pytest.mark.parametrize("pace", TODAY, ids=named)


@pytest.fixture
async def world(tmp_path: Path, pace: SlotPace) -> AsyncIterator[World]:
    async with world_at(tmp_path, pace) as world:
        world.slots(GOOD_BLOCKS)  # so that there are blocks no fork can take back
        yield world


@pytest.fixture
async def shop(world: World) -> AsyncIterator[SellingApi]:
    async with opened(world, patience_s=HASTY_S) as shop:
        yield shop


def reported(answer: httpx.Response) -> Any:
    """Return the reason for which *answer* refuses a payment; its 402 must have a new demand."""
    assert answer.status_code == 402, answer.text
    assert answer.json()["error"]["code"] == "PAYMENT_FAILED"
    assert "recentBlockhash" in demanded(answer)["accepts"][0]["extra"]
    return decoded(answer, "payment-response")["errorReason"]


def reason(pace: SlotPace) -> str:
    """Return the expected refusal of a payment whose blockhash has just expired."""
    is_quote_good = (GOOD_BLOCKS + 1) * pace.slot < QUOTE_S * 1000
    return "blockhash_not_found" if is_quote_good else "quote_expired"


@every_pace
async def test_an_expired_payment_is_402_with_a_new_demand(
    world: World, shop: SellingApi, pace: SlotPace
) -> None:
    """The blockhash is from the buyer's node, and the chain advances with each simulation."""
    payment = await shop.paid("POST", PURCHASE)
    world.slots(GOOD_BLOCKS + 1)
    await world.chains[-1].refresh_offer()
    world.moving.add("simulateTransaction")
    before = world.vm.block("processed").slot
    answer = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert reported(answer) == reason(pace)
    assert world.vm.block("processed").slot - before <= 4
    assert "sendTransaction" not in world.calls
    again = shop.pay(demanded(answer))
    async with opened(world) as patient:
        assert (await patient.send("POST", PURCHASE, again, key=KEY)).status_code == 201


@every_pace
async def test_an_expired_payment_with_an_offered_blockhash_is_simulated_at_most_once(
    world: World, shop: SellingApi, pace: SlotPace
) -> None:
    await world.chains[-1].refresh_offer()
    payment = await shop.paid("POST", PURCHASE)
    world.slots(GOOD_BLOCKS + 1)
    await world.chains[-1].refresh_offer()
    world.calls.clear()
    answer = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert reported(answer) == reason(pace)
    assert world.calls.count("simulateTransaction") == int(reason(pace) == "blockhash_not_found")


@every_pace
async def test_a_payment_three_blocks_before_its_end_is_accepted(
    world: World, shop: SellingApi
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    world.slots(GOOD_BLOCKS - 3)

    async with opened(world) as patient:
        answer = await patient.send("POST", PURCHASE, payment, key=KEY)
    assert answer.status_code == 201


@every_pace
async def test_a_demand_has_the_time_within_which_a_payment_may_land(
    shop: SellingApi, pace: SlotPace
) -> None:
    demand = await shop.demand("POST", PURCHASE)

    assert demand["accepts"][0]["maxTimeoutSeconds"] == min(GOOD_BLOCKS * pace.slot // 1000, 60)


@every_pace
async def test_a_payment_with_the_blockhash_of_a_402_lands_at_the_end_of_its_time(
    world: World, shop: SellingApi, pace: SlotPace
) -> None:
    """The buyer sends it five slots before `maxTimeoutSeconds` of the 402 has passed."""
    await world.chains[-1].refresh_offer()
    world.slots(OFFERED_BLOCKS - 1)
    demand = await shop.demand("POST", PURCHASE)
    offer = demand["accepts"][0]
    payment = shop.pay(demand, blockhash=Hash.from_string(offer["extra"]["recentBlockhash"]))
    timeout_s = offer["maxTimeoutSeconds"]
    left = GOOD_BLOCKS - OFFERED_BLOCKS + 1
    assert left * pace.slot // 1000 - 1 <= timeout_s <= left * pace.slot // 1000 or timeout_s == 60
    world.slots(timeout_s * 1000 // pace.slot - 5)

    async with opened(world) as patient:
        assert (await patient.send("POST", PURCHASE, payment, key=KEY)).status_code == 201


@every_pace
async def test_a_pending_payment_fails_when_the_end_of_its_blockhash_is_final(
    world: World, shop: SellingApi, pace: SlotPace
) -> None:
    """The handler and the buyer no longer wait for the payment; the reconciler does not send it."""
    world.go_wrong(landing={"kind": "never"})
    sent_at = world.vm.block("confirmed").height
    payment = await shop.paid("POST", PURCHASE)
    pending = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert pending.json()["error"]["code"] == "PAYMENT_PENDING"
    (last,) = (world.sql("SELECT last_valid_height FROM payment"),)
    assert sent_at + GOOD_BLOCKS <= last <= sent_at + GOOD_BLOCKS + 12  # the chain has advanced

    while world.vm.block("finalized").height < last:
        world.slots(1)
    await world.reconciler().once()
    assert world.sql("SELECT state FROM payment") == "pending"
    world.slots(2)
    await world.reconciler().once()
    assert world.sql("SELECT state, final FROM payment") == ("failed", 1)
    assert world.vm.block("processed").height - last <= pace.lag("finalized") + 5

    await world.chains[-1].refresh_offer()
    assert reported(await shop.send("POST", PURCHASE, payment, key=KEY)) == "transaction_expired"
    assert world.fees() == 0


@paces_of_today
async def test_the_waiting_request_is_answered_when_its_payment_expires(world: World) -> None:
    world.go_wrong(landing={"kind": "never"})
    async with opened(world, patience_s=HELD_OPEN_S) as patient:
        payment = await patient.paid("POST", PURCHASE)
        answer = await patient.send("POST", PURCHASE, payment, key=KEY)

    assert answer.status_code == 402, answer.text
    assert decoded(answer, "payment-response")["errorReason"] == "transaction_expired"
    assert "sign another payment" in answer.json()["error"]["message"]
    assert world.sql("SELECT state, final FROM payment") == ("failed", 1)
    assert world.fees() == 0
