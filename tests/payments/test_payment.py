"""Rules for the state of a payment that hold for every history of evidence from the chain."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.payments.payment import (
    Dead,
    Evidence,
    Landed,
    PaidReport,
    Payment,
    Reverted,
    State,
    UnreadablePayment,
    Unseen,
    apply,
    weigh,
)
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Resource

AMOUNT: Final = 100
PENDING: Final = Payment(
    message_hash=MessageHash(bytes(32)),
    signature=Signature("s"),
    payer=Wallet("p"),
    address="a",
    resource=Resource("/r"),
    amount=AMOUNT,
    purchase=PaidReport(body=b"{}"),
    key_hash=CredentialHash(bytes(32)),
    fee_lamports=10_001,
    last_valid_height=1_000,
    begun_at=UnixMs(0),
    asset=Mint("m"),
)
landed = st.builds(
    Landed, paid=st.sampled_from([AMOUNT - 1, AMOUNT, AMOUNT + 5]), final=st.booleans()
)
evidence = st.one_of(
    landed,
    st.builds(Reverted, final=st.booleans()),
    st.builds(Dead, height=st.sampled_from([1_001, 1_032, 1_033])),
)
histories = st.lists(evidence, max_size=8)


def after(history: list[Evidence]) -> Payment:
    payment = PENDING
    for each in history:
        payment = apply(payment, each)
    return payment


def test_only_a_finalized_height_beyond_the_last_valid_height_proves_death() -> None:
    assert weigh(PENDING, Unseen()) is None
    assert weigh(PENDING, Unseen(height=1_000)) is None
    assert weigh(PENDING, UnreadablePayment(why="a transaction of another kind")) is None
    assert weigh(PENDING, Unseen(height=1_001)) == Dead(height=1_001)


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories)
def test_a_payment_is_issued_after_any_final_landing(history: list[Evidence]) -> None:
    final = apply(after(history), Landed(paid=AMOUNT, final=True))

    assert (final.state, final.final, final.reason) == (State.ISSUED, True, None)


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories, evidence)
def test_repeated_evidence_changes_nothing_unless_it_is_a_landing(
    history: list[Evidence], each: Evidence
) -> None:
    once = apply(after(history), each)
    twice = apply(once, each)

    assert twice == once or (not once.final and isinstance(each, Landed))


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories, evidence)
def test_a_final_state_changes_only_by_a_final_landing(
    history: list[Evidence], each: Evidence
) -> None:
    before = after(history)
    then = apply(before, each)
    if before.final and then.state is not before.state:
        assert isinstance(each, Landed)
        assert each.final


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories)
def test_every_state_has_a_matching_reason_and_amount(history: list[Evidence]) -> None:
    payment = after(history)
    match payment.state:
        case State.PENDING:
            assert payment == PENDING
        case State.ISSUED:
            assert payment.paid >= AMOUNT
            assert payment.reason is None
        case State.FAILED:
            assert payment.reason in {RefusalReason.REVERTED, RefusalReason.EXPIRED}
            assert payment.paid == 0
        case State.FROZEN:
            assert payment.reason in {RefusalReason.VANISHED, RefusalReason.UNDERPAID}
    assert payment.missed_height == 0 or payment.state is State.ISSUED
    begun = replace(payment, state=State.PENDING, paid=0, reason=None, final=False, missed_height=0)
    assert begun == PENDING


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories)
def test_an_issued_payment_is_frozen_only_32_blocks_after_a_missed_look(
    history: list[Evidence],
) -> None:
    before = after(history)
    once = apply(before, Dead(height=2_000))
    if before.state is State.ISSUED and before.missed_height == 0:
        assert once.state is State.ISSUED
        for height in (1_999, 2_000, 2_031):
            assert apply(once, Dead(height=height)) == once
        twice = apply(once, Dead(height=2_032))
        assert before.final or (twice.state, twice.reason) == (State.FROZEN, RefusalReason.VANISHED)
        assert apply(twice, Landed(paid=AMOUNT, final=True)).state is State.ISSUED


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(histories)
def test_a_sighting_cancels_an_earlier_missed_look(history: list[Evidence]) -> None:
    for seen in (Landed(paid=AMOUNT, final=False), Landed(paid=AMOUNT, final=True)):
        missed = apply(after(history), Dead(height=1_001))
        found = apply(missed, seen)
        if found.state is State.ISSUED:
            assert apply(found, Dead(height=5_000)).state is State.ISSUED


def test_a_dead_payment_is_no_longer_final_after_it_is_seen_to_land() -> None:
    """Two nodes contradict each other, so the payment stays failed and is checked again."""
    dead = apply(PENDING, Dead(height=2_000))
    assert (dead.state, dead.final) == (State.FAILED, True)

    seen = apply(dead, Landed(paid=AMOUNT, final=False))

    assert seen == replace(dead, final=False)
    assert apply(seen, Landed(paid=AMOUNT, final=True)).state is State.ISSUED
