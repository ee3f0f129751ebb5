"""1,000 simultaneous exchanges of one secret over HTTP, at two processes, give one API key."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Final

from mintscope.accounts.signups.application import parse_form
from mintscope.app.accounts import open_accounts
from mintscope.app.config.config import AccountsConfig
from mintscope.app.stores.stores import open_money
from mintscope.app.web_api import create_api
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MemoryLimits
from support.fakes.reports import FakeReports
from support.oracles.account_books import contradictions, rows
from support.processes.processes import running
from support.processes.served import Client, Served, served
from support.scenes.accounts_service import EMAIL, EXCHANGE_PATH, open_accounts_service, signup_body
from support.scenes.stores import PEPPER, config_in

PROCESSES, CONNECTIONS, PIPELINED = 2, 250, 2
ANSWER_S: Final = 60
RAISED: Final = AccountsConfig(exchange_limit_requests=1_000_000, limit_requests=1_000_000)
FORM: Final = parse_form(signup_body())


def serve(tells: Any, folder: Path) -> None:
    """Run one of the api processes; report its port."""
    asyncio.run(_serve(tells, folder))


async def _serve(tells: Any, folder: Path) -> None:
    clock = SystemClock()
    config = config_in(folder, accounts=RAISED)
    async with (
        open_money(config, clock) as money,
        open_accounts(
            config,
            store=money.accounts,
            pepper=money.pepper,
            origin="http://x",
            limits=MemoryLimits(clock),
            clock=clock,
        ) as accounts,
    ):
        app = create_api(
            config,
            reports=FakeReports(),
            ledger=money.ledger,
            checks=[],
            merchant=None,
            accounts=accounts,
            limits=MemoryLimits(clock),
            clock=clock,
        )
        async with served(app, Bounds()) as server:
            tells.send(server.port)
            await asyncio.Event().wait()


async def approved(folder: Path) -> str:
    """Return the secret of a new application that is approved."""
    async with open_accounts_service(folder, pepper=PEPPER, clock=SystemClock()) as accounts:
        made = await accounts.signup.apply(FORM, redelivery_key=None)
        await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code())
        await accounts.approve(made.signup_id)
        return made.secret


async def answers(ports: Sequence[int], secret: str) -> list[tuple[int, str, bytes]]:
    """Send exchanges on open connections; return (status, error code, body) of every answer."""
    body = json.dumps({"email": EMAIL, "applicationSecret": secret})
    request = (
        f"POST {EXCHANGE_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()

    async def hear(client: Client) -> list[tuple[int, str, bytes]]:
        heard = []
        for _ in range(PIPELINED):
            status, headers, answer = await client.answer()
            heard.append((status, headers.get("x-error-code", ""), answer))
        return heard

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Served(port, asyncio.Event()).connection())
            for _ in range(CONNECTIONS)
            for port in ports
        ]
        for client in clients:
            client.writer.write(request * PIPELINED)
        async with asyncio.timeout(ANSWER_S):
            reported = await asyncio.gather(*map(hear, clients))
    return [each for heard in reported for each in heard]


async def test_one_of_a_thousand_exchanges_over_http_returns_the_key(tmp_path: Path) -> None:
    secret = await approved(tmp_path)
    with ExitStack() as stack:
        ports = [stack.enter_context(running(serve, tmp_path))[0] for _ in range(PROCESSES)]
        reported = await answers(ports, secret)
    money = tmp_path / "money.sqlite"

    assert Counter((status, code) for status, code, _ in reported) == {
        (200, ""): 1,
        (409, "KEY_ALREADY_EXISTS"): PROCESSES * CONNECTIONS * PIPELINED - 1,
    }
    assert len({body for status, _, body in reported if status == 409}) == 1
    ((hint,),) = rows(money, "SELECT hint FROM api_key")
    (issued,) = [json.loads(body) for status, _, body in reported if status == 200]
    assert issued["keyHint"] == hint == f"...{issued['apiKey'][-8:]}"
    assert rows(money, "SELECT count(*) FROM user") == [(1,)]
    assert contradictions(money) == []
