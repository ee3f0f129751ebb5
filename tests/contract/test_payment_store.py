"""What every PaymentStore promises, in memory and on SQLite alike."""

from dataclasses import replace
from typing import Any, Final

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.base.primitives import Signature, UnixMs
from mintscope.base.time import HOUR_MS
from mintscope.core.credits.ledger import CreditAccount
from mintscope.core.payments.payment import (
    Evidence,
    Landed,
    PaidItem,
    PaidReport,
    Reverted,
    State,
    TopUp,
)
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.store import (
    Begun,
    Budget,
    Inconsistent,
    KeyTaken,
    KnownPayment,
    Overdrawn,
    PendingPayment,
    SalesClosed,
)
from mintscope.edges.storage.sqlite.money.payments import SqlitePaymentStore
from support.fakes.payment_memory import MemoryPaymentStore
from support.scenes.payments.payment_desks import Desk, MemoryDesk, SqliteDesk, resolve
from support.scenes.payments.payment_promises import (
    AMOUNT,
    DEAD,
    LANDED,
    LANDED_FOR_GOOD,
    NOW,
    REVERTED,
    STILL_DEAD,
    key_hash,
    named,
    new_token,
    promise,
)


async def test_what_is_begun_is_found(desk: Desk) -> None:
    asked = promise("a")
    assert (await desk.store.find(asked.payment.message_hash)).payment is None
    assert isinstance(await desk.store.begin(asked), Begun)

    found = await desk.store.find(asked.payment.message_hash)
    assert found.payment == asked.payment
    assert list(await desk.store.find_signatures([asked.payment.signature])) == [asked.payment]


@pytest.mark.parametrize(
    "purchase",
    [PaidReport(body=b'{"a":1}'), new_token("x"), TopUp(credits=5, account=CreditAccount(1))],
)
async def test_goods_survive(desk: Desk, purchase: PaidItem) -> None:
    desk.open_account(1)
    asked = promise("a", purchase=purchase)
    await desk.store.begin(asked)
    await resolve(desk, asked, LANDED)

    found = (await desk.store.find(asked.payment.message_hash)).payment
    assert found is not None
    assert (found.purchase, found.state, found.paid) == (purchase, State.ISSUED, AMOUNT)


async def test_the_same_message_is_known(desk: Desk) -> None:
    await desk.store.begin(promise("a"))

    assert await desk.store.begin(promise("a", key_hash=key_hash("other"))) == KnownPayment(
        promise("a").payment
    )


async def test_issuing_twice_issues_once(desk: Desk) -> None:
    asked = promise("a")
    await desk.store.begin(asked)
    for evidence in (LANDED, LANDED, LANDED_FOR_GOOD, LANDED):
        assert (await resolve(desk, asked, evidence)).state is State.ISSUED

    assert desk.credits(asked.payment.purchase) == 10


async def test_a_top_up_adds(desk: Desk) -> None:
    asked = promise("a", purchase=TopUp(credits=50, account=desk.open_account(3)))
    await desk.store.begin(asked)
    await resolve(desk, asked, LANDED_FOR_GOOD)

    assert desk.credits(asked.payment.purchase) == 53


async def test_late_landing_wins(desk: Desk) -> None:
    asked = promise("a")
    await desk.store.begin(asked)
    assert (await resolve(desk, asked, DEAD)).reason is RefusalReason.EXPIRED
    reopened = await resolve(desk, asked, LANDED)
    assert (reopened.state, reopened.final) == (State.FAILED, False)
    issued = await resolve(desk, asked, LANDED_FOR_GOOD)

    assert (issued.state, issued.reason, issued.final) == (State.ISSUED, None, True)
    assert desk.credits(asked.payment.purchase) == 10


@pytest.mark.parametrize("is_top_up", [False, True])
async def test_what_vanishes_is_frozen_and_thaws(desk: Desk, *, is_top_up: bool) -> None:
    """Only what the payment brought is taken back, and only what is left of it."""
    account = desk.open_account(5)
    purchase = TopUp(credits=10, account=account) if is_top_up else new_token("a")
    asked = promise("a", purchase=purchase)
    await desk.store.begin(asked)
    await resolve(desk, asked, LANDED)
    for _ in range(3):
        desk.spend(purchase)
    left = desk.credits(purchase)
    assert (await resolve(desk, asked, DEAD)).state is State.ISSUED
    assert desk.credits(purchase) == left
    frozen = await resolve(desk, asked, STILL_DEAD)

    assert (frozen.state, frozen.reason) == (State.FROZEN, RefusalReason.VANISHED)
    assert desk.credits(purchase) == max(0, left - 10)
    assert (await resolve(desk, asked, LANDED_FOR_GOOD)).state is State.ISSUED
    assert desk.credits(purchase) == left


async def test_what_was_thawed_is_not_thawed_again(desk: Desk) -> None:
    asked = promise("a")
    await desk.store.begin(asked)
    for evidence in (LANDED, Reverted(final=False), LANDED):
        await resolve(desk, asked, evidence)
    for _ in range(10):
        desk.spend(asked.payment.purchase)
    for evidence in (Reverted(final=False), LANDED_FOR_GOOD):
        await resolve(desk, asked, evidence)

    assert desk.credits(asked.payment.purchase) == 0


async def test_what_is_frozen_is_frozen_once(desk: Desk) -> None:
    """Finality freezes nothing more: the rest of the account came from elsewhere."""
    purchase = TopUp(credits=10, account=desk.open_account(15))
    asked = promise("a", purchase=purchase)
    await desk.store.begin(asked)
    for evidence in (LANDED, Reverted(final=False), DEAD):
        await resolve(desk, asked, evidence)

    assert desk.credits(purchase) == 15
    await resolve(desk, asked, LANDED_FOR_GOOD)
    assert desk.credits(purchase) == 25


async def test_less_than_agreed_issues_nothing(desk: Desk) -> None:
    asked = promise("a")
    await desk.store.begin(asked)
    short = await resolve(desk, asked, Landed(paid=AMOUNT - 1, final=True))

    assert (short.state, short.reason) == (State.FROZEN, RefusalReason.UNDERPAID)
    assert desk.credits(asked.payment.purchase) == 0


async def test_a_key_names_one_payment(desk: Desk) -> None:
    first = promise("a", key_hash=key_hash("k"))
    await desk.store.begin(first)
    assert isinstance(await desk.store.begin(promise("b", key_hash=key_hash("k"))), KeyTaken)
    await resolve(desk, first, DEAD)

    assert isinstance(await desk.store.begin(promise("b", key_hash=key_hash("k"))), Begun)


async def test_pending_payments_are_reserved_against(desk: Desk) -> None:
    """Twenty payments with funds for one: one may begin."""
    outcomes = [await desk.store.begin(promise(str(n), balance_after=0)) for n in range(20)]

    assert [type(outcome) for outcome in outcomes].count(Begun) == 1
    assert outcomes.count(Overdrawn(RefusalReason.FUNDS)) == 19
    assert isinstance(await desk.store.begin(promise("x", payer="bob", balance_after=0)), Begun)
    covered = promise("y", balance_after=AMOUNT)
    assert isinstance(await desk.store.begin(covered), Begun)


async def test_what_resolved_since_the_lookup_is_reserved_against(desk: Desk) -> None:
    """A simulation may have been made before a payment landed that is issued by now."""
    mark = (await desk.store.find(MessageHash(named("b")))).mark
    first = promise("a")
    await desk.store.begin(first)
    await resolve(desk, first, LANDED)

    late = await desk.store.begin(promise("b", balance_after=0, mark=mark))
    assert late == Overdrawn(RefusalReason.FUNDS)
    mark = (await desk.store.find(MessageHash(named("b")))).mark
    assert isinstance(await desk.store.begin(promise("b", balance_after=0, mark=mark)), Begun)


async def test_finality_alone_reserves_nothing(desk: Desk) -> None:
    first = promise("a")
    await desk.store.begin(first)
    await resolve(desk, first, LANDED)
    mark = (await desk.store.find(MessageHash(named("b")))).mark
    await resolve(desk, first, LANDED_FOR_GOOD)

    assert isinstance(await desk.store.begin(promise("b", balance_after=0, mark=mark)), Begun)


@pytest.mark.parametrize(("same", "enough"), [("payer", 3), ("address", 4)])
async def test_a_few_failures_an_hour_are_enough(desk: Desk, same: str, enough: int) -> None:
    def one(n: int, now: UnixMs = NOW) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return promise(f"{same} {n}", begun_at=now, **differing)

    for n in range(enough):
        assert isinstance(await desk.store.begin(one(n)), Begun)
        await resolve(desk, one(n), REVERTED)

    assert await desk.store.begin(one(5)) == Overdrawn(RefusalReason.TOO_MANY_FAILURES)
    assert isinstance(await desk.store.begin(one(6, UnixMs(NOW + HOUR_MS))), Begun)
    bystander = promise("b", payer="bob", address="2001:db8::")
    assert isinstance(await desk.store.begin(bystander), Begun)


@pytest.mark.parametrize("sold", [0, 2])
async def test_one_who_fails_does_not_stop_all_who_share_an_address(desk: Desk, sold: int) -> None:
    """It takes more reverted payments than three and those of the hour that were good."""
    for n in range(sold):
        good = promise(f"good {n}", payer="carol")
        await desk.store.begin(good)
        await resolve(desk, good, LANDED)
    for n in range(3 + sold + 1):
        bad = promise(f"bad {n}", payer=f"mallory {n // 3}")
        assert isinstance(await desk.store.begin(bad), Begun)
        await resolve(desk, bad, REVERTED)

    assert await desk.store.begin(promise("c", payer="carol")) == Overdrawn(
        RefusalReason.TOO_MANY_FAILURES
    )


async def test_what_never_landed_is_nobodys_failure(desk: Desk) -> None:
    for n in range(5):
        assert isinstance(await desk.store.begin(promise(str(n))), Begun)
        await resolve(desk, promise(str(n)), DEAD)


@pytest.mark.parametrize(("same", "at_first"), [("payer", 8), ("address", 64)])
async def test_who_has_bought_nothing_has_little_in_flight(
    desk: Desk, same: str, at_first: int
) -> None:
    """Whoever empties the account once all are sent burns so many fees, and is known then."""

    def one(n: int, now: int = NOW) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return promise(f"{same} {n}", begun_at=UnixMs(now), **differing)

    outcomes = [await desk.store.begin(one(n)) for n in range(2 * at_first)]
    assert [type(outcome) for outcome in outcomes[:at_first]] == [Begun] * at_first
    assert set(outcomes[at_first:]) == {Overdrawn(RefusalReason.TOO_MANY_PENDING)}
    for n in range(at_first):
        await resolve(desk, one(n), REVERTED)

    assert await desk.store.begin(one(500)) == Overdrawn(RefusalReason.TOO_MANY_FAILURES)
    bystander = promise("b", payer="bob", address="2001:db8::")
    assert isinstance(await desk.store.begin(bystander), Begun)
    assert isinstance(await desk.store.begin(one(501, NOW + HOUR_MS)), Begun)


async def test_whoever_has_bought_may_have_as_many_more_in_flight(desk: Desk) -> None:
    for n in range(8):
        await desk.store.begin(promise(f"bought {n}"))
        await resolve(desk, promise(f"bought {n}"), LANDED)
    outcomes = [await desk.store.begin(promise(str(n))) for n in range(20)]

    assert [type(outcome) for outcome in outcomes].count(Begun) == 16
    later = promise("later", begun_at=UnixMs(NOW + HOUR_MS))
    assert await desk.store.begin(later) == Overdrawn(RefusalReason.TOO_MANY_PENDING)


@pytest.mark.parametrize("same", ["payer", "address"])
async def test_nobody_alone_uses_up_the_fees_of_all(desk: Desk, same: str) -> None:
    budget = Budget(in_flight_payer=1_000, in_flight_address=1_000)

    def one(n: int) -> PendingPayment:
        differing: dict[str, Any] = {"address" if same == "payer" else "payer": str(n)}
        return promise(f"{n}", budget=budget, fee_lamports=20_000, **differing)

    outcomes = [await desk.store.begin(one(n)) for n in range(101)]
    assert outcomes[100:] == [Overdrawn(RefusalReason.TOO_MANY_PENDING)]
    bystander = promise("b", payer="bob", address="2001:db8::", budget=budget)
    assert isinstance(await desk.store.begin(bystander), Begun)


acts = st.lists(
    st.tuples(
        st.sampled_from(["begin", "land", "revert", "wait"]),
        st.integers(1, 8),
        st.sampled_from(["alice", "alice", "bob"]),
        st.sampled_from(["here", "there"]),
    ),
    max_size=16,
)
BOUNDED: Final = Budget(failures=2, in_flight_payer=3, in_flight_address=4)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(acts=acts)
async def test_no_schedule_fails_more_often_in_an_hour_than_it_may(
    acts: list[tuple[str, int, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At most what may be in flight, and one for each payment of that hour that was good."""
    store = SqlitePaymentStore(tmp_path_factory.mktemp("money") / "money.sqlite")
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
            asked = promise(str(n), payer=payer, address=address, begun_at=now, budget=BOUNDED)
            if isinstance(await store.begin(asked), Begun):
                in_flight.append(asked)
        elif act != "wait" and in_flight:
            asked = in_flight.pop(0)
            evidence = LANDED if act == "land" else REVERTED
            await store.resolve(asked.payment.message_hash, evidence, now=now)
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
    """Return those of *these* that ended in the hour before *end*, by whoever made *like*."""
    return [
        each
        for each in these
        if getattr(each.payment, who) == getattr(like.payment, who)
        and end - HOUR_MS < when[each.payment.signature] <= end
    ]


async def test_what_the_fee_payer_has_is_promised_once(desk: Desk) -> None:
    """It must be left with the rent of its account and some to spare."""
    enough = Budget().fund_lamports_min + 10_001
    desk.fill_fund(enough)
    assert isinstance(await desk.store.begin(promise("a")), Begun)
    assert isinstance(await desk.store.begin(promise("b")), Begun)
    assert isinstance(await desk.store.begin(promise("c")), SalesClosed)
    assert isinstance(await desk.store.begin(promise("a")), KnownPayment)
    desk.fill_fund(enough - 10_001)
    assert isinstance(await desk.store.begin(promise("c")), Begun)
    assert isinstance(await desk.store.begin(promise("d")), SalesClosed)


async def test_a_top_up_follows_its_token(desk: Desk) -> None:
    """The token was rotated, twice, while the payment was under way."""
    account = desk.open_account(3)
    asked = promise("a", purchase=TopUp(credits=50, account=account))
    await desk.store.begin(asked)
    heir = await desk.rotate(await desk.rotate(account))
    assert await desk.rotate(account) != heir  # whoever stole the old token inherits nothing
    issued = await resolve(desk, asked, LANDED)

    assert issued.purchase == asked.payment.purchase
    assert desk.credits(asked.payment.purchase) == 0
    assert desk.credits(TopUp(credits=50, account=heir)) == 53


async def test_a_top_up_of_a_token_that_was_rotated_before_stays_on_it(desk: Desk) -> None:
    """Whoever pays for an old token means it: a thief may have rotated it."""
    account = desk.open_account(3)
    heir = await desk.rotate(account)
    purchase = TopUp(credits=50, account=account)
    asked = promise("a", purchase=purchase, begun_at=UnixMs(NOW + 1))
    await desk.store.begin(asked)
    await resolve(desk, asked, LANDED)

    assert desk.credits(purchase) == 50
    assert desk.credits(TopUp(credits=50, account=heir)) == 3


async def test_what_was_never_begun_is_not_resolved(desk: Desk) -> None:
    with pytest.raises(Inconsistent):
        await resolve(desk, promise("a"), LANDED)
    assert (await desk.store.find(promise("a").payment.message_hash)).payment is None


async def test_closed_sales_sell_nothing(desk: Desk) -> None:
    pending = promise("a")
    await desk.store.begin(pending)
    desk.close_sales()

    assert isinstance(await desk.store.begin(promise("b")), SalesClosed)
    assert isinstance(await desk.store.begin(pending), KnownPayment)
    assert (await resolve(desk, pending, LANDED)).state is State.ISSUED


async def test_a_lease_is_given_once_and_runs_out(desk: Desk) -> None:
    for name in "ab":
        await desk.store.begin(promise(name))

    async def lease(after_ms: int, count_max: int = 10) -> list[str]:
        leased = await desk.store.lease(
            now=UnixMs(NOW + after_ms), until=UnixMs(NOW + after_ms + 10), count_max=count_max
        )
        return sorted(payment.signature[-1] for payment in leased)

    assert await lease(59_999) == []
    assert await lease(60_000, 1) != await lease(60_000, 1)
    assert await lease(60_009) == []
    await desk.store.postpone(promise("a").payment.message_hash, until=UnixMs(NOW + 10**5))
    assert await lease(99_999) == ["b"]
    assert await lease(100_010) == ["a", "b"]
    await resolve(desk, promise("a"), LANDED_FOR_GOOD)
    assert await lease(10**6) == ["b"]


async def test_use_is_noticed(desk: Desk) -> None:
    asked = promise("a")
    await desk.store.begin(asked)
    assert not (await resolve(desk, asked, LANDED)).touched
    desk.spend(asked.payment.purchase)
    found = (await desk.store.find(asked.payment.message_hash)).payment

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
        st.sampled_from("abc"), st.sampled_from(["begin", "resolve", "spend", "lease"]), evidences
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=steps)
async def test_both_stores_are_one(
    steps: list[tuple[str, str, Evidence]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any sequence of verbs has the same answers, and moves the same credits."""
    path = tmp_path_factory.mktemp("money") / "money.sqlite"
    sqlite = SqlitePaymentStore(path)
    desks: list[Desk] = [
        MemoryDesk(MemoryPaymentStore()),
        SqliteDesk(sqlite, apsw.Connection(str(path))),
    ]
    begun: set[str] = set()
    for position, (name, verb, evidence) in enumerate(steps):
        if verb == "resolve" and name not in begun:
            continue
        asked = promise(name, balance_after=AMOUNT, mark=0, begun_at=UnixMs(NOW + position))
        if verb == "spend" and not desks[0].credits(asked.payment.purchase):
            continue
        one, other = [await act(desk, verb, asked, evidence) for desk in desks]
        begun |= {name} if isinstance(one, Begun) else set()
        assert comparable(one) == comparable(other)
        assert desks[0].credits(asked.payment.purchase) == desks[1].credits(asked.payment.purchase)
    await sqlite.close()


async def act(desk: Desk, verb: str, asked: PendingPayment, evidence: Evidence) -> Any:
    match verb:
        case "begin":
            return await desk.store.begin(asked)
        case "resolve":
            return await resolve(desk, asked, evidence)
        case "lease":
            now = UnixMs(NOW + 10**5 * (asked.payment.begun_at - NOW))
            return await desk.store.lease(now=now, until=UnixMs(NOW + 10**6), count_max=9)
        case _:
            desk.spend(asked.payment.purchase)
            return None


def comparable(answer: Any) -> Any:
    if isinstance(answer, Begun | KeyTaken | SalesClosed):
        return type(answer)
    if isinstance(answer, list):
        return sorted(answer, key=lambda payment: payment.signature)
    return answer
