"""What every CreditAccounts must do.  Add an engine to `ENGINES`, nothing else."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from mintscope.base.clock import ManualClock
from mintscope.base.errors import ServiceUnavailable
from mintscope.core.credits.ledger import CreditAccounts, CreditLedger, KindLine
from mintscope.edges.storage.sqlite.money.credit_ledger import (
    SqliteCreditAccounts,
    SqliteCreditLedger,
)
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER


@dataclass
class Desk:
    """The accounts, and the ledger that fills them."""

    accounts: CreditAccounts
    ledger: CreditLedger
    spoil: Callable[[], Any]


def sqlite(folder: Path) -> tuple[Desk, list[Any]]:
    path = folder / "money.sqlite"
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    accounts = SqliteCreditAccounts(path, pepper=PEPPER)
    raw = apsw.Connection(str(path))
    return Desk(
        accounts, ledger, lambda: raw.execute("ALTER TABLE credit_entry RENAME TO elsewhere")
    ), [accounts, ledger]


ENGINES = {"sqlite": sqlite}


@pytest.fixture(params=ENGINES)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    desk, opened = ENGINES[request.param](tmp_path)
    yield desk
    for each in opened:
        await each.close()


async def test_every_account_is_listed_by_the_end_of_its_token(desk: Desk) -> None:
    first, second = credit_token(1), credit_token(2)
    account = await desk.ledger.issue(first, 5, "for one")
    await desk.ledger.issue(second, 7, "")
    await desk.ledger.spend(account)

    one, two = await desk.accounts.accounts()
    assert (one.account, one.hint, one.note) == (account, first[-8:], "for one")
    assert (one.credit_count, one.balance, one.issued_at) == (5, 4, NOW)
    assert (two.hint, two.credit_count, two.balance) == (second[-8:], 7, 7)
    assert await desk.accounts.accounts(first[-8:]) == [one]
    assert await desk.accounts.accounts("%") == []


async def test_a_summary_adds_up_each_kind(desk: Desk) -> None:
    account = await desk.ledger.issue(credit_token(1), 5, "")
    for _ in range(2):
        await desk.ledger.spend(account)

    assert await desk.accounts.summary(account) == [
        KindLine("grant", 5, NOW, NOW),
        KindLine("spend", -2, NOW, NOW),
    ]
    assert await desk.accounts.contradictions() == []


async def test_a_store_that_cannot_be_read_is_unavailable(desk: Desk) -> None:
    desk.spoil()
    with pytest.raises(ServiceUnavailable):
        await desk.accounts.contradictions()
