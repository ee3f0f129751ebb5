"""A rotation moves a balance to a new credit token, to which later top-ups and freezes apply."""

from mintscope.kit.credentials import hash_credential, hint, make_credit_token
from mintscope.kit.primitives import CreditAccount, Signature
from mintscope.payments.payment import TopUp
from mintscope.payments.ports import AlreadyUsed, Settled, Unresolved, Used
from support.scenes.payments.payment_world import (
    AMOUNT,
    RESOURCE,
    World,
    buy,
    on_older_chain,
)

NEW = make_credit_token(b"n" * 28)


async def rotate(world: World, purchase: Signature) -> int:
    store = world.stores[0]
    found = await store.find_purchase(purchase)
    assert found is not None
    hashed = hash_credential(NEW, pepper=b"r" * 32)
    moved = await store.rotate(found.holder, hashed, hint(NEW), now=world.clock.now())
    assert isinstance(moved, int)
    return moved


async def test_a_rotation_moves_the_balance_and_ends_redelivery_of_the_old_token(
    world: World,
) -> None:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    bought = await buy(facilitator, payment)
    assert isinstance(bought, Settled)
    assert bought.token is not None
    moved = await rotate(world, bought.payment.signature)

    assert moved == 10
    assert world.ledger() == {hint(bought.token): 0, hint(NEW): 10}
    assert await buy(facilitator, payment) == AlreadyUsed(Used.PAYMENT)
    purchase = await world.stores[0].find_purchase(bought.payment.signature)
    assert purchase is not None
    assert purchase.rotated_at == world.clock.now()
    assert not purchase.is_used
    assert await world.audit() == []


@on_older_chain
async def test_credits_of_a_vanished_payment_are_frozen_in_the_new_token(world: World) -> None:
    facilitator = world.facilitator()
    world.go_wrong(landing={"kind": "vanish", "ms": 400, "times": 1})
    bought = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(bought, Settled)
    await rotate(world, bought.payment.signature)
    await world.miss()

    assert world.ledger()[hint(NEW)] == 0


async def test_a_top_up_of_a_rotated_token_is_added_to_the_new_token(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    bought = await buy(world.facilitator(), world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(bought, Settled)
    account = CreditAccount(int(world.sql("SELECT id FROM credit_account")))
    world.go_wrong(landing={"kind": "late", "ms": 4_000})
    wanted = TopUp(credits=50, account=account)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment, key="top-up", wanted=wanted), Unresolved)
    await rotate(world, bought.payment.signature)
    world.slots(60)
    settled = await buy(facilitator, payment, key="top-up", wanted=wanted)

    assert isinstance(settled, Settled)
    assert settled.payment.purchase == wanted
    assert world.ledger()[hint(NEW)] == 60
    assert await world.audit(full=True) == []


async def test_an_unknown_purchase_is_not_found(world: World) -> None:
    world.facilitator()

    assert await world.stores[0].find_purchase(Signature("unknown")) is None
