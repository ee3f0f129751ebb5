"""Kill -9 while agents apply, are approved and exchange: no answer is lost, no change is partial.

Two processes take all these steps on one file, and record their answers.  They are killed
repeatedly; then each client goes on with the same Idempotency-Key.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, Final, TextIO

import pytest

from mintscope.accounts.keys.scope import READ_SCOPES
from mintscope.accounts.signups.application import ApplicationState, parse_form
from mintscope.accounts.signups.reviews import Reviews
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import hash_credential
from support.fakes.mistaken_review import WritesEmailsAfterwards
from support.oracles.account_books import contradictions, rows
from support.processes.processes import running
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.stores import PEPPER

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
KILLS = 200 if FULL else 8
CLERKS, AGENTS = 2, 4
REPORTED: Final = "reported.jsonl"
MISTAKEN_STORMS_MAX, MISTAKEN_KILLS = 10, 3


@dataclass(frozen=True)
class Shift:
    """The arguments of one worker process.

    name          a prefix of the e-mail addresses of its agents
    is_mistaken   whether it writes e-mails only after the transaction of their event
    """

    folder: Path
    name: str
    is_mistaken: bool = False


@dataclass(frozen=True)
class Reported:
    """An answer to an agent: the name of the step, and its value."""

    email: str
    what: str
    value: str


class Agent:
    """An agent, which takes all steps to an API key; it always has the same redelivery keys."""

    def __init__(self, accounts: Accounts, email: str) -> None:
        self._accounts = accounts
        self._form = parse_form(signup_body(email))

    async def come_to_a_key(self) -> AsyncIterator[Reported]:
        """Apply, confirm, get approved and exchange; yield the answer to each step.

        A new process may take all steps again: it sends the same redelivery keys.
        """
        accounts, email = self._accounts, self._form.email
        made = await accounts.signup.apply(self._form, redelivery_key=self._key("signup"))
        yield Reported(email, "secret", made.secret)
        await accounts.signup.confirm_by_code(email, made.secret, accounts.code(email))
        yield Reported(email, "confirmed", "")
        if await accounts.signup.state(email, made.secret) is ApplicationState.AWAITING_APPROVAL:
            await accounts.review.approve(
                made.signup_id, scopes=READ_SCOPES, note="", actor=COMMAND_LINE
            )
        yield Reported(email, "approved", "")
        applicant = await accounts.exchange.recognise(email, made.secret)
        assert applicant is not None
        issued = await accounts.exchange.exchange(
            applicant, made.secret, redelivery_key=self._key("exchange")
        )
        yield Reported(email, "key", issued.api_key)

    def _key(self, what: str) -> str:
        return f"the-{what}-key-of-{self._form.email}"


def work(tells: Any, shift: Shift) -> None:
    """Let AGENTS series of agents apply, until the process is killed."""
    asyncio.run(_work(tells, shift))


async def _work(tells: Any, shift: Shift) -> None:
    async with open_accounts_service(shift.folder, pepper=PEPPER, clock=SystemClock()) as accounts:
        if shift.is_mistaken:
            review = Reviews(
                WritesEmailsAfterwards(accounts.file), clock=SystemClock(), entropy=os.urandom
            )
            accounts.review = review
        tells.send("ready")
        with (shift.folder / REPORTED).open("a", buffering=1) as notes:  # one write per line
            await asyncio.gather(
                *(_apply_for_ever(accounts, f"{shift.name}-{n}", notes) for n in range(AGENTS))
            )


async def _apply_for_ever(accounts: Accounts, name: str, notes: TextIO) -> None:
    for number in count():
        agent = Agent(accounts, f"{name}-{number}@example.org")
        async for reported in agent.come_to_a_key():
            notes.write(json.dumps(astuple(reported)) + "\n")


def storm(folder: Path, kills: int, *, is_mistaken: bool = False) -> None:
    """Start the processes, and kill them after a moment; repeat this *kills* times."""
    random = Random(7)
    for number in range(kills):
        with ExitStack() as stack:
            for clerk in range(CLERKS):
                shift = Shift(folder, f"agent-{number}-{clerk}", is_mistaken=is_mistaken)
                stack.enter_context(running(work, shift))
            sleep(random.uniform(0.02, 0.25))


def reported_in(folder: Path) -> list[Reported]:
    """Return the stored answers; a line that the kill cut is left out."""
    lines = (folder / REPORTED).read_text().splitlines(keepends=True)
    return [Reported(*json.loads(line)) for line in lines if line.endswith("]\n")]


def lost(folder: Path, reported: list[Reported]) -> list[str]:
    """Return those of *reported*, answers to clients, whose effects are not in the money file."""
    money = folder / "money.sqlite"
    columns = "email, state, confirmed_at IS NOT NULL, secret_hash"
    kept = {
        email: (state, is_confirmed, digest)
        for email, state, is_confirmed, digest in rows(money, f"SELECT {columns} FROM application")
    }
    keys = {digest for (digest,) in rows(money, "SELECT key_hash FROM api_key")}
    missing = []
    for each in reported:
        state, is_confirmed, digest = kept.get(each.email, ("", 0, b""))
        is_kept = {
            "secret": digest == hash_credential(each.value, pepper=PEPPER),
            "confirmed": bool(is_confirmed),
            "approved": state in {"approved", "key_issued"},
            "key": hash_credential(each.value, pepper=PEPPER) in keys,
        }
        if not is_kept[each.what]:
            missing.append(f"{each.email}: {each.what}")
    return missing


async def go_on(folder: Path, reported: list[Reported]) -> list[str]:
    """Let each client repeat all its steps; return the answers that differ from *reported*."""
    emails = {each.email for each in reported}
    emails |= {email for (email,) in rows(folder / "money.sqlite", "SELECT email FROM application")}
    before = {(each.email, each.what): each.value for each in reported}
    other: list[str] = []
    async with open_accounts_service(folder, pepper=PEPPER, clock=SystemClock()) as accounts:
        for email in sorted(emails):
            other += [
                f"{email}: another {each.what}"
                async for each in Agent(accounts, email).come_to_a_key()
                if before.get((email, each.what), each.value) != each.value
            ]
    return other


async def found_after(folder: Path, kills: int, *, is_mistaken: bool = False) -> list[str]:
    """Kill processes *kills* times under load, let the clients go on, and return errors found."""
    await asyncio.to_thread(partial(storm, folder, kills, is_mistaken=is_mistaken))
    money = folder / "money.sqlite"
    reported = reported_in(folder)
    wrong = contradictions(money) + lost(folder, reported)
    if wrong:
        return wrong
    wrong = await go_on(folder, reported) + contradictions(money)
    applications, keys = rows(
        money, "SELECT (SELECT count(*) FROM application), (SELECT count(*) FROM api_key)"
    )[0]
    if applications != keys:
        wrong.append(f"{applications} applications, {keys} keys")
    return wrong


@pytest.mark.storm
async def test_no_answer_to_an_agent_is_lost_to_kill_9(tmp_path: Path) -> None:
    assert await found_after(tmp_path, KILLS) == []

    finished = sum(each.what == "key" for each in reported_in(tmp_path))
    begun = len({each.email for each in reported_in(tmp_path)})
    assert finished >= KILLS  # much was done between the kills
    assert begun > finished  # kills interrupted some agents


async def test_the_storm_finds_an_email_written_afterwards(tmp_path: Path) -> None:
    """One short storm may miss the mistake by chance; several storms do not."""
    for number in range(MISTAKEN_STORMS_MAX):
        folder = tmp_path / str(number)
        folder.mkdir()
        if any(
            "e-mails" in each
            for each in await found_after(folder, MISTAKEN_KILLS, is_mistaken=True)
        ):
            return
    pytest.fail(f"{MISTAKEN_STORMS_MAX} storms did not find it")
