"""1,000 simultaneous exchanges of one application secret, by two processes, give one API key."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import pytest

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.signups.application import Application, parse_form
from mintscope.accounts.signups.signups import Exchanges, Signup
from mintscope.accounts.store import AccountConnections
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.errors import ServiceError
from support.oracles.account_books import contradictions, rows
from support.processes.processes import processes, start_process
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

ATTEMPTS_MAX = 5
T = TypeVar("T")

PROCESSES, TASKS = 2, 500
START_S, RACE_S = 60, 90
FORM: Final = parse_form(signup_body())
KEY: Final = "the-key-of-the-agent-0"

FORGET_STATE: Final = """
UPDATE application SET state = 'approved', issued_at = NULL, key_nonce = NULL
"""


@dataclass(frozen=True)
class SelectsThenUpdates:
    """A store with a mistake: it tests the state before the transaction, not in the transaction."""

    store: AccountStore
    file: AccountConnections

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.read(work)

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.claim(work)

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        kept = await self.read(lambda rows: rows.applications.find(FORM.email))
        assert kept is not None
        if kept.application.state == "approved":
            await asyncio.sleep(0)  # other tasks read the same state
            await self.file.write(lambda db: db.execute(FORGET_STATE))
        return await self.store.transact(work)


@dataclass(frozen=True)
class Race:
    """The arguments of each process in the race.

    secret        the application secret to exchange
    key           the redelivery key of all exchanges; None: they have none
    is_mistaken   whether the exchanges use `SelectsThenUpdates`
    """

    folder: Path
    secret: str
    key: str | None = None
    is_mistaken: bool = False


def run(tells: Any, go: Event, race: Race) -> None:
    """Send "ready" to *tells*, wait for *go*, exchange TASKS times at once, send the answers."""
    tells.send(asyncio.run(_exchange_all(tells, go, race)))


async def _exchange_all(tells: Any, go: Event, race: Race) -> list[str]:
    async with open_accounts_service(race.folder, pepper=PEPPER, clock=SystemClock()) as accounts:
        exchanges = _mistaken(accounts) if race.is_mistaken else accounts.exchange
        applicants = [await exchanges.recognise(FORM.email, race.secret) for _ in range(TASKS)]

        async def exchange(applicant: Application | None) -> str:
            assert applicant is not None
            try:
                issued = await exchanges.exchange(applicant, race.secret, redelivery_key=race.key)
            except ServiceError as refusal:
                return refusal.code
            return issued.api_key

        tells.send("ready")
        assert go.wait(START_S)
        return list(await asyncio.gather(*map(exchange, applicants)))


def _mistaken(accounts: Accounts) -> Exchanges:
    return Exchanges(
        store=SelectsThenUpdates(accounts.store, accounts.file),
        secrets=accounts.secrets,
        clock=SystemClock(),
        entropy=os.urandom,
    )


async def approved(folder: Path) -> Signup:
    async with open_accounts_service(folder, pepper=PEPPER, clock=ManualClock(NOW)) as accounts:
        made = await accounts.signup.apply(FORM, redelivery_key=None)
        await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code())
        await accounts.approve(made.signup_id)
        return made


def answers(race: Race) -> list[str]:
    """Let all processes exchange at the same time; return the answer to every exchange."""
    go = processes.Event()
    racers = []
    for _ in range(PROCESSES):
        hears, tells = processes.Pipe(duplex=False)
        process = start_process(run, tells, go, race)
        tells.close()
        racers.append((hears, process))
    try:
        for hears, _ in racers:
            assert hears.poll(START_S)
            assert hears.recv() == "ready"
        go.set()
        reported: list[str] = []
        for hears, _ in racers:
            assert hears.poll(RACE_S)
            reported += hears.recv()
        return reported
    finally:
        for hears, process in racers:
            process.kill()
            process.join()
            hears.close()


async def test_a_thousand_exchanges_of_one_secret_give_one_key(tmp_path: Path) -> None:
    made = await approved(tmp_path)

    reported = answers(Race(tmp_path, made.secret))

    money = tmp_path / "money.sqlite"
    counted = Counter(reported)
    assert counted.pop("KEY_ALREADY_EXISTS") == PROCESSES * TASKS - 1
    assert [key[:9] for key in counted] == ["svc_live_"]
    assert rows(money, "SELECT count(*) FROM api_key") == [(1,)]
    assert rows(money, "SELECT count(*) FROM user") == [(1,)]
    assert contradictions(money) == []


async def test_exchanges_with_one_idempotency_key_all_return_the_same_key(tmp_path: Path) -> None:
    made = await approved(tmp_path)

    reported = answers(Race(tmp_path, made.secret, key=KEY))

    assert len(set(reported)) == 1
    assert reported[0].startswith("svc_live_")
    assert rows(tmp_path / "money.sqlite", "SELECT count(*) FROM api_key") == [(1,)]
    assert contradictions(tmp_path / "money.sqlite") == []


async def test_the_race_finds_an_exchange_that_selects_then_updates(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS_MAX):  # on a busy machine, one attempt may be no race
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        made = await approved(folder)
        db = apsw.Connection(str(folder / "money.sqlite"))
        db.execute("DROP INDEX api_key_signup")
        db.close()
        reported = answers(Race(folder, made.secret, is_mistaken=True))
        if len({each for each in reported if each.startswith("svc_live_")}) > 1:
            assert contradictions(folder / "money.sqlite") != []
            return
    pytest.fail("no race found it")
