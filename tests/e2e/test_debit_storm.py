"""Kill -9 during debits: no answered debit is lost, and the books balance.

A killed process keeps its page cache, so kills cannot see a commit that was not
flushed; `test_every_answer_waits_for_the_disk` counts the flushes instead.
"""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from paying_service import (
    FLUSH,
    AnswersFirst,
    FlushTrace,
    NeverFlushes,
    Sound,
    serve,
)

from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import CreditToken
from support.fakes.reports import TRACKED
from support.processes.processes import running
from support.processes.served import Served
from support.scenes.service import credit_token
from support.scenes.stores import PEPPER

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
KILLS = 300 if FULL else 15
TOKENS, CREDITS, CLIENTS = 12, 1_000_000, 8
ANSWERED_S = 20  # the longest time that a kill waits for answers
ANSWERS = 20
ANSWER = "answer"


@dataclass
class History:
    """The balances that clients received, and the number of answers that never came, by token."""

    reported: defaultdict[CreditToken, list[int]] = field(default_factory=lambda: defaultdict(list))
    unanswered: Counter[CreditToken] = field(default_factory=Counter)

    @property
    def answered_count(self) -> int:
        return sum(map(len, self.reported.values()))


def request(token: CreditToken) -> bytes:
    return (
        f"GET /v1/token/{TRACKED} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


async def spend(server: Served, history: History, random: Random) -> None:
    """Spend credits of random tokens until the connection breaks; note all answers in *history*."""
    async with server.connection() as client:
        while True:
            token = credit_token(random.randrange(TOKENS))
            await client.send(request(token))
            try:
                status, headers, _ = await client.answer()
            except (asyncio.IncompleteReadError, ConnectionError):
                history.unanswered[token] += 1
                return
            assert status == 200
            history.reported[token].append(int(headers["x-credits-remaining"]))


async def storm(folder: Path, ledger: type[Sound], kills: int, history: History) -> None:
    random = Random(7)
    for _ in range(kills):
        with running(serve, folder, ledger) as (port, _):
            server = Served(port, asyncio.Event())
            spending = [
                asyncio.ensure_future(spend(server, history, random)) for _ in range(CLIENTS)
            ]
            await answered(history, CLIENTS + random.randrange(1, CLIENTS))
            await asyncio.sleep(random.uniform(0.0, 0.1))
        await asyncio.gather(*spending)


async def answered(history: History, count: int) -> None:
    """Wait until *count* more debits have an answer, at most ANSWERED_S.

    On a busy machine a debit takes long: a kill after a fixed time would come before all debits.
    """
    before = history.answered_count
    for _ in range(ANSWERED_S * 100):
        if history.answered_count >= before + count:
            return
        await asyncio.sleep(0.01)


def issue(folder: Path) -> None:
    book = CreditBook(folder / "money.sqlite", pepper=PEPPER)
    for number in range(TOKENS):
        book.issue(credit_token(number), CREDITS, note="", at=SystemClock().now())
    book.close()


def violations(folder: Path, history: History) -> list[str]:
    """Return each contradiction between the credit books and the answers to clients."""
    book = CreditBook(folder / "money.sqlite", pepper=PEPPER)
    found = [f"account {account} contradicts itself" for account in book.contradictions()]
    for number in range(TOKENS):
        token = credit_token(number)
        account = book.find(token)
        assert account is not None
        spent = CREDITS - book.balance(account)
        reported = history.reported[token]
        if len(set(reported)) < len(reported):
            found.append(f"token {number}: a balance was sent twice, so a debit was lost")
        if reported and CREDITS - min(reported) > spent:
            found.append(f"token {number}: {CREDITS - min(reported)} debits answered, {spent} kept")
        if not len(reported) <= spent <= len(reported) + history.unanswered[token]:
            found.append(f"token {number}: {spent} kept for {len(reported)} answers")
    book.close()
    return found


@pytest.mark.storm
async def test_no_answered_debit_is_lost_to_kill_9(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    history = History()
    issue(tmp_path)

    await storm(tmp_path, Sound, KILLS, history)
    debits = history.answered_count
    record_property("figure", f"{KILLS} kills: {debits:,} debits answered, none lost")

    assert violations(tmp_path, history) == []
    assert debits > KILLS * CLIENTS  # the service worked between the kills
    # Each kill interrupts one request of every client.
    assert history.unanswered.total() == KILLS * CLIENTS


@pytest.mark.storm
async def test_the_storm_finds_a_ledger_that_answers_before_it_commits(tmp_path: Path) -> None:
    history = History()
    issue(tmp_path)

    await storm(tmp_path, AnswersFirst, 2, history)

    assert any("kept" in violation for violation in violations(tmp_path, history))


async def flushes_before_each_answer(folder: Path, ledger: type[Sound]) -> list[int]:
    """Spend one credit after the other; return the number of flushes to disk between answers."""
    issue(folder)
    trace = folder / "trace"
    notes = FlushTrace(trace)
    with running(serve, folder, ledger, trace) as (port, _):
        async with Served(port, asyncio.Event()).connection() as client:
            for _ in range(ANSWERS):
                await client.send(request(credit_token(0)))
                assert (await client.answer())[0] == 200
                notes.note(ANSWER)
    # The part before the first answer also has the flushes of the start.
    _, *between = trace.read_text().split(f"{ANSWER}\n")[:ANSWERS]
    return [lines.count(FLUSH) for lines in between]


async def test_every_answer_waits_for_the_disk(tmp_path: Path) -> None:
    assert min(await flushes_before_each_answer(tmp_path, Sound)) >= 1


async def test_the_trace_finds_a_ledger_that_does_not_flush(tmp_path: Path) -> None:
    assert min(await flushes_before_each_answer(tmp_path, NeverFlushes)) == 0
