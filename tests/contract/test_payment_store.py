"""The contract of every PaymentStore, in memory and on every engine."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payment_engines import ENGINES, Engine, SqlEngine, every_engine, resolve

from mintscope.app.stores.sqlite import payment_store
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments.payment import (
    Evidence,
    Landed,
    PaidItem,
    PaidReport,
    Reverted,
    State,
    TopUp,
)
from mintscope.payments.ports import (
    KEY_TAKEN,
    SALES_CLOSED,
    AlreadyUsed,
    Begun,
    Budget,
    Inconsistent,
    KnownPayment,
    PendingPayment,
    Rotated,
    Unavailable,
)
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Refused
from mintscope.payments.store.payments import BEGIN, REPORTS_A_PART, columns_of
from mintscope.solana.blocks import USDC
from support.scenes.payments.pending_payments import (
    AGAIN_MS,
    AMOUNT,
    DEAD,
    LANDED,
    LANDED_FOR_GOOD,
    NOW,
    REVERTED,
    STILL_DEAD,
    key_hash,
    named,
    new_payment,
    new_token,
)

ANY_STRANGER: Final = Budget(in_flight_new_payer=1_000)


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with ENGINES[request.param](tmp_path) as engine:
        yield engine


async def test_a_begun_payment_is_found(engine: Engine) -> None:
    asked = new_payment("a")
    assert (await engine.store.find(asked.payment.message_hash)).payment is None
    assert isinstance(await engine.store.begin(asked), Begun)

    found = await engine.store.find(asked.payment.message_hash)
    assert found.payment == asked.payment
    assert list(await engine.store.find_signatures([asked.payment.signature])) == [asked.payment]


async def test_a_buyer_is_known_by_wallet_and_by_address_after_a_purchase(engine: Engine) -> None:
    alice, bob = Wallet("alice"), Wallet("bob")
    here = "192.0.2.1"
    there = "192.0.2.2"
    good = new_payment("good", payer=alice, address=here)
    for asked in (good, new_payment("bad", payer=bob, address=there)):
        await engine.store.begin(asked)
        assert not await engine.store.has_bought(asked.payment.payer)  # the payment is pending
        assert not await engine.store.has_bought_from(asked.payment.address)
        await resolve(engine, asked, LANDED if asked is good else REVERTED)

    assert [await engine.store.has_bought(each) for each in (alice, bob)] == [True, False]
    assert [await engine.store.has_bought_from(each) for each in (here, there)] == [True, False]


@pytest.mark.parametrize(
    "purchase",
    [PaidReport(body=b'{"a":1}'), new_token("x"), TopUp(credits=5, account=CreditAccount(1))],
)
async def test_a_paid_item_is_stored_with_its_payment(engine: Engine, purchase: PaidItem) -> None:
    engine.open_account(1)
    asked = new_payment("a", purchase=purchase)
    await engine.store.begin(asked)
    await resolve(engine, asked, LANDED)

    found = (await engine.store.find(asked.payment.message_hash)).payment
    assert found is not None
    assert (found.purchase, found.state, found.paid) == (purchase, State.ISSUED, AMOUNT)


async def test_the_same_message_is_begun_once_and_known_after_that(engine: Engine) -> None:
    await engine.store.begin(new_payment("a"))

    assert await engine.store.begin(new_payment("a", key_hash=key_hash("other"))) == KnownPayment(
        new_payment("a").payment
    )


async def test_a_payment_that_lands_several_times_is_issued_once(engine: Engine) -> None:
    asked = new_payment("a")
    await engine.store.begin(asked)
    for evidence in (LANDED, LANDED, LANDED_FOR_GOOD, LANDED):
        assert (await resolve(engine, asked, evidence)).state is State.ISSUED

    assert engine.credits(asked.payment.purchase) == 10


async def test_a_top_up_adds_its_credits_to_the_account(engine: Engine) -> None:
    asked = new_payment("a", purchase=TopUp(credits=50, account=engine.open_account(3)))
    await engine.store.begin(asked)
    await resolve(engine, asked, LANDED_FOR_GOOD)

    assert engine.credits(asked.payment.purchase) == 53


async def test_a_failed_payment_is_issued_if_it_lands_for_good(engine: Engine) -> None:
    asked = new_payment("a")
    await engine.store.begin(asked)
    assert (await resolve(engine, asked, DEAD)).reason is RefusalReason.EXPIRED
    reopened = await resolve(engine, asked, LANDED)
    assert (reopened.state, reopened.final) == (State.FAILED, False)
    issued = await resolve(engine, asked, LANDED_FOR_GOOD)

    assert (issued.state, issued.reason, issued.final) == (State.ISSUED, None, True)
    assert engine.credits(asked.payment.purchase) == 10


@pytest.mark.parametrize("is_top_up", [False, True])
async def test_a_payment_that_vanishes_is_frozen_until_it_returns(
    engine: Engine, *, is_top_up: bool
) -> None:
    """The payment's credits are taken back, but never more than the account has left."""
    account = engine.open_account(5)
    purchase = TopUp(credits=10, account=account) if is_top_up else new_token("a")
    asked = new_payment("a", purchase=purchase)
    await engine.store.begin(asked)
    await resolve(engine, asked, LANDED)
    for _ in range(3):
        engine.spend(purchase)
    left = engine.credits(purchase)
    assert (await resolve(engine, asked, DEAD)).state is State.ISSUED
    assert engine.credits(purchase) == left
    frozen = await resolve(engine, asked, STILL_DEAD)

    assert (frozen.state, frozen.reason) == (State.FROZEN, RefusalReason.VANISHED)
    assert engine.credits(purchase) == max(0, left - 10)
    assert (await resolve(engine, asked, LANDED_FOR_GOOD)).state is State.ISSUED
    assert engine.credits(purchase) == left


async def test_a_payment_that_returns_twice_restores_only_credits_that_were_frozen(
    engine: Engine,
) -> None:
    asked = new_payment("a")
    await engine.store.begin(asked)
    for evidence in (LANDED, Reverted(final=False), LANDED):
        await resolve(engine, asked, evidence)
    for _ in range(10):
        engine.spend(asked.payment.purchase)
    for evidence in (Reverted(final=False), LANDED_FOR_GOOD):
        await resolve(engine, asked, evidence)

    assert engine.credits(asked.payment.purchase) == 0


async def test_a_payment_is_frozen_once(engine: Engine) -> None:
    """The proof that it is dead takes nothing more: its ten credits were taken when it reverted."""
    purchase = TopUp(credits=10, account=engine.open_account(15))
    asked = new_payment("a", purchase=purchase)
    await engine.store.begin(asked)
    for evidence in (LANDED, Reverted(final=False), DEAD):
        await resolve(engine, asked, evidence)

    assert engine.credits(purchase) == 15
    await resolve(engine, asked, LANDED_FOR_GOOD)
    assert engine.credits(purchase) == 25


async def test_an_underpaid_payment_issues_nothing(engine: Engine) -> None:
    asked = new_payment("a")
    await engine.store.begin(asked)
    short = await resolve(engine, asked, Landed(paid=AMOUNT - 1, final=True))

    assert (short.state, short.reason) == (State.FROZEN, RefusalReason.UNDERPAID)
    assert engine.credits(asked.payment.purchase) == 0


async def test_a_key_belongs_to_one_payment_until_that_payment_fails(engine: Engine) -> None:
    first = new_payment("a", key_hash=key_hash("k"))
    await engine.store.begin(first)
    assert await engine.store.begin(new_payment("b", key_hash=key_hash("k"))) == KEY_TAKEN
    await resolve(engine, first, DEAD)

    assert isinstance(await engine.store.begin(new_payment("b", key_hash=key_hash("k"))), Begun)


async def test_pending_payments_reserve_the_funds_of_their_payer(engine: Engine) -> None:
    """The payer has funds for one of twenty payments, so only one of them may begin."""
    outcomes = [await engine.store.begin(new_payment(str(n), balance_after=0)) for n in range(20)]

    assert [type(outcome) for outcome in outcomes].count(Begun) == 1
    assert outcomes.count(Refused(RefusalReason.FUNDS)) == 19
    assert isinstance(
        await engine.store.begin(new_payment("x", payer="bob", balance_after=0)), Begun
    )
    covered = new_payment("y", balance_after=AMOUNT)
    assert isinstance(await engine.store.begin(covered), Begun)


async def test_pending_payments_of_one_token_reserve_nothing_of_another(engine: Engine) -> None:
    own, usdc = Mint("scope"), Mint("usdc")

    async def begun(name: str, asset: Mint | None, balance_after: int) -> bool:
        asked = new_payment(name, asset=asset, balance_after=balance_after, budget=ANY_STRANGER)
        return isinstance(await engine.store.begin(asked), Begun)

    assert await begun("a", own, 0)
    assert not await begun("b", own, AMOUNT - 1)
    assert await begun("c", usdc, 0)
    assert not await begun("d", usdc, AMOUNT - 1)
    assert await begun("e", usdc, AMOUNT)
    found = (await engine.store.find(new_payment("e").payment.message_hash)).payment
    assert found is not None
    assert found.asset == usdc


async def test_a_payment_without_a_stored_token_reserves_funds_in_every_token(
    engine: Engine,
) -> None:
    await engine.store.begin(new_payment("a", asset=None))
    late = new_payment("b", asset=Mint("usdc"), balance_after=AMOUNT - 1)

    assert await engine.store.begin(late) == Refused(RefusalReason.FUNDS)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    asked=st.lists(
        st.tuples(st.sampled_from(["scope", "usdc"]), st.sampled_from(["alice", "bob"])),
        max_size=12,
    ),
    funds=st.integers(0, 4),
)
async def test_a_payer_begins_exactly_as_many_payments_as_its_funds_cover(
    asked: list[tuple[str, str]], funds: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A payer's balance of each token is *funds* times the price: enough for *funds* payments."""
    generous = Budget(in_flight_new_payer=99, in_flight_payer=99)
    async with every_engine(tmp_path_factory.mktemp("money")) as engines:
        for engine in engines[:2]:
            begun = Counter[tuple[str, str]]()
            for n, (asset, payer) in enumerate(asked):
                payment = new_payment(
                    f"{n}",
                    asset=Mint(asset),
                    payer=payer,
                    balance_after=(funds - 1) * AMOUNT,
                    budget=generous,
                )
                began = isinstance(await engine.store.begin(payment), Begun)
                assert began == (begun[asset, payer] < funds)
                begun[asset, payer] += began


async def test_a_payment_that_resolved_since_the_lookup_still_reserves_funds(
    engine: Engine,
) -> None:
    """The simulated balance may be older than the landing of the resolved payment."""
    mark = (await engine.store.find(MessageHash(named("b")))).mark
    first = new_payment("a")
    await engine.store.begin(first)
    await resolve(engine, first, LANDED)

    late = await engine.store.begin(new_payment("b", balance_after=0, mark=mark))
    assert late == Refused(RefusalReason.FUNDS)
    mark = (await engine.store.find(MessageHash(named("b")))).mark
    assert isinstance(await engine.store.begin(new_payment("b", balance_after=0, mark=mark)), Begun)


async def test_a_payment_that_only_became_final_since_the_lookup_reserves_nothing(
    engine: Engine,
) -> None:
    first = new_payment("a")
    await engine.store.begin(first)
    await resolve(engine, first, LANDED)
    mark = (await engine.store.find(MessageHash(named("b")))).mark
    await resolve(engine, first, LANDED_FOR_GOOD)

    assert isinstance(await engine.store.begin(new_payment("b", balance_after=0, mark=mark)), Begun)


@pytest.mark.parametrize(("same", "enough"), [("payer", 3), ("address", 4)])
async def test_failures_of_an_hour_are_limited_by_payer_and_by_address(
    engine: Engine, same: str, enough: int
) -> None:
    def one(n: int, now: UnixMs = NOW) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return new_payment(f"{same} {n}", begun_at=now, **differing)

    for n in range(enough):
        assert isinstance(await engine.store.begin(one(n)), Begun)
        await resolve(engine, one(n), REVERTED)

    assert await engine.store.begin(one(5)) == Refused(RefusalReason.TOO_MANY_FAILURES)
    assert isinstance(await engine.store.begin(one(6, UnixMs(NOW + HOUR_MS))), Begun)
    bystander = new_payment("b", payer="bob", address="2001:db8::")
    assert isinstance(await engine.store.begin(bystander), Begun)


@pytest.mark.parametrize("sold", [0, 2])
async def test_a_payer_that_fails_does_not_stop_others_at_its_address(
    engine: Engine, sold: int
) -> None:
    """An address is refused once its reverts in an hour exceed 3 plus its successful payments."""
    for n in range(sold):
        good = new_payment(f"good {n}", payer="carol")
        await engine.store.begin(good)
        await resolve(engine, good, LANDED)
    for n in range(3 + sold + 1):
        bad = new_payment(f"bad {n}", payer=f"mallory {n // 3}")
        assert isinstance(await engine.store.begin(bad), Begun)
        await resolve(engine, bad, REVERTED)

    assert await engine.store.begin(new_payment("c", payer="carol")) == Refused(
        RefusalReason.TOO_MANY_FAILURES
    )


async def test_a_payment_that_never_landed_is_not_a_failure(engine: Engine) -> None:
    for n in range(5):
        assert isinstance(await engine.store.begin(new_payment(str(n))), Begun)
        await resolve(engine, new_payment(str(n)), DEAD)


async def test_a_stranger_has_at_most_two_pending_payments_until_one_succeeds(
    engine: Engine,
) -> None:
    first, second, third = (new_payment(f"{n}") for n in range(3))
    assert isinstance(await engine.store.begin(first), Begun)
    assert isinstance(await engine.store.begin(second), Begun)
    assert await engine.store.begin(third) == Refused(RefusalReason.TOO_MANY_PENDING)
    await resolve(engine, first, LANDED)
    assert isinstance(await engine.store.begin(third), Begun)


@pytest.mark.parametrize("evidence", [None, LANDED, REVERTED, DEAD])
async def test_one_quote_serves_one_message(engine: Engine, evidence: Evidence | None) -> None:
    """A second message with the quote is refused, of any payer and after any outcome."""
    first = new_payment("a", quote=b"a quote")
    assert isinstance(await engine.store.begin(first), Begun)
    if evidence is not None:
        await resolve(engine, first, evidence)

    second = new_payment("b", payer="bob", address="2001:db8::", quote=b"a quote")
    assert await engine.store.begin(second) == Refused(RefusalReason.QUOTE_USED)
    assert isinstance(await engine.store.begin(first), KnownPayment)


async def test_a_quote_is_used_once_by_two_connections_at_once(tmp_path: Path) -> None:
    stores = [payment_store(tmp_path / "money.sqlite") for _ in range(2)]
    for n in range(20):
        two = [
            new_payment(f"{n} {who}", payer=f"{n} {who}", address=f"{n} {who}", quote=b"%d" % n)
            for who in "ab"
        ]
        begun = await asyncio.gather(
            *(store.begin(each) for store, each in zip(stores, two, strict=True))
        )
        assert {type(each) for each in begun} == {Begun, Refused}
        assert Refused(RefusalReason.QUOTE_USED) in begun
    for store in stores:
        await store.close()


@pytest.mark.parametrize(("same", "at_first"), [("payer", 8), ("address", 64)])
async def test_pending_payments_of_a_new_payer_or_address_are_limited(
    engine: Engine, same: str, at_first: int
) -> None:
    """A payer that empties its account after sending burns the fees of its pending payments."""

    def one(n: int, now: int = NOW) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return new_payment(f"{same} {n}", begun_at=UnixMs(now), budget=ANY_STRANGER, **differing)

    outcomes = [await engine.store.begin(one(n)) for n in range(2 * at_first)]
    assert [type(outcome) for outcome in outcomes[:at_first]] == [Begun] * at_first
    assert set(outcomes[at_first:]) == {Refused(RefusalReason.TOO_MANY_PENDING)}
    for n in range(at_first):
        await resolve(engine, one(n), REVERTED)

    assert await engine.store.begin(one(500)) == Refused(RefusalReason.TOO_MANY_FAILURES)
    bystander = new_payment("b", payer="bob", address="2001:db8::")
    assert isinstance(await engine.store.begin(bystander), Begun)
    assert isinstance(await engine.store.begin(one(501, NOW + HOUR_MS)), Begun)


async def test_a_buyer_may_have_one_more_pending_payment_for_each_purchase(engine: Engine) -> None:
    for n in range(8):
        await engine.store.begin(new_payment(f"bought {n}"))
        await resolve(engine, new_payment(f"bought {n}"), LANDED)
    outcomes = [await engine.store.begin(new_payment(str(n))) for n in range(20)]

    assert [type(outcome) for outcome in outcomes].count(Begun) == 16
    later = new_payment("later", begun_at=UnixMs(NOW + HOUR_MS))
    assert await engine.store.begin(later) == Refused(RefusalReason.TOO_MANY_PENDING)


@pytest.mark.parametrize("same", ["payer", "address"])
async def test_one_payer_or_address_cannot_use_up_the_fees_of_all(
    engine: Engine, same: str
) -> None:
    budget = Budget(in_flight_new_payer=1_000, in_flight_payer=1_000, in_flight_address=1_000)

    def one(n: int) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return new_payment(f"{n}", budget=budget, fee_lamports=20_000, **differing)

    # A tenth of the fees of all is for one payer or address: it covers 100 payments.
    outcomes = [await engine.store.begin(one(n)) for n in range(101)]
    assert outcomes[100:] == [Refused(RefusalReason.TOO_MANY_PENDING)]
    bystander = new_payment("b", payer="bob", address="2001:db8::", budget=budget)
    assert isinstance(await engine.store.begin(bystander), Begun)


acts = st.lists(
    st.tuples(
        st.sampled_from(["begin", "land", "revert", "wait"]),
        st.integers(1, 8),
        st.sampled_from(["alice", "alice", "bob"]),
        st.sampled_from(["here", "there"]),
    ),
    max_size=16,
)
BOUNDED: Final = Budget(failures=2, in_flight_new_payer=3, in_flight_payer=3, in_flight_address=4)


@pytest.mark.storm
@settings(max_examples=40, deadline=None, derandomize=True)
@given(acts=acts)
async def test_no_order_of_payments_exceeds_the_failures_of_an_hour(
    acts: list[tuple[str, int, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Failures in an hour are at most the payments that may be in flight, plus the successes."""
    store = payment_store(tmp_path_factory.mktemp("money") / "money.sqlite")
    now, in_flight, failed, sold = (
        NOW,
        list[PendingPayment](),
        list[PendingPayment](),
        list[PendingPayment](),
    )
    when: dict[Signature, int] = {}
    single = ((act, *who) for act, times, *who in acts for _ in range(times))
    for n, (act, payer, address) in enumerate(single):
        now = UnixMs(now + (HOUR_MS // 3 if act == "wait" else 1))
        if act == "begin":
            asked = new_payment(str(n), payer=payer, address=address, begun_at=now, budget=BOUNDED)
            if isinstance(await store.begin(asked), Begun):
                in_flight.append(asked)
        elif act != "wait" and in_flight:
            asked = in_flight.pop(0)
            evidence = LANDED if act == "land" else REVERTED
            await store.resolve(asked.payment.message_hash, evidence, now=now, again_ms=AGAIN_MS)
            (sold if act == "land" else failed).append(asked)
            when[asked.payment.signature] = now
    await store.close()
    for who, at_first in (("payer", 3), ("address", 4)):
        for last in failed:
            end = when[last.payment.signature]
            hour = within(failed, when, who, last, end)
            begun_at = max(each.payment.begun_at for each in hour)
            assert len(hour) <= at_first + len(within(sold, when, who, last, begun_at))


def within(
    these: list[PendingPayment],
    when: dict[Signature, int],
    who: str,
    like: PendingPayment,
    end: int,
) -> list[PendingPayment]:
    """Return those of *these* that ended in the hour before *end* and have the *who* of *like*.

    when   the time at which each payment ended
    who    the attribute that must be equal: "payer" or "address"
    """
    return [
        each
        for each in these
        if getattr(each.payment, who) == getattr(like.payment, who)
        and end - HOUR_MS < when[each.payment.signature] <= end
    ]


async def test_the_balance_of_the_fee_payer_is_reserved_only_once(engine: Engine) -> None:
    """The fee payer must keep a minimum: the rent of its account, and a reserve."""
    enough = Budget().fund_lamports_min + 10_001
    engine.fill_fund(enough)
    assert isinstance(await engine.store.begin(new_payment("a")), Begun)
    assert isinstance(await engine.store.begin(new_payment("b")), Begun)
    assert await engine.store.begin(new_payment("c", payer="bob")) == SALES_CLOSED
    assert isinstance(await engine.store.begin(new_payment("a")), KnownPayment)
    engine.fill_fund(enough - 10_001)
    assert isinstance(await engine.store.begin(new_payment("c", payer="bob")), Begun)
    assert await engine.store.begin(new_payment("d", payer="bob")) == SALES_CLOSED


@pytest.mark.parametrize("ahead_ms", [0, 2_000])
async def test_a_top_up_is_credited_to_the_successor_of_a_rotated_token(
    engine: Engine, ahead_ms: int
) -> None:
    """The token was rotated twice while the payment was pending; the clocks may disagree."""
    account = engine.open_account(3)
    asked = new_payment(
        "a", purchase=TopUp(credits=50, account=account), begun_at=UnixMs(NOW + ahead_ms)
    )
    await engine.store.begin(asked)
    successor = await engine.rotate(await engine.rotate(account))
    issued = await resolve(engine, asked, LANDED)

    assert issued.purchase == asked.payment.purchase
    assert engine.credits(asked.payment.purchase) == 0
    assert engine.credits(TopUp(credits=50, account=successor)) == 53


async def test_a_top_up_of_a_token_that_was_rotated_before_is_not_begun(engine: Engine) -> None:
    """It is refused whether it began before or after the rotation: clocks are not reliable."""
    account = engine.open_account(3)
    successor = await engine.rotate(account)
    purchase = TopUp(credits=50, account=account)
    for begun_at in (UnixMs(NOW - 1), UnixMs(NOW + 1)):
        asked = new_payment("a", purchase=purchase, begun_at=begun_at)
        assert isinstance(await engine.store.begin(asked), Rotated)
        assert (await engine.store.find(asked.payment.message_hash)).payment is None

    assert engine.credits(TopUp(credits=50, account=successor)) == 3


async def test_a_payment_that_was_never_begun_is_not_resolved(engine: Engine) -> None:
    with pytest.raises(Inconsistent):
        await resolve(engine, new_payment("a"), LANDED)
    assert (await engine.store.find(new_payment("a").payment.message_hash)).payment is None


async def test_closed_sales_begin_no_payment_but_issue_pending_payments(engine: Engine) -> None:
    pending = new_payment("a")
    await engine.store.begin(pending)
    engine.close_sales()

    assert await engine.store.begin(new_payment("b")) == SALES_CLOSED
    assert isinstance(await engine.store.begin(pending), KnownPayment)
    assert (await resolve(engine, pending, LANDED)).state is State.ISSUED


async def test_a_clock_that_is_set_back_by_a_day_ends_the_leases_of_the_day(engine: Engine) -> None:
    """Otherwise no process would check older payments for a day, until that time comes again."""
    await engine.store.begin(new_payment("a"))
    now = UnixMs(NOW - DAY_MS)

    leased = await engine.store.lease(now=now, until=UnixMs(now + 10), count_max=9)
    again = await engine.store.lease(now=now, until=UnixMs(now + 10), count_max=9)

    assert [payment.signature for payment in leased] == [new_payment("a").payment.signature]
    assert again == []


async def test_a_payment_is_leased_once_until_its_lease_expires(engine: Engine) -> None:
    for name in "ab":
        await engine.store.begin(new_payment(name))

    async def lease(after_ms: int, count_max: int = 10) -> list[str]:
        leased = await engine.store.lease(
            now=UnixMs(NOW + after_ms), until=UnixMs(NOW + after_ms + 10), count_max=count_max
        )
        return sorted(payment.signature[-1] for payment in leased)

    assert await lease(59_999) == []
    assert await lease(60_000, 1) != await lease(60_000, 1)
    assert await lease(60_009) == []
    await engine.store.postpone(new_payment("a").payment.message_hash, until=UnixMs(NOW + 10**5))
    assert await lease(99_999) == ["b"]
    assert await lease(100_010) == ["a", "b"]
    await resolve(engine, new_payment("a"), LANDED_FOR_GOOD)
    assert await lease(10**6) == ["b"]


async def test_a_payment_is_touched_once_a_credit_of_it_is_spent(engine: Engine) -> None:
    asked = new_payment("a")
    await engine.store.begin(asked)
    assert not (await resolve(engine, asked, LANDED)).touched
    engine.spend(asked.payment.purchase)
    found = (await engine.store.find(asked.payment.message_hash)).payment

    assert found == replace(
        asked.payment, state=State.ISSUED, paid=AMOUNT, touched=True, final=False
    )


evidences = st.one_of(
    st.builds(Landed, paid=st.sampled_from([AMOUNT - 1, AMOUNT, AMOUNT + 1]), final=st.booleans()),
    st.builds(Reverted, final=st.booleans()),
    st.sampled_from([DEAD, STILL_DEAD]),
)
steps = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([Mint("scope"), Mint(USDC)]),
        st.sampled_from(["begin", "resolve", "spend", "lease"]),
        evidences,
    ),
    max_size=25,
)


@pytest.mark.storm
@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=steps)
async def test_all_stores_give_the_same_results(
    steps: list[tuple[str, Mint, str, Evidence]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any sequence of operations has the same results, and moves the same credits."""
    begun: set[str] = set()
    async with every_engine(tmp_path_factory.mktemp("money")) as engines:
        for position, (name, asset, verb, evidence) in enumerate(steps):
            if verb == "resolve" and name not in begun:
                continue
            asked = new_payment(
                name,
                balance_after=AMOUNT,
                mark=0,
                begun_at=UnixMs(NOW + position),
                asset=asset,
            )
            if verb == "spend" and not engines[0].credits(asked.payment.purchase):
                continue
            one, *others = [await act(engine, verb, asked, evidence) for engine in engines]
            begun |= {name} if isinstance(one, Begun) else set()
            assert [comparable(other) for other in others] == [comparable(one)] * len(others)
            assert len({engine.credits(asked.payment.purchase) for engine in engines}) == 1


async def act(engine: Engine, verb: str, asked: PendingPayment, evidence: Evidence) -> Any:
    match verb:
        case "begin":
            return await engine.store.begin(asked)
        case "resolve":
            return await resolve(engine, asked, evidence)
        case "lease":
            now = UnixMs(NOW + 10**5 * (asked.payment.begun_at - NOW))
            return await engine.store.lease(now=now, until=UnixMs(NOW + 10**6), count_max=9)
        case _:
            engine.spend(asked.payment.purchase)
            return None


def comparable(answer: Any) -> Any:
    if isinstance(answer, Begun | AlreadyUsed | Unavailable):
        return type(answer)
    if isinstance(answer, list):
        return sorted(answer, key=lambda payment: payment.signature)
    return answer


BODIES: Final = "SELECT count(*) FROM payment WHERE body IS NOT NULL"


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
async def test_bodies_of_reports_are_deleted_in_parts_between_other_writes(
    tmp_path: Path, name: str
) -> None:
    reports = [
        new_payment(f"report {n}", purchase=PaidReport(body=b"x")).payment
        for n in range(2 * REPORTS_A_PART + 1)
    ]
    async with ENGINES[name](tmp_path) as engine:
        assert isinstance(engine, SqlEngine)
        with engine.db.transaction():
            rows = [(*columns_of(each), 0, None, None) for each in reports]
            engine.db.executemany(BEGIN, rows)
            engine.db.execute("UPDATE payment SET state = 'issued', paid = amount, final = 1")
        open_one = new_payment("open", purchase=PaidReport(body=b"x"))
        forgetting = asyncio.ensure_future(engine.store.forget_reports(NOW))
        await engine.store.begin(open_one)
        left_meanwhile = int(engine.db.execute(BODIES).get)
        await forgetting

        assert left_meanwhile > 1
        assert engine.db.execute(BODIES).get == 1  # of the payment that is not final
