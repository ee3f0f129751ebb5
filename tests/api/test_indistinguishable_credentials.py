"""Refusals that must look the same also compute as many hashes and run as many statements."""

import hmac
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mintscope.kit.credentials import make_application_secret
from support.scenes.account_stores import CountedAccounts
from support.scenes.accounts_service import EXCHANGE_PATH, STATUS_PATH
from support.scenes.people.agent import Agent
from support.scenes.service import Service, running_service

WRONG = make_application_secret(bytes(28))
WINDOW_MS = 5_000


class Tally(Counter[str]):
    """The numbers of hashes and of SQL statements since the last `take`."""

    def count(self, statement: str) -> None:
        """Add 1 to the count of statements with the first 30 characters of *statement*."""
        self[" ".join(statement.split())[:30]] += 1

    def take(self) -> dict[str, int]:
        taken = dict(self)
        self.clear()
        return taken


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    tally = Tally()
    digest = hmac.digest

    def count(key: bytes, message: bytes, name: str) -> bytes:
        tally["hash"] += 1
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", count)
    return tally


@pytest.fixture
async def service(tmp_path: Path, tally: Tally) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path, open_file=lambda path: CountedAccounts(path, tally.count)
    ) as service:
        yield service


class Cases:
    """Sends requests with credentials of agents in various states, below the rate limit."""

    def __init__(self, service: Service, tally: Tally) -> None:
        self._service = service
        self._tally = tally
        self.bodies: dict[str, bytes] = {}
        self.costs: dict[str, dict[str, int]] = {}

    async def ask(self, name: str, path: str, email: str, secret: str) -> httpx.Response:
        self._service.clock.advance(WINDOW_MS)
        self._tally.clear()
        body: Any = {"email": email, "applicationSecret": secret}
        response = await self._service.client.post(path, json=body)
        self.bodies[name] = response.content
        self.costs[name] = self._tally.take()
        return response


@pytest.mark.parametrize("path", [EXCHANGE_PATH, STATUS_PATH])
async def test_unknown_emails_and_wrong_secrets_get_the_same_answer_at_the_same_cost(
    service: Service, tally: Tally, path: str
) -> None:
    waiting, issued = Agent(service, "a@example.org"), Agent(service, "b@example.org")
    await waiting.sign_up()
    await issued.key()
    cases = Cases(service, tally)

    await cases.ask("unknown", path, "c@example.org", WRONG)
    await cases.ask("another's", path, "c@example.org", waiting.secret)
    await cases.ask("wrong", path, waiting.email, WRONG)
    await cases.ask("consumed, wrong", path, issued.email, WRONG)
    await cases.ask("wrong checksum", path, waiting.email, "svc_app_" + "0" * 64)

    assert len(set(cases.bodies.values())) == 1
    assert cases.costs["unknown"]["hash"] == 1
    assert sum(cost for what, cost in cases.costs["unknown"].items() if "SELECT" in what) == 1
    for name, cost in cases.costs.items():
        assert cost == cases.costs["unknown"], name


async def test_unapproved_and_rejected_exchanges_look_and_cost_like_a_wrong_secret(
    service: Service, tally: Tally
) -> None:
    waiting, rejected = Agent(service, "a@example.org"), Agent(service, "b@example.org")
    for agent in (waiting, rejected):
        await agent.sign_up()
    service.accounts.change(
        "UPDATE application SET state = 'rejected', decided_at = 1 WHERE email = ?", rejected.email
    )
    cases = Cases(service, tally)

    await cases.ask("unknown", EXCHANGE_PATH, "c@example.org", WRONG)
    await cases.ask("wrong", EXCHANGE_PATH, waiting.email, WRONG)
    await cases.ask("unconfirmed", EXCHANGE_PATH, waiting.email, waiting.secret)
    await waiting.confirm()
    await cases.ask("unapproved", EXCHANGE_PATH, waiting.email, waiting.secret)
    await cases.ask("rejected", EXCHANGE_PATH, rejected.email, rejected.secret)
    await cases.ask("malformed", EXCHANGE_PATH, waiting.email, "x")

    assert len(set(cases.bodies.values())) == 1
    for name, cost in cases.costs.items():
        assert cost == cases.costs["unknown"], name


async def test_a_consumed_secret_is_409_at_the_cost_of_a_wrong_secret(
    service: Service, tally: Tally
) -> None:
    agent = Agent(service)
    await agent.key()
    cases = Cases(service, tally)

    wrong = await cases.ask("wrong", EXCHANGE_PATH, agent.email, WRONG)
    consumed = await cases.ask("consumed", EXCHANGE_PATH, agent.email, agent.secret)

    assert (wrong.status_code, consumed.status_code) == (401, 409)
    assert cases.costs["consumed"] == cases.costs["wrong"]
