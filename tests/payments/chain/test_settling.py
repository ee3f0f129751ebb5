"""A payment from the header to the answer, on a simulated chain with the faults of real chains."""

import asyncio
from dataclasses import replace

import pytest
from solders.hash import Hash

from mintscope.kit.credentials import CredentialKind, hint, is_well_formed
from mintscope.kit.primitives import CreditAccount, Wallet
from mintscope.payments.facilitator import Contradiction, Demand, VerifiedPayment
from mintscope.payments.payment import PaidReport, State, TopUp
from mintscope.payments.ports import (
    AlreadyUsed,
    ChainUnavailable,
    Obstacle,
    Settled,
    Unavailable,
    Unresolved,
    Used,
)
from mintscope.payments.protocol.envelope import RefusalReason, Refused, Resource
from mintscope.payments.protocol.memo import UnusablePaymentToken
from support.scenes.payments.payment_world import (
    AMOUNT,
    CREDITS,
    EXPIRY_SLOTS,
    KEY,
    RESOURCE,
    SECRETS,
    World,
    buy,
    on_older_chain,
)

OTHER_KEY = "someone-elses-secret"


async def test_a_payment_buys_a_token(world: World) -> None:
    facilitator = world.facilitator()
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert isinstance(outcome, Settled)
    assert outcome.token is not None
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, outcome.token)
    assert outcome.payment.paid == world.received() == AMOUNT
    assert world.ledger() == {hint(outcome.token): 10}
    assert world.fees() == 10_001


async def test_a_payment_buys_a_report_or_a_top_up(world: World) -> None:
    facilitator = world.facilitator()
    first = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(first, Settled)
    report = await buy(
        facilitator,
        world.pay(facilitator.require(RESOURCE, 2_500)),
        key=None,
        wanted=PaidReport(body=b"{}"),
    )
    account = CreditAccount(int(world.sql("SELECT id FROM credit_account")))
    top_up = await buy(
        facilitator,
        world.pay(facilitator.require(RESOURCE, AMOUNT)),
        key=None,
        wanted=TopUp(credits=50, account=account),
    )

    assert isinstance(report, Settled)
    assert report.token is None
    assert report.payment.purchase == PaidReport(body=b"{}")
    assert isinstance(top_up, Settled)
    assert list(world.ledger().values()) == [60]


async def test_two_equal_purchases_are_two_payments(world: World) -> None:
    facilitator = world.facilitator()
    payments = [world.pay(facilitator.require(RESOURCE, AMOUNT)) for _ in range(2)]
    outcomes = await asyncio.gather(
        *(
            buy(facilitator, each, key=key)
            for each, key in zip(payments, (KEY, OTHER_KEY), strict=True)
        )
    )

    assert [type(outcome) for outcome in outcomes] == [Settled, Settled]
    assert list(world.ledger().values()) == [10, 10]


async def test_an_answer_is_redelivered_only_to_the_holder_of_its_key(world: World) -> None:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    first = await buy(facilitator, payment)
    again = await buy(world.facilitator(), payment)

    assert isinstance(first, Settled)
    assert isinstance(again, Settled)
    assert first.token is not None
    assert again.redelivered
    assert again.token == first.token
    for key in (None, OTHER_KEY):
        assert await buy(facilitator, payment, key=key) == AlreadyUsed(Used.PAYMENT)
    elsewhere = await buy(facilitator, payment, resource=Resource("/v1/other"))
    assert elsewhere == AlreadyUsed(Used.PAYMENT)
    assert world.ledger() == {hint(first.token): 10}
    assert world.calls.count("sendTransaction") == 1


async def test_an_answer_is_redelivered_for_a_day_and_until_first_use(world: World) -> None:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, payment)
    world.clock.advance(24 * 3_600_000)
    assert isinstance(await buy(facilitator, payment), AlreadyUsed)
    world.clock.step(-3_600_000)
    assert isinstance(await buy(facilitator, payment), Settled)
    world.sql(
        "INSERT INTO credit_entry (account, kind, delta, balance, at) VALUES (1, 'spend', -1, 9, 0)"
    )

    assert isinstance(await buy(facilitator, payment), AlreadyUsed)


async def test_a_payment_sent_twenty_times_at_once_is_settled_once(world: World) -> None:
    facilitators = [world.facilitator(), world.facilitator()]
    payment = world.pay(facilitators[0].require(RESOURCE, AMOUNT))
    outcomes = await asyncio.gather(
        *(buy(facilitators[n % 2], payment, key=KEY if n % 4 < 2 else OTHER_KEY) for n in range(20))
    )
    settled = [outcome for outcome in outcomes if isinstance(outcome, Settled)]

    assert len({outcome.token for outcome in settled}) == 1
    assert len(settled) == 10
    assert [outcome for outcome in outcomes if outcome not in settled] == [
        AlreadyUsed(Used.PAYMENT)
    ] * 10
    assert list(world.ledger().values()) == [10]
    assert world.fees() == 10_001


@pytest.mark.parametrize("key", [KEY, None])
async def test_a_payment_that_lands_between_lookup_and_simulation_is_not_refused(
    world: World, key: str | None
) -> None:
    """The chain rejects a payment that has landed; a client that got this error would pay again."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    slow = await facilitator.present(
        payment, Demand(resource=RESOURCE, key=key, address="192.0.2.1")
    )
    quick = await buy(world.facilitator(), payment)
    assert isinstance(slow, VerifiedPayment)
    assert isinstance(quick, Settled)
    outcome = await slow.settle(CREDITS)

    if key is None:
        assert outcome == AlreadyUsed(Used.PAYMENT)
    else:
        assert isinstance(outcome, Settled)
        assert outcome.token == quick.token


@pytest.mark.parametrize("processes", [1, 2])
async def test_one_of_twenty_payments_is_served_if_the_funds_suffice_for_one(
    world: World, processes: int
) -> None:
    """One payment is served and one fee is paid, for any number of processes."""
    poor = world.fund("poor", atoms=AMOUNT)
    facilitators = [world.facilitator() for _ in range(processes)]
    payments = [world.pay(facilitators[0].require(RESOURCE, AMOUNT), poor) for _ in range(20)]
    outcomes = await asyncio.gather(
        *(buy(facilitators[n % processes], payment, key=None) for n, payment in enumerate(payments))
    )

    assert [type(outcome) for outcome in outcomes].count(Settled) == 1
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert {outcome.reason for outcome in refused} <= {
        RefusalReason.FUNDS,
        RefusalReason.INSUFFICIENT_FUNDS,
    }
    assert len(refused) == 19
    assert world.fees() == 10_001
    assert world.received() == AMOUNT


async def test_sixty_simultaneous_payments_need_at_most_forty_status_requests(world: World) -> None:
    facilitator = world.facilitator(patience_s=10)
    buyers = [world.fund(f"buyer {n}") for n in range(60)]
    outcomes = await asyncio.gather(
        *(
            buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT), buyer), key=None)
            for buyer in buyers
        )
    )

    assert all(isinstance(outcome, Settled) for outcome in outcomes)
    assert world.calls.count("getSignatureStatuses") <= 40


async def test_a_payment_that_cannot_succeed_is_never_sent(world: World) -> None:
    facilitator = world.facilitator()
    stranger = world.vm.genesis.key("without a token account")
    poor = world.fund("poor", atoms=AMOUNT - 1)
    requirement = facilitator.require(RESOURCE, AMOUNT)
    hopeless = [world.pay(requirement, stranger), world.pay(requirement, poor)]

    assert [await buy(facilitator, payment) for payment in hopeless] == [
        Refused(RefusalReason.INSUFFICIENT_FUNDS)
    ] * 2
    assert "sendTransaction" not in world.calls


async def test_an_unknown_blockhash_is_refused_only_while_the_node_moves(world: World) -> None:
    """The service's node may be behind the payer's node until its slot has moved on."""
    world.seconds(30)  # so that there are final blocks
    facilitator = world.facilitator()
    requirement = facilitator.require(RESOURCE, AMOUNT)
    payment = world.pay(requirement, blockhash=Hash(b"of another node".ljust(32)))
    assert await buy(facilitator, payment) == Unavailable(Obstacle.NODE_BEHIND)
    world.moving.add("simulateTransaction")

    assert await buy(facilitator, payment) == Refused(RefusalReason.BLOCKHASH)
    assert "sendTransaction" not in world.calls


async def test_a_payment_waits_for_a_node_that_is_a_slot_behind(world: World) -> None:
    """The payer's node is one slot ahead of the service's node; the payment is valid."""
    facilitator = world.facilitator()
    ahead = world.vm.genesis.blockhash(world.vm.block("processed").slot + 1)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT), blockhash=ahead)
    buying = asyncio.create_task(buy(facilitator, payment))
    await world.until_called("simulateTransaction")
    world.slots(2)  # it is confirmed

    assert isinstance(await buying, Settled)


async def test_a_payment_is_unavailable_but_not_refused_if_the_fee_payer_is_empty(
    world: World,
) -> None:
    spent = world.vm.genesis.key("a fee payer without SOL")
    terms = replace(world.terms, fee_payer=Wallet(str(spent.pubkey())))
    facilitator = world.facilitator(terms=terms, fee_payer=spent)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT), terms=terms)

    assert await buy(facilitator, payment) == Unavailable(Obstacle.CHAIN)


async def test_a_payment_of_an_old_fee_payer_is_still_issued_after_it_lands(world: World) -> None:
    """The payment cannot be sent again after the change of the key, but is issued if it landed."""
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "late", "ms": 15_000})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment), Unresolved)
    new = world.facilitator(fee_payer=world.vm.genesis.key("a new fee payer"))
    assert isinstance(await buy(new, payment), Unresolved)
    world.slots(80)

    assert isinstance(await buy(new, payment), Settled)


async def test_a_token_derived_from_another_pepper_is_not_delivered(world: World) -> None:
    """After a change of the pepper another token would be derived, which has no credits."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, payment)
    other = replace(SECRETS, token=b"another key".ljust(32))

    with pytest.raises(Contradiction, match="pepper"):
        await buy(world.facilitator(secrets=other), payment)


async def test_a_payment_for_another_network_is_refused(world: World) -> None:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    other = replace(payment, network="solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1")

    assert await buy(facilitator, other) == Refused(RefusalReason.NO_MATCHING_REQUIREMENT)
    assert world.calls == []


async def test_an_invalid_payment_is_refused_with_the_reason(world: World) -> None:
    facilitator = world.facilitator()
    requirement = facilitator.require(RESOURCE, AMOUNT)
    garbled = replace(world.pay(requirement), transaction=b"none")
    too_little = world.pay(requirement, amount=AMOUNT - 1)

    assert await buy(facilitator, garbled) == Refused(RefusalReason.UNDECODABLE)
    values = f"Expected {AMOUNT} atoms; there were {AMOUNT - 1}."
    assert await buy(facilitator, too_little) == Refused(RefusalReason.AMOUNT, values=values)
    assert world.calls == []


async def test_a_quote_is_valid_for_one_payment(world: World) -> None:
    facilitator = world.facilitator()
    requirement = facilitator.require(RESOURCE, AMOUNT)
    first = world.pay(requirement)
    world.slots(1)
    second = world.pay(requirement)

    assert isinstance(await buy(facilitator, first), Settled)
    assert await buy(facilitator, second, key=OTHER_KEY) == Refused(RefusalReason.QUOTE_USED)
    assert world.received() == AMOUNT


async def test_reverted_payments_buy_nothing_and_the_fourth_payment_is_refused(
    world: World,
) -> None:
    """The payer empties its account between the simulation and the block."""
    facilitator = world.facilitator()
    world.go_wrong(landing={"kind": "failed"})
    for n in range(3):
        outcome = await buy(
            facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)), key=f"{KEY}{n}"
        )
        assert isinstance(outcome, Refused)
        assert outcome.reason is RefusalReason.REVERTED
        assert outcome.signature
    world.go_wrong()
    fourth = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert fourth == Refused(RefusalReason.TOO_MANY_FAILURES)
    assert world.ledger() == {}
    assert world.fees() == 3 * 10_001


async def test_a_late_landing_is_redeemed_with_the_generated_key(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "late", "ms": 15_000})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    pending = await buy(facilitator, payment, key=None)
    assert isinstance(pending, Unresolved)
    assert pending.key is not None
    assert await buy(facilitator, payment, key=None) == AlreadyUsed(Used.PAYMENT)
    world.slots(80)
    redeemed = await buy(facilitator, payment, key=pending.key)

    assert isinstance(redeemed, Settled)
    assert redeemed.token is not None
    assert world.ledger() == {hint(redeemed.token): 10}
    assert world.fees() == 10_001


async def test_a_client_with_a_key_gets_no_generated_key(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "never"})
    pending = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert isinstance(pending, Unresolved)
    assert pending.key is None


async def test_a_key_cannot_be_used_for_a_second_payment(world: World) -> None:
    """A client that sends a second payment with the key of the first would pay twice."""
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "never", "times": 1})
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    again = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert again == AlreadyUsed(Used.KEY)


@on_older_chain
async def test_only_the_chain_declares_a_payment_dead(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "never"})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, payment)
    world.slots(150)  # its blockhash has expired, but not yet at the finalized height
    await world.reconciler().once()
    assert state(world) == State.PENDING
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()

    assert state(world) == State.FAILED
    outcome = await buy(facilitator, payment)
    assert isinstance(outcome, Refused)
    assert outcome.reason is RefusalReason.EXPIRED
    assert isinstance(
        await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT))), Unresolved
    )


async def test_a_dropped_payment_is_broadcast_again_if_the_client_resends_it(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "dropped", "times": 4})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment), Unresolved)
    outcome = await buy(world.facilitator(), payment)

    assert isinstance(outcome, Settled)
    assert world.calls.count("sendTransaction") == 5


@on_older_chain
async def test_credits_of_a_payment_that_vanishes_are_frozen(world: World) -> None:
    facilitator = world.facilitator()
    world.go_wrong(landing={"kind": "vanish", "ms": 400, "times": 1})
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(outcome, Settled)
    world.slots(EXPIRY_SLOTS)
    for blocks in (30, 1):  # each look itself adds one slot
        await world.reconciler().once()
        assert state(world) == State.ISSUED
        world.slots(blocks)
    await world.reconciler().once()

    assert state(world) == State.FROZEN
    assert list(world.ledger().values()) == [0]


async def test_a_payment_seen_between_two_misses_is_not_frozen(world: World) -> None:
    facilitator = world.facilitator()
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.go_wrong(blind=["getSignatureStatuses"])
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()
    world.go_wrong()
    await world.reconciler().once()
    world.go_wrong(blind=["getSignatureStatuses"])
    world.slots(100)
    await world.reconciler().once()

    assert state(world) == State.ISSUED


async def test_credits_frozen_by_the_error_of_a_blind_node_are_restored(world: World) -> None:
    """A node returned no status, as if the payment had vanished; an audit finds the payment."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, payment)
    world.go_wrong(blind=["getSignatureStatuses"])
    await world.miss()
    assert state(world) == State.FROZEN
    world.go_wrong()

    assert await world.audit() == []
    assert state(world) == State.ISSUED
    assert isinstance(await buy(facilitator, payment), Settled)


async def test_a_landed_payment_becomes_final_at_the_next_reconciliation(world: World) -> None:
    facilitator = world.facilitator()
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.slots(60)

    assert await world.reconciler().once() == 1
    assert await world.reconciler().once() == 0


@pytest.mark.parametrize("methods", [["getSignatureStatuses"], ["getTransaction"]])
async def test_a_blind_node_only_delays_a_payment(world: World, methods: list[str]) -> None:
    facilitator = world.facilitator(patience_s=0.05)
    world.go_wrong(blind=methods)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment), Unresolved)
    world.go_wrong()
    await world.reconciler().once()

    assert state(world) == State.ISSUED
    assert isinstance(await buy(facilitator, payment), Settled)


async def test_late_landing_wins_even_over_the_verdict_of_a_blind_node(world: World) -> None:
    """A node that never saw the payment made it count as dead; the treasury's history lists it."""
    facilitator = world.facilitator(patience_s=0.05)
    world.go_wrong(blind=["getSignatureStatuses"])
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, payment)
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()
    assert state(world) == State.FAILED
    world.go_wrong()
    page = await world.chain().arrivals(after=None, before=None)
    await world.reconciler().issue_arrived(page.succeeded)

    assert state(world) == State.ISSUED
    assert isinstance(await buy(facilitator, payment), Settled)
    assert (await world.chain().arrivals(after=page.newest, before=None)).succeeded == []
    assert (await world.chain().arrivals(after=None, before=page.oldest)).oldest is None


@pytest.mark.parametrize(
    "trouble",
    [
        {"kind": "http", "status": 503},
        {"kind": "http", "status": 429},
        {"kind": "rpc"},
    ],
)
async def test_a_payment_can_be_sent_again_after_an_outage_before_the_broadcast(
    world: World, trouble: dict[str, object]
) -> None:
    facilitator = world.facilitator()
    world.go_wrong(calls={"*": trouble})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert await buy(facilitator, payment) == Unavailable(Obstacle.CHAIN)
    world.go_wrong()

    assert isinstance(await buy(facilitator, payment), Settled)


@pytest.mark.parametrize("kind", ["http", "rpc"])
async def test_an_outage_of_the_broadcast_is_not_a_refusal(world: World, kind: str) -> None:
    """The node may have received the payment, so it stays pending, and can be redeemed later."""
    facilitator = world.facilitator(patience_s=0.05)
    world.go_wrong(calls={"sendTransaction": {"kind": kind}})
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment), Unresolved)
    world.go_wrong()

    assert isinstance(await buy(facilitator, payment), Settled)


@pytest.mark.parametrize(
    "after", ["simulateTransaction", "sendTransaction", "getSignatureStatuses"]
)
async def test_a_payment_is_issued_to_its_owner_after_its_handler_was_cancelled(
    world: World, after: str
) -> None:
    """The client or the process may stop at any point; the owner still gets its token."""
    payment = world.pay(world.facilitator().require(RESOURCE, AMOUNT))
    dying = asyncio.create_task(buy(world.facilitator(), payment))
    await world.until_called(after)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    world.slots(3)
    await world.reconciler().once()
    stolen = await buy(world.facilitator(), payment, key=OTHER_KEY) if state(world) else None
    outcome = await buy(world.facilitator(), payment)

    assert not isinstance(stolen, Settled)
    assert isinstance(outcome, Settled)
    assert outcome.token == SECRETS.credit_token(outcome.payment.message_hash, KEY)
    assert list(world.ledger().values()) == [10]
    assert world.fees() == 10_001


async def test_a_process_that_is_about_to_stop_waits_for_no_payment(world: World) -> None:
    facilitator = world.facilitator(patience_s=60.0)
    world.moving.clear()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    buying = asyncio.create_task(buy(facilitator, payment, key=None))
    await world.until_called("getSignatureStatuses")
    world.chains[-1].stop()
    pending = await buying
    assert isinstance(pending, Unresolved)
    assert pending.key is not None
    assert isinstance(await buy(facilitator, payment, key=pending.key), Unresolved)

    world.moving.add("getSignatureStatuses")
    assert isinstance(await buy(world.facilitator(), payment, key=pending.key), Settled)
    assert world.fees() == 10_001


async def test_a_payment_is_not_sent_while_sales_are_closed(world: World) -> None:
    facilitator = world.facilitator()
    world.sql("INSERT INTO sales_stop VALUES (1, 0, 'a test')")
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))

    assert await buy(facilitator, payment) == Unavailable(Obstacle.SALES_CLOSED)
    assert "sendTransaction" not in world.calls


def state(world: World) -> str | None:
    found = world.sql("SELECT state FROM payment")
    return None if found is None else str(found)


async def test_the_start_check_expects_the_treasury_of_the_payee(world: World) -> None:
    await world.chain().expect_usable()
    elsewhere = replace(world.terms, pay_to=Wallet(str(world.vm.genesis.key("new").pubkey())))

    with pytest.raises(UnusablePaymentToken, match="spl-token create-account"):
        await world.chain(elsewhere).expect_usable()
    assert await world.chain().lamports(world.terms.fee_payer) == 10 * 10**9


async def test_the_time_of_the_chain_equals_that_of_its_newest_block(world: World) -> None:
    world.seconds(60)

    assert await world.chain().block_time_s() == world.vm.block("processed").at_ms // 1000


class Enough(Exception):
    """Ends the endless loop of a reconciler."""


async def test_the_reconciler_goes_on_after_an_outage(world: World) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "late", "ms": 4_000})
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.go_wrong(calls={"*": {"kind": "http"}})
    troubles: list[Exception] = []
    pauses = 0

    async def pause(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        world.slots(60)
        world.clock.step(60_000)
        if pauses == 2:
            world.go_wrong()
        if pauses == 4:
            raise Enough

    reconciler = replace(world.reconciler(), clock=world.clock)
    with pytest.raises(Enough):
        await reconciler.run(pause, troubles.append)

    assert [type(trouble) for trouble in troubles] == [ChainUnavailable]
    assert state(world) == State.ISSUED
