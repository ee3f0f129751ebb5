"""After a rotation old quotes are valid for a while, and old credentials stay valid."""

from hashlib import sha256

from mintscope.kit.credentials import Root
from mintscope.payments.ports import Settled
from mintscope.payments.protocol.envelope import RefusalReason, Refused
from mintscope.payments.reconciler import OVERLAP_MS, Secrets
from support.scenes.payments.payment_world import (
    AMOUNT,
    KEY,
    RESOURCE,
    SECRETS,
    World,
    buy,
)


def rotated_now(world: World) -> Secrets:
    now_s = world.clock.now() // 1000
    return Secrets.derive(SECRETS.pepper, [Root(now_s, sha256(b"a new root").digest())])


async def test_an_old_quote_is_valid_only_for_the_overlap_after_a_rotation(world: World) -> None:
    """A thief of the old secret can date a quote at will, so the age of the new secret counts."""
    before = world.facilitator()
    quoted = before.require(RESOURCE, AMOUNT)
    after = world.facilitator(secrets=rotated_now(world))

    assert isinstance(await buy(after, world.pay(quoted), key=KEY + "a"), Settled)
    new = after.require(RESOURCE, AMOUNT)
    assert await buy(before, world.pay(new)) == Refused(RefusalReason.QUOTE_FORGED)
    assert isinstance(await buy(after, world.pay(new), key=KEY + "b"), Settled)
    world.seconds(OVERLAP_MS // 1000 + 1)
    forged = world.pay(world.facilitator().require(RESOURCE, 1))  # with the old secret
    assert await buy(after, forged, key=KEY + "c") == Refused(RefusalReason.QUOTE_FORGED)
    assert world.received() == 2 * AMOUNT


async def test_a_lost_answer_is_redelivered_after_a_rotation(world: World) -> None:
    before = world.facilitator()
    payment = world.pay(before.require(RESOURCE, AMOUNT))
    bought = await buy(before, payment)
    assert isinstance(bought, Settled)
    after = world.facilitator(secrets=rotated_now(world))
    world.seconds(OVERLAP_MS // 1000 + 1)

    again = await buy(after, payment)

    assert isinstance(again, Settled)
    assert again.redelivered
    assert again.token == bought.token


async def test_a_future_root_is_accepted_but_does_not_sign_yet(
    world: World,
) -> None:
    """This lets every replica know a new root before the first replica signs with it."""
    later = Root(world.clock.now() // 1000 + 60, sha256(b"a later root").digest())
    secrets = Secrets.derive(SECRETS.pepper, [later])
    replica = world.facilitator(secrets=secrets)

    quoted = replica.require(RESOURCE, AMOUNT)
    assert isinstance(await buy(world.facilitator(), world.pay(quoted)), Settled)
    ahead = world.facilitator(secrets=secrets.newer[0])
    signed_ahead = world.pay(ahead.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(replica, signed_ahead, key=KEY + "b"), Settled)
