"""The contract of every CreditAccounts.  To test another engine, add it to `ENGINES`."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from mintscope.credits.ledger import CreditLedger, KindLine
from mintscope.credits.postgres import PostgresCreditBook, PostgresCreditLedger
from mintscope.credits.sqlite import CreditBook, SqliteCreditLedger
from mintscope.credits.store import CreditAccounts
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.postgres import dsn_in
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

FALL_BEHIND = "UPDATE credit_received_mark SET entry = entry - 1000000"


@dataclass
class Engine:
    """The credit accounts of users, and the ledger that issues credits to them, on one engine."""

    accounts: CreditAccounts
    ledger: CreditLedger
    spoil: Callable[[], Any]
    fall_behind: Callable[[], Any]


def sqlite(folder: Path) -> tuple[Engine, list[Any]]:
    path = folder / "money.sqlite"
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    accounts = CreditAccounts(CreditBook(path, pepper=PEPPER))
    raw = apsw.Connection(str(path))
    return Engine(
        accounts,
        ledger,
        lambda: raw.execute("ALTER TABLE credit_entry RENAME TO elsewhere"),
        lambda: raw.execute(FALL_BEHIND),
    ), [accounts, ledger]


def postgres(folder: Path) -> tuple[Engine, list[Any]]:
    dsn = dsn_in(folder)
    ledger = PostgresCreditLedger(dsn, pepper=PEPPER, clock=ManualClock(NOW))
    accounts = CreditAccounts(PostgresCreditBook(dsn, pepper=PEPPER))

    def spoil() -> None:
        with psycopg.connect(dsn, autocommit=True) as raw:
            raw.execute("ALTER TABLE credit_entry RENAME TO elsewhere")

    def fall_behind() -> None:
        with psycopg.connect(dsn, autocommit=True) as raw:
            raw.execute(FALL_BEHIND)

    return Engine(accounts, ledger, spoil, fall_behind), [accounts, ledger]


ENGINES = {"sqlite": sqlite, "postgresql": postgres}


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine, opened = ENGINES[request.param](tmp_path)
    yield engine
    for each in opened:
        await each.close()


async def test_accounts_are_listed_and_found_by_the_end_of_their_token(engine: Engine) -> None:
    first, second = credit_token(1), credit_token(2)
    account = await engine.ledger.issue(first, 5, "for one")
    await engine.ledger.issue(second, 7, "")
    await engine.ledger.spend(account)

    one, two = await engine.accounts.page()
    assert (one.account, one.hint, one.note) == (account, first[-8:], "for one")
    assert (one.credit_count, one.balance, one.issued_at) == (5, 4, NOW)
    assert (two.hint, two.credit_count, two.balance) == (second[-8:], 7, 7)
    assert await engine.accounts.page(first[-8:]) == [one]
    assert await engine.accounts.page("%") == []


async def test_a_page_omits_received_credits_if_the_journal_is_not_added_up(engine: Engine) -> None:
    """After an upgrade the journal may have millions of entries that are not added up yet."""
    await engine.ledger.issue(credit_token(1), 5, "")
    (before,) = await engine.accounts.page()
    engine.fall_behind()
    (line,) = await engine.accounts.page()

    assert (before.credit_count, line.credit_count, line.balance) == (5, None, 5)


async def test_a_summary_adds_up_each_kind(engine: Engine) -> None:
    account = await engine.ledger.issue(credit_token(1), 5, "")
    for _ in range(2):
        await engine.ledger.spend(account)

    assert await engine.accounts.summary(account) == [
        KindLine("grant", 5, NOW, NOW),
        KindLine("spend", -2, NOW, NOW),
    ]
    assert await engine.accounts.contradictions() == []


async def test_a_store_that_cannot_be_read_is_unavailable(engine: Engine) -> None:
    engine.spoil()
    with pytest.raises(ServiceUnavailable):
        await engine.accounts.contradictions()


async def test_accounts_are_listed_a_page_at_a_time(engine: Engine) -> None:
    tokens = [credit_token(number) for number in range(1, 6)]
    accounts = [await engine.ledger.issue(token, 3, "") for token in tokens]

    first = await engine.accounts.page(limit=2)
    assert [each.account for each in first] == accounts[:2]
    second = await engine.accounts.page(after=first[-1].account, limit=2)
    assert [each.account for each in second] == accounts[2:4]
    assert [each.account for each in await engine.accounts.page(after=accounts[3])] == accounts[4:]
    assert await engine.accounts.page(after=accounts[-1]) == []
    ending = await engine.accounts.page("", limit=4)
    assert [each.account for each in ending] == accounts[:4]
    ending = await engine.accounts.page("", after=accounts[3], limit=4)
    assert [each.account for each in ending] == accounts[4:]
