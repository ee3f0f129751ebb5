"""Searches of the support staff for a payment, by anything the customer knows, on every engine."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.app.stores.stores import Money
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.payments.audit import Orphan
from mintscope.payments.payment import Landed, State, TopUp
from mintscope.payments.ports import Begun, Budget, Settled, Unresolved
from mintscope.payments.protocol.envelope import Resource
from mintscope.payments.search import (
    FOUND_MAX,
    Finding,
    Kept,
    Seen,
    Wanted,
    advise,
    advise_orphan,
    advise_unknown,
)
from support.scenes.payments.payment_world import (
    AMOUNT,
    KEY,
    RESOURCE,
    TODAY,
    World,
    buy,
    world_at,
)
from support.scenes.payments.pending_payments import new_payment
from support.scenes.stores import money_in

MANY: Final = Budget(in_flight_new_payer=99, in_flight_payer=99, in_flight_address=99)
UNKNOWN: Final = Signature("5" * 88)
HINT_LENGTH: Final = 8


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path, TODAY) as world:
        yield world


@pytest.fixture
async def money(world: World) -> AsyncIterator[Money]:
    async with money_in(world.path.parent, pepper=b"r" * 32, clock=world.clock) as money:
        yield money


async def bought(world: World) -> Settled:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT, KEY))
    outcome = await buy(facilitator, payment)
    assert isinstance(outcome, Settled)
    return outcome


async def found(money: Money, **wanted: object) -> Kept:
    return await money.read_books.search(Wanted(**wanted))  # type: ignore[arg-type]


async def test_a_payment_is_found_by_signature_wallet_and_the_end_of_its_token(
    world: World, money: Money
) -> None:
    outcome = await bought(world)
    assert outcome.token is not None
    by_signature = await found(money, signatures=[outcome.payment.signature])
    by_wallet = await found(money, payers=[outcome.payment.payer])
    by_hint = await found(money, hint=outcome.token[-HINT_LENGTH:])

    assert by_signature.payments == by_wallet.payments == by_hint.payments
    (payment,) = by_signature.payments
    assert (payment.state, payment.credit_count, payment.paid) == (State.ISSUED, 10, AMOUNT)
    assert payment.holder is not None
    assert (payment.holder.balance, payment.holder.hint) == (10, outcome.token[-HINT_LENGTH:])
    assert by_signature.payment_count == 1


async def test_the_holder_of_moved_credits_and_their_balance_are_shown(
    world: World, money: Money
) -> None:
    outcome = await bought(world)
    old = await money.ledger.find(outcome.token or "")
    assert old is not None
    await money.ledger.spend(old)
    await money.payments.rotate(old, bytes(32), "new-hint", now=world.clock.now())  # type: ignore[arg-type]
    (payment,) = (await found(money, hint=payment_hint(outcome))).payments
    advice = advise(payment, None, world.clock.now())

    assert payment.holder is not None
    assert (payment.holder.hint, payment.holder.balance) == ("new-hint", 9)
    assert advice.finding is Finding.CREDITS_ISSUED
    assert "new-hint" in advice.text
    assert "9 left" in advice.text
    assert (await found(money, hint="new-hint")).payments == [payment]


def payment_hint(outcome: Settled) -> str:
    assert outcome.token is not None
    return outcome.token[-HINT_LENGTH:]


async def test_a_payment_under_way_differs_from_one_that_never_landed(
    world: World, money: Money
) -> None:
    world.go_wrong(landing={"kind": "never"})
    facilitator = world.facilitator(patience_s=0.02)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT, KEY))
    outcome = await buy(facilitator, payment)
    assert isinstance(outcome, Unresolved)
    wanted = {"signatures": [outcome.payment.signature]}
    (pending,) = (await found(money, **wanted)).payments
    world.seconds(600)
    await world.reconciler().once()
    (failed,) = (await found(money, **wanted)).payments

    now = world.clock.now()
    landed = Landed(paid=AMOUNT, final=True)
    assert advise(pending, None, now).finding is Finding.UNDER_WAY
    assert "not pay again" in advise(pending, None, now).text
    assert advise(pending, landed, now).finding is Finding.ARRIVED_UNFINISHED
    assert advise(failed, None, now).finding is Finding.NEVER_LANDED
    assert advise(failed, landed, now).finding is Finding.ARRIVED_UNFINISHED


async def test_an_orphan_is_found_with_the_note_of_its_settlement_by_hand(
    world: World, money: Money
) -> None:
    now = world.clock.now()
    payer = Wallet("a wallet")
    orphan = Orphan(
        signature=UNKNOWN, payer=payer, amount=5, asset=None, bought=RESOURCE, found_at=now
    )
    await money.books.note_orphans([orphan])
    (open_,) = (await found(money, payers=[payer])).orphans
    await money.books.acknowledge(UNKNOWN, note="refunded", by=COMMAND_LINE, now=now)
    kept = await found(money, signatures=[UNKNOWN])

    assert advise_orphan(open_).finding is Finding.LOST_ROW
    assert f"mintscope sales adopt {UNKNOWN}" in advise_orphan(open_).do
    assert [advise_orphan(each).finding for each in kept.orphans] == [Finding.SETTLED_BY_HAND]
    assert "refunded" in advise_orphan(kept.orphans[0]).text


async def test_a_search_returns_the_newest_payments_and_none_without_a_criterion(
    money: Money,
) -> None:
    store = money.payments
    payer = Wallet("busy")
    await money.books.fill_fund(10**12, mark=0)
    for number in range(FOUND_MAX + 5):
        asked = new_payment(f"{number}", payer=payer, budget=MANY, begun_at=UnixMs(1_000 + number))
        assert isinstance(await store.begin(asked), Begun)
    kept = await found(money, payers=[payer])
    nothing = await found(money)

    assert len(kept.payments) == FOUND_MAX
    begun = [each.begun_at for each in kept.payments]
    assert begun == sorted(begun, reverse=True)
    assert begun[0] == 1_000 + FOUND_MAX + 4
    assert (nothing.payments, nothing.orphans) == ([], [])
    assert nothing.payment_count == FOUND_MAX + 5


async def account_of_user(money: Money, world: World) -> CreditAccount:
    """Create a user; return the account of the user, whose hint is empty."""
    now = world.clock.now()
    email = EmailAddress("user@example.org")
    new = NewUser(kind=UserKind.AGENT, username="user", email=email, created_at=now)
    user_id = await money.accounts.transact(lambda rows: rows.users.insert(new))
    secrets = AccountSecrets.derive(b"r" * 32)
    accounts = AccountCredits(
        store=money.accounts, secrets=secrets, clock=world.clock, entropy=bytes
    )
    return await accounts.open(user_id)


async def test_a_search_by_an_empty_hint_finds_no_payment_of_a_user(
    world: World, money: Money
) -> None:
    """Credit accounts of users have an empty hint, which an empty search must not match."""
    account = await account_of_user(money, world)
    await money.books.fill_fund(10**12, mark=0)
    asked = new_payment("a user", purchase=TopUp(credits=10, account=account))
    assert isinstance(await money.payments.begin(asked), Begun)

    by_account = await found(money, accounts=[account])
    assert [each.signature for each in by_account.payments] == [asked.payment.signature]
    assert (await found(money, hint="")).payments == []
    assert (await found(money)).payments == []


@pytest.mark.parametrize(
    ("seen", "finding"),
    [
        (None, Finding.NOT_FOUND),
        (Seen(sighting=Landed(paid=5, final=True)), Finding.NOT_OURS),
        (Seen(sighting=Landed(paid=5, final=False), bought=RESOURCE), Finding.NOT_FINAL),
        (Seen(sighting=Landed(paid=5, final=True), bought=Resource("/x")), Finding.LOST_ROW),
    ],
)
def test_the_advice_for_a_signature_without_a_row_follows_the_chain(
    seen: Seen | None, finding: Finding
) -> None:
    advice = advise_unknown(UNKNOWN, seen)
    assert advice.finding is finding
    assert UNKNOWN in advice.text
