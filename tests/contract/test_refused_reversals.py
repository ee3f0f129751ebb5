"""A reversal that an engine always refuses is logged, and no other work waits for it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Debit, Debited, Reversal, Spent
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.time import month_of
from support.scenes.postgres import dsn_in
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

UNKNOWN_KEY: Final = 999
MONTH: Final = month_of(NOW)
LEDGERS: Final[dict[str, Callable[[Path], GroupCreditLedger]]] = {
    "sqlite": lambda folder: SqliteCreditLedger(
        folder / MONEY_FILE, pepper=PEPPER, clock=ManualClock(NOW)
    ),
    "postgresql": lambda folder: PostgresCreditLedger(
        dsn_in(folder), pepper=PEPPER, clock=ManualClock(NOW)
    ),
}


@pytest.fixture(params=LEDGERS)
async def ledger(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[GroupCreditLedger]:
    ledger = LEDGERS[request.param](tmp_path)
    yield ledger
    await ledger.close()


async def test_a_refused_reversal_is_logged_and_stops_neither_others_nor_spending(
    ledger: GroupCreditLedger,
) -> None:
    account = await ledger.issue(credit_token(1), 10, "")
    assert await ledger.spend(account) == Spent(9)
    begun = await ledger.prepay(Debit(account, 4))
    assert isinstance(begun, Debited)

    with capture_logs() as lines:
        ledger.owe(Reversal(account, 5, key=UNKNOWN_KEY, month=MONTH))
        ledger.owe(Reversal(account, 1))
        ledger.owe(begun.reversal())
        for left in (9, 8):
            assert await ledger.spend(account) == Spent(left)

    refused = [
        (line["account"], line["credits"], line["key"], line["month"])
        for line in lines
        if line["event"] == "reversal_refused"
    ]
    assert refused == [(account, 5, UNKNOWN_KEY, MONTH)]
