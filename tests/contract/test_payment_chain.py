"""The contract of the ports of the chain for payments: Settlement and two others.

To test another engine, add it to `ENGINES`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pytest
from solders.hash import Hash

from mintscope.kit.primitives import Signature, Wallet
from mintscope.payments.audit import TreasuryHistory
from mintscope.payments.facilitator import Demand, VerifiedPayment
from mintscope.payments.payment import Landed, Unseen
from mintscope.payments.ports import (
    ChainUnavailable,
    PaymentChain,
    Rejected,
    Settled,
    Settlement,
    Simulated,
    UnknownBlockhash,
)
from mintscope.payments.protocol.envelope import Terms
from mintscope.payments.protocol.memo import UnusablePaymentToken
from support.scenes.payments.payment_world import AMOUNT, RESOURCE, World, buy


class Chain(Settlement, PaymentChain, TreasuryHistory, Protocol):
    """All that payments need of the chain: three ports, implemented over one node."""


def rpc(world: World, terms: Terms | None = None) -> Chain:
    chain = world.chain(terms)
    world.chains.append(chain)  # the world closes it
    return chain


ENGINES: dict[str, Callable[..., Chain]] = {"rpc": rpc}


@pytest.fixture(params=ENGINES)
def open_chain(request: pytest.FixtureRequest) -> Callable[..., Chain]:
    return ENGINES[request.param]


async def verified(world: World, **changes: Any) -> VerifiedPayment:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT), **changes)
    demand = Demand(resource=RESOURCE, key=None, address="192.0.2.1")
    found = await facilitator.present(payment, demand)
    assert isinstance(found, VerifiedPayment)
    return found


async def test_a_simulation_returns_the_balance_after_the_payment(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    good = (await verified(world)).verified
    found = await open_chain(world).simulate(good.envelope, good.source)

    assert isinstance(found, Simulated)
    assert found.balance_after == 10**9 - AMOUNT


async def test_a_payment_with_the_recent_blockhash_can_be_simulated(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    chain = open_chain(world)
    recent = await chain.recent_blockhash()
    good = (await verified(world, blockhash=recent)).verified

    assert recent == world.blockhash()
    assert isinstance(await chain.simulate(good.envelope, good.source), Simulated)


async def test_a_payment_that_cannot_succeed_is_rejected(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    poor = (await verified(world, payer=world.fund("poor", atoms=AMOUNT - 1))).verified
    old = (await verified(world, blockhash=Hash(b"old".ljust(32)))).verified
    chain = open_chain(world)

    assert isinstance(await chain.simulate(poor.envelope, poor.source), Rejected)
    assert isinstance(await chain.simulate(old.envelope, old.source), UnknownBlockhash)


async def test_a_payment_is_unseen_before_it_is_sent_and_landed_after(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    envelope = (await verified(world)).verified.envelope
    signed = envelope.sign(world.vm.genesis.fee_payer)
    chain = open_chain(world)
    assert await chain.wait(signed.signature, patience_s=0.01) == Unseen()
    await chain.broadcast(signed)

    assert await chain.wait(signed.signature, patience_s=5) == Landed(paid=AMOUNT, final=False)
    world.slots(40)
    landed, unknown = await chain.look([signed.signature, Signature("1" * 64)])
    assert isinstance(landed, Landed)
    assert isinstance(unknown, Unseen)
    assert unknown.height > 0


async def test_the_history_of_the_treasury_is_read_newest_first(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    facilitator = world.facilitator()
    bought = [
        await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)), key=f"key {n}")
        for n in range(2)
    ]
    world.slots(40)
    chain = open_chain(world)
    signatures = [each.payment.signature for each in bought if isinstance(each, Settled)]
    page = await chain.arrivals(after=None, before=None)

    assert [each for each in page.succeeded if each in signatures] == signatures[::-1]
    older = await chain.arrivals(after=None, before=page.oldest)
    assert (older.succeeded, older.newest, older.oldest) == ([], None, None)
    assert await chain.sponsored(signatures) == dict.fromkeys(signatures, True)
    assert await chain.finalized_height() > 0


async def test_the_chain_returns_balance_and_time_and_checks_the_payment_token(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    chain = open_chain(world)
    await chain.expect_usable()

    assert await chain.lamports(world.terms.fee_payer) == 10 * 10**9
    assert await chain.block_time_s() == world.vm.block("processed").at_ms // 1000
    nowhere = replace(world.terms, pay_to=Wallet(str(world.vm.genesis.key("new").pubkey())))
    with pytest.raises(UnusablePaymentToken):
        await open_chain(world, nowhere).expect_usable()


async def test_a_node_that_fails_raises_chain_unavailable(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    chain = open_chain(world)
    world.go_wrong(calls={"*": {"kind": "http", "status": 503}})
    for verb in (
        chain.look([Signature("1" * 64)]),
        chain.block_time_s(),
        chain.finalized_height(),
        chain.arrivals(after=None, before=None),
        chain.lamports(world.terms.fee_payer),
    ):
        with pytest.raises(ChainUnavailable):
            await verb


async def test_a_recorded_transaction_equals_the_sent_transaction(
    world: World, open_chain: Callable[..., Chain]
) -> None:
    signed = (await verified(world)).verified.envelope.sign(world.vm.genesis.fee_payer)
    chain = open_chain(world)
    assert await chain.recorded(signed.signature) is None
    await chain.broadcast(signed)
    world.slots(40)

    assert await chain.recorded(signed.signature) == signed.wire
