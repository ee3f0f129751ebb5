"""100 clients race for one credit."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
from starlette.types import ASGIApp

from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.web_api import create_api
from mintscope.credits.ledger import CreditLedger, Empty, Spent, Statement
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CreditToken
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import CreditAccount
from support.fakes.reports import TRACKED, FakeReports
from support.processes.served import Client, served
from support.scenes.service import NOW, credit_token
from support.scenes.stores import money_in

CLIENTS, ROUNDS = 100, 50
EXACTLY_ONE = Counter({200: 1, 402: CLIENTS - 1})
RAISED = Config(api=ApiConfig(rate_limit_requests=1_000_000))


class SelectsThenUpdates:
    """A faulty ledger that tests the balance in one statement and changes it in another."""

    def __init__(self, ledger: CreditLedger, path: Path) -> None:
        self._ledger = ledger
        self._db = apsw.Connection(str(path))

    async def issue(self, token: CreditToken, credit_count: int, note: str) -> CreditAccount:
        return await self._ledger.issue(token, credit_count, note)

    async def find(self, bearer: str) -> CreditAccount | None:
        return await self._ledger.find(bearer)

    async def root(self, account: CreditAccount) -> CreditAccount:
        return await self._ledger.root(account)

    async def balance(self, account: CreditAccount) -> int:
        return await self._ledger.balance(account)

    async def statement(self, account: CreditAccount) -> Statement:
        return await self._ledger.statement(account)

    async def spend(self, account: CreditAccount) -> Spent | Empty:
        balance = await self.balance(account)
        await asyncio.sleep(0)  # other tasks read the same balance
        if balance == 0:
            return Empty()
        change = "UPDATE credit_account SET balance = ? WHERE id = ?"
        self._db.execute(change, (balance - 1, account))
        return Spent(balance - 1)

    async def expect_writable(self) -> None:
        await self._ledger.expect_writable()

    async def close(self) -> None:
        self._db.close()


async def race(clients: list[Client], token: CreditToken) -> Counter[int]:
    """Let every client request a report at once; return the number of answers by status."""
    request = (
        f"GET /v1/token/{TRACKED} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()
    for client in clients:
        client.writer.write(request)
    return Counter([(await client.answer())[0] for client in clients])


def app_over(ledger: CreditLedger) -> ASGIApp:
    return create_api(
        RAISED,
        reports=FakeReports(),
        ledger=ledger,
        checks=[],
        merchant=None,
        accounts=None,
        limits=MemoryLimits(ManualClock(NOW)),
        clock=ManualClock(NOW),
    )


async def rounds(ledgers: Sequence[CreditLedger], count: int) -> list[Counter[int]]:
    """Let all clients race for the last credit, *count* times; return each race's count by status.

    The clients are divided equally among one server per ledger.
    """
    async with AsyncExitStack() as stack:
        clients = []
        for ledger in ledgers:
            server = await stack.enter_async_context(served(app_over(ledger), Bounds()))
            clients += [
                await stack.enter_async_context(server.connection())
                for _ in range(CLIENTS // len(ledgers))
            ]
        answers = []
        for number in range(count):
            token = credit_token(number)
            # One credit for the first request, one for the race.  After the first request the token
            # is known, so the race is answered at once if possible.
            await ledgers[0].issue(token, 2, "")
            assert await race(clients[:1], token) == {200: 1}
            answers.append(await race(clients, token))
        return answers


async def test_exactly_one_of_100_clients_gets_the_last_credit(tmp_path: Path) -> None:
    async with money_in(tmp_path, clock=ManualClock(NOW)) as money:
        assert await rounds([money.ledger], ROUNDS) == [EXACTLY_ONE] * ROUNDS


async def test_two_servers_over_one_store_share_the_last_credit(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with money_in(tmp_path, clock=clock) as one, money_in(tmp_path, clock=clock) as other:
        assert await rounds([one.ledger, other.ledger], 10) == [EXACTLY_ONE] * 10


async def test_the_race_finds_a_ledger_that_selects_then_updates(tmp_path: Path) -> None:
    async with money_in(tmp_path, clock=ManualClock(NOW)) as money:
        ledger = SelectsThenUpdates(money.ledger, tmp_path / MONEY_FILE)
        answers = await rounds([ledger], 3)
        await ledger.close()

    assert all(answer[200] > 1 for answer in answers)
