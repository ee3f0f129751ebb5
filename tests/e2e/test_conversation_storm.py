"""Connections that break, on every paid route: each answer is paid for exactly once.

Clients cut their requests, close one half of a connection, reset it, and leave while the store does
not respond; replicas are killed and restarted.  In the end each client repeats its request with its
key until it gets an answer.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final

import apsw
import pytest
from credit_books import clear_up, issue, left, open_book
from live_service import serve_answers

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.solana.blocks import WSOL
from support.processes.processes import running
from support.processes.served import Served
from support.scenes.conversations import OF_THE_LIST, ROUTES, break_off, reset, written
from support.scenes.postgres import dsn_in, server
from support.scenes.service import credit_token

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
CONVERSATIONS: Final = 10_000 if FULL else 120
ABREAST: Final = 20
BREAKS_MAX: Final = 3
REPLICAS: Final = {"sqlite": 1, "postgresql": 2}
# The trouble of each round, in order.
TROUBLES: Final = ("", "", "", "slow store", "", "kill", *("", "", "", "slow store", "", "") * 3)
STREAM: Final = "stream"
ANSWER_S: Final = 60.0
SETTLED_S: Final = 0.5  # then sent minutes are recorded, and a kill refunds none
STILL_S: Final = 0.15
TOKEN: Final = credit_token(0)
OPEN_STREAM: Final = (
    f"GET /v1/stream?mints={WSOL} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
).encode()


@dataclass
class Fleet:
    """The replicas at one store, and the outcomes of the conversations with them."""

    folder: Path
    dsn: str
    stack: ExitStack
    replicas: list[tuple[Served, BaseProcess]] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    credits: int = 0

    def start(self) -> None:
        started = running(serve_answers, self.folder, self.dsn)
        port, process = self.stack.enter_context(started)
        self.replicas.append((Served(port, asyncio.Event()), process))

    def any(self, random: Random) -> Served:
        return random.choice(self.replicas)[0]

    async def kill_one(self, random: Random) -> None:
        """Kill a replica during conversations, and start another in its place."""
        await asyncio.sleep(random.uniform(0.0, 0.03))
        _, process = self.replicas.pop(random.randrange(len(self.replicas)))
        process.kill()
        await asyncio.to_thread(process.join)
        await asyncio.to_thread(self.start)

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[None]:
        """Freeze PostgreSQL, or lock the SQLite file against writes, during the block."""
        if self.dsn:
            with ExitStack() as stack:
                for pid in server().pids():
                    os.kill(pid, signal.SIGSTOP)
                    stack.callback(os.kill, pid, signal.SIGCONT)
                yield
        else:
            with closing(apsw.Connection(str(self.folder / MONEY_FILE))) as db:
                db.set_busy_timeout(10_000)
                db.execute("BEGIN IMMEDIATE")
                yield
                db.execute("ROLLBACK")


@dataclass
class Conversation:
    """A request that is broken off up to BREAKS_MAX times and answered in the end, or a stream."""

    number: int
    route: str
    random: Random

    @property
    def key(self) -> str:
        return f"conversation-{self.number:016}"

    async def break_off(self, fleet: Fleet, trouble: str) -> None:
        if self.route == STREAM:
            await self.listen(fleet, is_slow=trouble == "slow store")
            return
        request = written(self.route, TOKEN, key=self.key)
        for _ in range(self.random.randrange(1, BREAKS_MAX + 1)):
            if not fleet.replicas:
                return
            with suppress(OSError):  # the replica is gone
                await break_off(fleet.any(self.random), request, self.random)

    async def listen(self, fleet: Fleet, *, is_slow: bool) -> None:
        """Open a stream; leave after its minute event, or with *is_slow* before its first event."""
        async with fleet.any(self.random).connection() as client:
            await client.send(OPEN_STREAM)
            if is_slow:
                await asyncio.sleep(STILL_S / 3)
            else:
                async with asyncio.timeout(ANSWER_S):
                    await client.reader.readuntil(b"event: minute")
                fleet.credits += 1
            await reset(client)

    async def be_answered(self, fleet: Fleet) -> None:
        if self.route == STREAM:
            return
        async with asyncio.timeout(ANSWER_S):
            while True:
                with suppress(OSError, asyncio.IncompleteReadError):
                    async with fleet.any(self.random).connection() as client:
                        await client.send(written(self.route, TOKEN, key=self.key))
                        status, headers, body = await client.answer()
                    assert status == 200, body
                    break
        fleet.credits += ROUTES[self.route][2]
        fleet.met["given again"] += "idempotent-replayed" in headers


async def converse(fleet: Fleet, conversations: list[Conversation], trouble: str) -> None:
    """Interrupt all conversations during *trouble*, then let each get its answer."""
    random = conversations[0].random
    breaking = [each.break_off(fleet, trouble) for each in conversations]
    if trouble == "kill":
        await asyncio.sleep(SETTLED_S)
        await asyncio.gather(*breaking, fleet.kill_one(random))
    elif trouble == "slow store":
        async with fleet.standing_still():
            # Streams leave during the block: after it, they could get a minute, but do not read it.
            broken = [asyncio.ensure_future(each) for each in breaking]
            leaving = [
                task
                for task, each in zip(broken, conversations, strict=True)
                if each.route == STREAM
            ]
            await asyncio.gather(asyncio.sleep(STILL_S), *leaving)
        await asyncio.gather(*broken)
    else:
        await asyncio.gather(*breaking)
    await asyncio.gather(*(each.be_answered(fleet) for each in conversations))
    fleet.met.update(each.route for each in conversations)
    fleet.met[trouble] += 1


@pytest.mark.storm
@pytest.mark.parametrize("engine", REPLICAS)
async def test_each_answer_is_paid_for_once_if_connections_break(
    engine: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dsn = dsn_in(tmp_path, ("money",)) if engine == "postgresql" else ""
    with closing(open_book(tmp_path, dsn)) as book:
        issue(book, TOKEN, CONVERSATIONS)
    in_one_piece = [route for route in ROUTES if route not in OF_THE_LIST]  # no list of tokens here
    routes = [*in_one_piece, STREAM]
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, dsn, stack)
        for _ in range(REPLICAS[engine]):
            await asyncio.to_thread(fleet.start)
        for begin in range(0, CONVERSATIONS, ABREAST):
            trouble = TROUBLES[begin // ABREAST % len(TROUBLES)]
            await converse(
                fleet,
                [
                    Conversation(
                        number,
                        # No streams: a kill refunds a minute that is not yet recorded.
                        routes[number % (len(in_one_piece) if trouble == "kill" else len(routes))],
                        Random(number),
                    )
                    for number in range(begin, min(begin + ABREAST, CONVERSATIONS))
                ],
                trouble,
            )
        await asyncio.sleep(SETTLED_S)
    with closing(open_book(tmp_path, dsn)) as book:
        clear_up(book)
        taken = CONVERSATIONS - left(book, TOKEN)
    met = fleet.met
    record_property(
        "figure",
        f"{engine}: {CONVERSATIONS:,} broken conversations, {met['kill']} kills,"
        f" {met['slow store']} times a store that stood still: {taken:,} credits taken for"
        f" {fleet.credits:,} credits of answers, {met['given again']:,} of them given again",
    )
    assert taken == fleet.credits
    assert {*routes, "kill", "slow store", "given again"} <= set(met)
