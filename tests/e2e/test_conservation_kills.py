"""Kill -9 during all kinds of sales: credits are taken only for answers that were sent or lost."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import httpx
import pytest
from credit_books import Book, clear_up, issue, left, open_book
from live_service import serve_all, serve_quiet

from support.fakes.reports import TRACKED, UNTRACKED
from support.processes.processes import running
from support.scenes.live_market import SECOND
from support.scenes.postgres import dsn_in
from support.scenes.service import bearer, credit_token

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
KILLS = 150 if FULL else 4
TOKENS, CREDITS, CLIENTS = 6, 1_000_000, 6
READY_S = 60


@dataclass
class History:
    """The credits that answers report as taken, and the possible credits of lost answers.

    A minute of a stream is refunded, even if its data was sent, if the service dies before it has
    recorded the minute.  The minute is recorded when a minute of another stream begins.
    """

    reported: Counter[int] = field(default_factory=Counter)
    unseen: Counter[int] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)


async def call(
    client: httpx.AsyncClient, history: History, random: Random, doubted: Counter[int]
) -> None:
    """Make one call; record the reported cost, or without an answer the possible cost.

    doubted    credits of this client's last stream, which may still be refunded
    """
    number = random.randrange(TOKENS)
    headers = bearer(credit_token(number))
    kind, cost = random.choice([("single", 1), ("batch", 2), ("candles", 1), ("stream", 2)])
    try:
        if kind == "stream":
            reported = await minutes(client, headers)
        else:
            reported = await answered(client, kind, headers)
    except httpx.HTTPError:
        history.unseen[number] += cost
        raise
    if kind == "stream":
        history.reported.update(doubted)
        doubted.clear()
        doubted[number] += reported
    else:
        history.reported[number] += reported
    history.met[kind] += 1


async def answered(client: httpx.AsyncClient, kind: str, headers: dict[str, str]) -> int:
    match kind:
        case "single":
            response = await client.get(f"/v1/token/{TRACKED}", headers=headers)
        case "batch":
            body = {"mints": [TRACKED, UNTRACKED, SECOND]}
            response = await client.post("/v1/tokens/batch", json=body, headers=headers)
        case _:
            path = f"/v1/token/{TRACKED}/candles?tf=m1"
            response = await client.get(path, headers=headers)
    assert response.status_code == 200, response.text
    data = response.json()["data"]
    match kind:
        case "single":
            return 1
        case "batch":
            return sum("report" in line for line in data["results"])
        case _:
            return int(bool(data["candles"]))


async def minutes(client: httpx.AsyncClient, headers: dict[str, str]) -> int:
    """Read a stream up to its first update; return the credits that its events report."""
    credit_count, path = 0, f"/v1/stream?mints={TRACKED},{SECOND}"
    try:
        async with client.stream("GET", path, headers=headers) as response:
            event = ""
            async for line in response.aiter_lines():
                event = line.removeprefix("event: ") if line.startswith("event: ") else event
                if line.startswith("data: ") and event == "minute":
                    credit_count += json.loads(line.removeprefix("data: "))["credits"]
                if event == "update":
                    break
    except httpx.HTTPError:
        if not credit_count:
            raise
    return credit_count


async def events(address: str, headers: dict[str, str]) -> list[str]:
    """Read a stream until the service dies; return the names of its events."""
    reported, path = list[str](), f"/v1/stream?mints={TRACKED},{SECOND}"
    with suppress(httpx.HTTPError):
        async with (
            httpx.AsyncClient(base_url=address, timeout=READY_S) as client,
            client.stream("GET", path, headers=headers) as response,
        ):
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    reported.append(line.removeprefix("event: "))
    return reported


async def client_of(address: str, history: History, random: Random) -> None:
    doubted: Counter[int] = Counter()
    async with httpx.AsyncClient(base_url=address, timeout=READY_S) as client:
        try:
            while True:
                await call(client, history, random, doubted)
        except httpx.HTTPError:
            history.met["killed"] += 1
    history.unseen.update(doubted)


async def answering(history: History) -> None:
    """Wait until CLIENTS more calls have been answered, however long this machine takes."""
    enough = history.met.total() + CLIENTS
    async with asyncio.timeout(READY_S):
        while history.met.total() < enough:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)


def taken(book: Book) -> dict[int, int]:
    """Return the credits taken from each token; first refund the open debits of dead processes."""
    clear_up(book)
    return {number: CREDITS - left(book, credit_token(number)) for number in range(TOKENS)}


def issue_all(book: Book) -> None:
    for number in range(TOKENS):
        issue(book, credit_token(number), CREDITS)


@pytest.mark.storm
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_a_charged_minute_without_sent_data_is_refunded_after_kill_9(
    engine: str, tmp_path: Path
) -> None:
    dsn = dsn_in(tmp_path, ("money",)) if engine == "postgresql" else ""
    with closing(open_book(tmp_path, dsn)) as book:
        issue_all(book)
    with running(serve_quiet, tmp_path, dsn) as (port, _):
        reported = await events(f"http://127.0.0.1:{port}", bearer(credit_token(0)))
    assert reported == ["minute", "snapshot", "snapshot", "minute"]
    for _ in range(2):  # twice: the third minute is refunded once, the second is over
        with closing(open_book(tmp_path, dsn)) as book:
            assert taken(book)[0] == 4


@pytest.mark.storm
async def test_credits_are_taken_only_for_sent_or_lost_answers_over_kill_9(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    history, random = History(), Random(3)
    with closing(open_book(tmp_path)) as book:
        issue_all(book)

    for _ in range(KILLS):
        with running(serve_all, tmp_path) as (port, _):
            address = f"http://127.0.0.1:{port}"
            calling = [
                asyncio.ensure_future(client_of(address, history, random)) for _ in range(CLIENTS)
            ]
            await answering(history)
            await asyncio.sleep(random.uniform(0.2, 1.0))
        await asyncio.gather(*calling)
    reported = sum(history.reported.values())
    record_property("figure", f"{KILLS} kills: {reported:,} credits of answers, all kept")

    assert history.met["killed"] == KILLS * CLIENTS
    assert set(history.met) == {"single", "batch", "candles", "stream", "killed"}
    with closing(open_book(tmp_path)) as book:
        found = taken(book)
    for number, credit_count in found.items():
        least = history.reported[number]
        assert least <= credit_count <= least + history.unseen[number]
