"""Network fees that all payers together may burn or reserve, in memory and on every engine."""

import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payment_engines import ENGINES, Engine, every_engine, resolve

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments.payment import Dead, Evidence
from mintscope.payments.ports import (
    SALES_CLOSED,
    WALLET_LAMPORTS_MIN,
    Begun,
    Budget,
    PendingPayment,
    Unavailable,
)
from mintscope.payments.protocol.envelope import Refused
from support.scenes.payments.pending_payments import DEAD, LANDED, NOW, REVERTED, new_payment

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
FEE: Final = 10_000
SMALL: Final = Budget(
    failures=100,
    fee_lamports=10 * FEE,  # so each payer may have one payment in flight
    in_flight_fee_lamports=20 * FEE,
)


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with ENGINES[request.param](tmp_path) as engine:
        yield engine


def paid_by(
    name: str, *, now: int = NOW, budget: Budget = SMALL, nonce: str = ""
) -> PendingPayment:
    """Return a pending payment of the payer *name*, who has the client address *name*."""
    return new_payment(
        f"{name} {nonce}",
        payer=name,
        address=name,
        fee_lamports=FEE,
        begun_at=UnixMs(now),
        budget=budget,
    )


async def sell_to(engine: Engine, name: str, now: int = NOW) -> None:
    bought = paid_by(name, nonce="bought", now=now)
    assert isinstance(await engine.store.begin(bought), Begun)
    await resolve(engine, bought, LANDED, now)


async def begun(engine: Engine, names: Iterable[str], now: int = NOW) -> list[bool]:
    return [isinstance(await engine.store.begin(paid_by(name, now=now)), Begun) for name in names]


async def test_payments_that_never_land_do_not_close_sales(engine: Engine) -> None:
    """These payments reserve more than the fees of an hour, but spend no fees."""
    budget = Budget(fee_lamports=2_000_000, in_flight_fee_lamports=10_000_000)
    for n in range(120):
        doomed = new_payment(
            f"{n}", payer=f"{n}", address=f"{n // 10}", fee_lamports=20_000, budget=budget
        )
        assert isinstance(await engine.store.begin(doomed), Begun)

    assert isinstance(await engine.store.begin(paid_by("bob", budget=budget)), Begun)


def test_the_limit_of_reserved_fees_is_five_times_the_limit_of_burned_fees() -> None:
    assert Budget().in_flight_fee_lamports == 5 * Budget().fee_lamports == 100_000_000


async def revert(
    engine: Engine, names: Iterable[str], budget: Budget = SMALL, now: int = NOW
) -> list[bool]:
    """Begin a payment of each payer in *names*, and revert it; return whether each could begin."""
    outcomes = []
    for n, name in enumerate(names):
        asked = paid_by(name, nonce=f"reverts {n} {now - NOW}", budget=budget, now=now)
        is_begun = isinstance(await engine.store.begin(asked), Begun)
        outcomes.append(is_begun)
        if is_begun:
            await resolve(engine, asked, REVERTED, now)
    return outcomes


async def test_reverts_of_throw_away_payers_close_sales_to_strangers_only(engine: Engine) -> None:
    """Half of the fees of the hour is kept for payers that bought within the day."""
    buyers = [f"buyer {n}" for n in range(6)]
    for name in buyers:
        await sell_to(engine, name)

    assert await revert(engine, (f"fresh {n}" for n in range(8))) == [True] * 5 + [False] * 3
    assert await engine.store.begin(paid_by("a stranger")) == SALES_CLOSED
    assert await begun(engine, buyers) == [True] * 6
    assert await begun(engine, ["a stranger"], NOW + HOUR_MS) == [True]


async def test_reverts_of_strangers_leave_the_half_that_is_kept_for_buyers(
    engine: Engine,
) -> None:
    """The strangers' payments, which take all fees of the hour, begin before the first revert."""
    await sell_to(engine, "buyer")
    strangers = [f"stranger {n}" for n in range(10)]
    assert all(await begun(engine, strangers))
    for name in strangers:
        await resolve(engine, paid_by(name), REVERTED)

    assert await begun(engine, ["another stranger", "buyer"]) == [False, True]


async def test_a_buyer_whose_payment_reverts_counts_as_a_stranger_again(
    engine: Engine,
) -> None:
    """For each successful payment, a payer may burn one fee of the half that is for buyers."""
    budget = Budget(fee_lamports=20 * FEE, in_flight_fee_lamports=40 * FEE)
    await sell_to(engine, "once")
    await sell_to(engine, "honest")
    assert all(await revert(engine, (f"fresh {n}" for n in range(10)), budget))

    assert await revert(engine, ["once", "once"], budget) == [True, False]
    assert await revert(engine, ["honest", "a stranger"], budget) == [True, False]


async def test_a_purchase_covers_one_revert_a_day_and_not_one_an_hour(
    engine: Engine,
) -> None:
    budget = Budget(fee_lamports=20 * FEE, in_flight_fee_lamports=40 * FEE)
    later = NOW + HOUR_MS
    await sell_to(engine, "once")
    await sell_to(engine, "another")
    assert await revert(engine, ["once"], budget) == [True]
    assert all(await revert(engine, (f"fresh {n}" for n in range(10)), budget, later))

    assert await revert(engine, ["once", "another"], budget, later) == [False, True]


async def test_fees_that_buyers_burned_close_sales_for_an_hour(engine: Engine) -> None:
    for n in range(10):
        await sell_to(engine, f"{n}")
    await sell_to(engine, "buyer")
    assert all(await revert(engine, (f"{n}" for n in range(10))))

    for name in ("stranger", "buyer"):
        assert await engine.store.begin(paid_by(name)) == SALES_CLOSED
        assert isinstance(await engine.store.begin(paid_by(name, now=NOW + HOUR_MS)), Begun)


async def test_half_of_the_fees_in_flight_is_kept_for_buyers_of_the_last_day(
    engine: Engine,
) -> None:
    buyers = [f"buyer {n}" for n in range(12)]
    for name in buyers:
        await sell_to(engine, name)
    strangers = [f"stranger {n}" for n in range(12)]

    assert await begun(engine, strangers) == [True] * 10 + [False] * 2
    assert await begun(engine, buyers) == [True] * 10 + [False] * 2
    for name in strangers[:10]:
        await resolve(engine, paid_by(name), DEAD)  # costs nothing, so it no longer counts
    assert await begun(engine, strangers[10:] + buyers[10:]) == [True] * 4


async def test_a_purchase_makes_its_payer_a_buyer_for_a_day(engine: Engine) -> None:
    for name in ("of yesterday", "of today"):
        await sell_to(engine, name, NOW if name == "of yesterday" else NOW + 1)
    now = NOW + DAY_MS
    assert all(await begun(engine, (f"stranger {n}" for n in range(10)), now))

    assert await begun(engine, ["of yesterday", "of today"], now) == [False, True]


async def test_strangers_may_reserve_half_of_the_balance_of_the_fee_payer(engine: Engine) -> None:
    """The fee payer has ten fees and its rent, which may not be spent; five are for buyers."""
    budget = Budget(
        fee_lamports=10**9, in_flight_fee_lamports=10**9, fund_lamports_min=WALLET_LAMPORTS_MIN
    )
    await sell_to(engine, "buyer")
    engine.fill_fund(WALLET_LAMPORTS_MIN + 10 * FEE)
    outcomes = [await engine.store.begin(paid_by(str(n), budget=budget)) for n in range(7)]

    assert [type(each) for each in outcomes] == [Begun] * 5 + [Unavailable] * 2
    of_buyer = [paid_by("buyer", budget=budget, nonce=str(n)) for n in range(7)]
    outcomes = [await engine.store.begin(each) for each in of_buyer]
    assert [type(each) for each in outcomes] == [Begun] * 5 + [Unavailable] * 2
    await resolve(engine, paid_by("0", budget=budget), DEAD)
    assert isinstance(await engine.store.begin(of_buyer[5]), Begun)
    assert await engine.store.begin(of_buyer[6]) == SALES_CLOSED


TIGHT: Final = Budget(
    failures=100,
    fee_lamports=10 * FEE,
    in_flight_fee_lamports=8 * FEE,
    fund_lamports_min=WALLET_LAMPORTS_MIN,
)
EVIDENCE: Final[dict[str, Evidence]] = {"land": LANDED, "revert": REVERTED, "die": Dead(height=999)}
acts = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", *EVIDENCE, "wait"]), st.integers(1, 9), st.integers(0, 4)
    ),
    max_size=20,
)


@dataclass
class Diary:
    """The expected fees at risk: records payments and their ends without reading a store."""

    lamports: int
    now: int = NOW
    waiting: list[PendingPayment] = field(default_factory=list)
    ended: list[tuple[str, PendingPayment, int]] = field(default_factory=list)

    def count(self, how: str, span_ms: int, payer: str | None = None) -> int:
        return sum(
            end == how and at > self.now - span_ms and payer in {None, each.payment.payer}
            for end, each, at in self.ended
        )

    def is_sound_with(self, asked: PendingPayment) -> bool:
        """Return whether the limits of fees at risk allow *asked* to begin."""
        payers = [each.payment.payer for each in [*self.waiting, asked]]
        spent = sum(how != "die" for how, _, _ in self.ended) * FEE
        covered = self.lamports - WALLET_LAMPORTS_MIN - spent
        bound = min(8 * FEE, covered)
        strangers = [payer for payer in payers if not self.count("land", DAY_MS, payer)]
        is_stranger = asked.payment.payer in strangers
        return (
            self.may_burn(asked.payment.payer)
            and len(payers) * FEE <= bound
            and not (is_stranger and 2 * len(strangers) * FEE > bound)
        )

    def may_burn(self, asking: str) -> bool:
        """Return whether the limits of the hour allow one more failed payment of *asking*."""
        payers = {each.payment.payer for _, each, _ in self.ended}
        burned = {payer: self.count("revert", HOUR_MS, payer) for payer in payers}
        today = {payer: self.count("revert", DAY_MS, payer) for payer in payers}
        uncovered = sum(
            n for payer, n in burned.items() if today[payer] > self.count("land", DAY_MS, payer)
        )
        waiting = sum(each.payment.payer == asking for each in self.waiting)
        if self.count("revert", DAY_MS, asking) + waiting >= self.count("land", DAY_MS, asking):
            return uncovered + 1 <= 5 and sum(burned.values()) + 1 <= 10
        return sum(burned.values()) - uncovered + min(uncovered, 5) + 1 <= 10

    def is_hour_sound(self) -> bool:
        """Return whether in each hour the failed payments burned at most the limit of fees.

        The limit is 9 fees, 8 for payments in flight of strangers, and 8 for those of other payers.
        """
        burned = [at for how, _, at in self.ended if how == "revert"]
        return all(sum(end - HOUR_MS < at <= end for at in burned) <= 9 + 2 * 8 for end in burned)


@pytest.mark.storm
@settings(max_examples=60 if FULL else 20, deadline=None, derandomize=True)
@given(acts=acts, fund=st.sampled_from([5 * FEE, 12 * FEE, 10**9]))
async def test_no_order_of_payments_reserves_or_burns_more_than_the_limits(
    acts: list[tuple[str, int, int]], fund: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also, no sale is refused that would respect every limit."""
    diary = Diary(lamports=WALLET_LAMPORTS_MIN + fund)
    async with every_engine(tmp_path_factory.mktemp("money")) as engines:
        for engine in engines:
            engine.fill_fund(diary.lamports)
        for n, (act, times, who) in enumerate(acts):
            for again in range(times):
                diary.now += HOUR_MS if act == "wait" else 1
                if act == "begin":
                    asked = paid_by(f"{who} {again}", nonce=f"{n}", now=diary.now, budget=TIGHT)
                    await ask(engines, diary, asked)
                elif act in EVIDENCE and diary.waiting:
                    await end(engines, diary, act)
    assert diary.is_hour_sound()


async def end(engines: list[Engine], diary: Diary, act: str) -> None:
    ending = diary.waiting.pop(0)
    for engine in engines:
        await resolve(engine, ending, EVIDENCE[act], diary.now)
    diary.ended.append((act, ending, diary.now))


async def ask(engines: list[Engine], diary: Diary, asked: PendingPayment) -> None:
    one, *others = [await engine.store.begin(asked) for engine in engines]
    assert all(
        other == one if isinstance(one, Refused) else type(other) is type(one) for other in others
    )
    if isinstance(one, Begun):
        assert diary.is_sound_with(asked)
        diary.waiting.append(asked)
    elif one == SALES_CLOSED:
        assert not diary.is_sound_with(asked)
