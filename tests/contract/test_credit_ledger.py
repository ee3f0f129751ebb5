"""The contract of every CreditLedger. To test another engine, add it to `LEDGERS`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.credits.ledger import (
    CreditLedger,
    DayUse,
    Empty,
    InstantLedger,
    LedgerEntry,
    Remembered,
    Spent,
    Statement,
)
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import CreditAccount
from mintscope.kit.time import DAY_MS
from support.scenes.postgres import dsn_in
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

FIRST, SECOND, UNKNOWN = credit_token(1), credit_token(2), credit_token(3)


class ClosableLedger(CreditLedger, Protocol):
    async def close(self) -> None: ...


LEDGERS: dict[str, Callable[[Path], ClosableLedger]] = {
    "sqlite": lambda folder: SqliteCreditLedger(
        folder / "money.sqlite", pepper=PEPPER, clock=ManualClock(NOW)
    ),
    "postgresql": lambda folder: PostgresCreditLedger(
        dsn_in(folder), pepper=PEPPER, clock=ManualClock(NOW)
    ),
}


@pytest.fixture(params=LEDGERS)
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CreditLedger]:
    ledger = LEDGERS[request.param](tmp_path)
    yield ledger
    await ledger.close()


@pytest.fixture(params=LEDGERS)
async def two(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[CreditLedger, CreditLedger]]:
    """Yield two ledgers over one store, as in two processes."""
    both = LEDGERS[request.param](tmp_path), LEDGERS[request.param](tmp_path)
    yield both
    for ledger in both:
        await ledger.close()


async def found(ledger: CreditLedger, token: str = FIRST) -> CreditAccount:
    account = await ledger.find(token)
    assert account is not None
    return account


async def test_credits_are_spent_one_at_a_time(ledger: CreditLedger) -> None:
    account = await ledger.issue(FIRST, 2, "")

    outcomes = [await ledger.spend(account) for _ in range(4)]

    assert outcomes == [Spent(1), Spent(0), Empty(), Empty()]
    assert await ledger.balance(account) == 0


async def test_an_issued_token_is_found_and_no_other(ledger: CreditLedger) -> None:
    account = await ledger.issue(FIRST, 2, "")

    assert await ledger.find(FIRST) == account
    for text in (UNKNOWN, "", "svc_credit_", FIRST.upper(), FIRST + " ", "\x00", "é"):
        assert await ledger.find(text) is None


async def test_accounts_have_separate_balances(ledger: CreditLedger) -> None:
    first, second = await ledger.issue(FIRST, 1, ""), await ledger.issue(SECOND, 5, "")

    assert await ledger.spend(first) == Spent(0)
    assert await ledger.spend(first) == Empty()
    assert await ledger.balance(second) == 5


async def test_simultaneous_debits_of_one_account_are_decided_in_order(
    ledger: CreditLedger,
) -> None:
    account = await ledger.issue(FIRST, 10, "")

    outcomes = await asyncio.gather(*(ledger.spend(account) for _ in range(50)))

    assert outcomes == [Spent(left) for left in range(9, -1, -1)] + [Empty()] * 40
    assert await ledger.balance(account) == 0


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=40)
)
@pytest.mark.parametrize("engine", LEDGERS)
async def test_each_debit_is_granted_if_and_only_if_its_account_has_a_credit(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    credit_counts: list[int],
    asked: list[int],
) -> None:
    ledger = LEDGERS[engine](tmp_path_factory.mktemp("mix"))
    accounts = [
        await ledger.issue(credit_token(number), count, "")
        for number, count in enumerate(credit_counts)
    ]
    order = [index % len(accounts) for index in asked]

    outcomes = await asyncio.gather(*(ledger.spend(accounts[index]) for index in order))

    left = Counter(dict(enumerate(credit_counts)))
    for index, outcome in zip(order, outcomes, strict=True):
        left[index] -= 1
        assert outcome == (Spent(left[index]) if left[index] >= 0 else Empty())
    await ledger.close()


async def test_two_ledgers_over_one_store_never_overspend(
    two: tuple[CreditLedger, CreditLedger],
) -> None:
    account = await two[0].issue(FIRST, 30, "")
    assert await found(two[1]) == account

    outcomes = await asyncio.gather(*(two[turn % 2].spend(account) for turn in range(100)))

    left = sorted(outcome.balance for outcome in outcomes if isinstance(outcome, Spent))
    assert left == list(range(30))
    assert await two[0].balance(account) == await two[1].balance(account) == 0


async def test_a_token_issued_by_another_process_can_be_spent_at_once(
    two: tuple[CreditLedger, CreditLedger],
) -> None:
    assert await two[0].find(FIRST) is None
    await two[1].issue(FIRST, 1, "")

    assert await two[0].spend(await found(two[0])) == Spent(0)


async def test_a_balance_is_the_same_after_the_ledger_was_reopened(tmp_path: Path) -> None:
    for open_ledger in LEDGERS.values():
        ledger = open_ledger(tmp_path)
        await ledger.spend(await ledger.issue(FIRST, 5, ""))
        await ledger.close()
        ledger = open_ledger(tmp_path)

        assert await ledger.balance(await found(ledger)) == 4
        await ledger.close()


async def test_a_statement_lists_grants_and_the_credits_spent_by_day(ledger: CreditLedger) -> None:
    mine, other = await ledger.issue(FIRST, 5, ""), await ledger.issue(SECOND, 7, "")
    await asyncio.gather(*(ledger.spend(mine) for _ in range(3)), ledger.spend(other))

    assert await ledger.statement(mine) == Statement(
        balance=2,
        spent=3,
        entries=[LedgerEntry(kind="grant", delta=5, balance=5, at=NOW)],
        days=[DayUse(day=NOW // DAY_MS, credits=3)],
    )
    assert (await ledger.statement(other)).spent == 1


class Waiting:
    """A fake `DebitWaiter`, which stores the outcome of its debit."""

    def __init__(self) -> None:
        self.reported: list[Spent | Empty | Exception] = []
        self.has_left = False

    def done(self) -> bool:
        return self.has_left or bool(self.reported)

    def set_result(self, outcome: Spent | Empty, /) -> None:
        self.reported.append(outcome)

    def set_exception(self, failure: Exception, /) -> None:
        self.reported.append(failure)


def instant(ledger: CreditLedger) -> InstantLedger:
    assert isinstance(ledger, InstantLedger)
    return ledger


async def test_a_token_is_recalled_once_its_account_and_root_were_read(
    ledger: CreditLedger,
) -> None:
    account = await ledger.issue(FIRST, 2, "")
    recall = instant(ledger).recall
    assert recall(FIRST.encode()) is None

    await ledger.find(FIRST)
    assert recall(FIRST.encode()) is None  # its root is not known yet

    root = await ledger.root(account)
    assert recall(FIRST.encode()) == Remembered(account, root)
    for text in (SECOND.encode(), b"", FIRST.upper().encode(), FIRST.encode() + b" ", b"\xff"):
        assert recall(text) is None


async def test_an_account_without_credits_is_not_recalled(ledger: CreditLedger) -> None:
    account = await ledger.issue(FIRST, 1, "")
    await ledger.find(FIRST)
    await ledger.root(account)
    for _ in range(2):
        await ledger.spend(account)
        assert instant(ledger).recall(FIRST.encode()) is None


async def test_debits_are_answered_in_order(ledger: CreditLedger) -> None:
    account = await ledger.issue(FIRST, 2, "")
    waiting = [Waiting() for _ in range(3)]
    for each in waiting:
        instant(ledger).spend_for(account, each)
    assert [each.reported for each in waiting] == [[]] * 3

    assert await ledger.spend(account) == Empty()

    assert [each.reported for each in waiting] == [[Spent(1)], [Spent(0)], [Empty()]]


async def test_a_client_that_has_left_is_not_charged(ledger: CreditLedger) -> None:
    account = await ledger.issue(FIRST, 2, "")
    waiting = Waiting()
    instant(ledger).spend_for(account, waiting)
    waiting.has_left = True
    await ledger.expect_writable()
    await ledger.spend(account)

    assert waiting.reported == []
    assert await ledger.balance(account) == 1
