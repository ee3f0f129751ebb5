"""Sales work with a node that refuses the level `confirmed`, or takes it as `finalized`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import structlog
from solders.hash import Hash

from mintscope.payments.settlement import RpcSettlement
from mintscope_devchain.blockstore import SlotPace, slot_pace
from support.scenes.payments.payment_world import World, world_at
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, decoded, opened

TODAY: Final = slot_pace()
OLDER: Final = slot_pace(400, 12_800)
FAULTS: Final = ("refused", "finalized")
PRICE: Final = 25_000
GOOD_BLOCKS: Final = 150
Ask = Callable[[RpcSettlement, World], Awaitable[Any]]


@pytest.fixture(params=[TODAY, OLDER], ids=["today", "older"])
def pace(request: pytest.FixtureRequest) -> SlotPace:
    chosen: SlotPace = request.param
    return chosen


@pytest.fixture(params=FAULTS)
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, pace: SlotPace
) -> AsyncIterator[World]:
    async with world_at(tmp_path, pace) as world:
        world.slots(GOOD_BLOCKS)  # so that there are blocks no fork can take back
        world.go_wrong(confirmed=request.param)
        yield world


async def signed(shop: SellingApi) -> str:
    """Return a signed payment for a purchase, with the blockhash that the 402 offers."""
    await shop.world.chains[-1].refresh_offer()
    demand = await shop.demand("POST", PURCHASE)
    offered = demand["accepts"][0]["extra"]["recentBlockhash"]
    return shop.pay(demand, blockhash=Hash.from_string(offered))


async def test_a_purchase_is_quoted_paid_and_delivered(shop: SellingApi, world: World) -> None:
    with structlog.testing.capture_logs() as logs:
        payment = await signed(shop)
        while (answer := await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 503:
            world.slots(1)  # the payment is seen when it is final

    assert answer.status_code == 201, answer.text
    assert world.received() == PRICE
    is_refused = world.vm.faults.knobs.confirmed == "refused"
    assert [entry["event"] for entry in logs].count("confirmed_unknown") == int(is_refused)


async def test_a_payment_that_never_lands_is_reported_as_expired(
    shop: SellingApi, world: World
) -> None:
    payment = await signed(shop)
    world.go_wrong(confirmed=world.vm.faults.knobs.confirmed, landing={"kind": "never"})
    async with opened(world, patience_s=0.05) as hasty:
        assert (await hasty.send("POST", PURCHASE, payment, key=KEY)).status_code == 503
    world.slots(2 * GOOD_BLOCKS)
    answer = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert answer.status_code == 402, answer.text
    assert decoded(answer, "payment-response")["errorReason"] == "transaction_expired"
    assert world.received() == 0


@pytest.mark.parametrize("pace", [TODAY], ids=["today"])
async def test_a_purchase_waits_for_the_newest_blockhash_of_another_node(
    shop: SellingApi, world: World
) -> None:
    """The payer's node knows blocks that the service's node shows only once they are final."""
    world.moving.add("simulateTransaction")
    answer: httpx.Response = await shop.buy()

    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("pace", [TODAY], ids=["today"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda chain, _: chain.recent_blockhash(),
        lambda chain, _: chain.expect_usable(),
        lambda chain, _: chain.block_time_s(),
        lambda chain, world: chain.lamports(world.terms.fee_payer),
        lambda chain, _: chain.look(["1" * 64]),
        lambda chain, _: chain.arrivals(after=None, before=None),
        lambda chain, _: chain.recorded("1" * 64),
    ],
)
async def test_each_kind_of_first_request_to_a_node_is_answered(world: World, ask: Ask) -> None:
    found = await ask(world.chain(), world)
    world.go_wrong()

    assert type(found) is type(await ask(world.chain(), world))
