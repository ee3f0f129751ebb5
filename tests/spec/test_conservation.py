"""The credits taken equal the credits that the answers deliver, for calls in any order.

The calls are of every kind that costs credits: single reports, batches, pages of series, streams,
by credit token and by API key.  Some have too few credits, reach a cap, find old data or are
refused; some clients leave at any time, or already have the report.  Deliveries are counted from
bodies alone, debits from the ledger.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import pytest

from mintscope.accounts.wallets.credits import Deposited
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import StreamsConfig
from mintscope.kit.audit import UserId
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.live_market import SECOND, TRADED, trade
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer
from support.scenes.streaming import PATIENCE_S, Event, Reader, Streaming, streaming_service

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only the number of calls
CALLS: Final = 100_000 if FULL else 500
STALE_SHARE: Final = 0.1 if FULL else 0.5  # of changes of age that are too old for streams, too
AT_ONCE: Final = 4
STREAMS_MAX: Final = 5
TRADES_MAX: Final = 400
TOKENS: Final = {"rich": 10 * CALLS, "poor": 40, "leaves": 10 * CALLS}
KEY_CREDITS: Final = 10 * CALLS
CAP: Final = CALLS // 8
MINTS: Final = [TRACKED, SECOND, TOO_YOUNG, UNTRACKED]
RAISED: Final = ApiConfig(rate_limit_requests=10**9)
MEET: Final = {  # the outcomes that must occur
    *("single 200", "batch 200", "candles 200", "indicators 200", "swaps 200", "stream 200"),
    *("single 304", "wrong 400", "single 404", "single 503", "single INSUFFICIENT_CREDITS", "left"),
    *("single KEY_CAP_REACHED", "batch INSUFFICIENT_CREDITS", "stream INSUFFICIENT_CREDITS"),
    *("end", "end stale"),
}
MANY: Final = StreamsConfig(per_account_max=100)


def trade_now(service: Service) -> None:
    """Append a slot of this second with a trade of each mint; the service does not read it yet."""
    trade(service.log, *TRADED, at_s=service.clock.now() // 1000)


@dataclass
class Kept:
    """An open stream, and the credits that its events have reported so far."""

    who: str
    reader: Reader
    stack: AsyncExitStack
    mints: list[Any]
    credits: int = 0
    end: Event | None = None

    def hear(self, event: Event) -> None:
        if event.name == "minute":
            self.credits += event.data["credits"]
        elif event.name == "end":
            self.credits -= event.data["creditsReturned"]
            self.end = event


@dataclass
class Calls:
    """Makes calls of the API, and adds up the credits that their answers deliver."""

    streaming: Streaming
    random: Random
    credentials: dict[str, str] = field(default_factory=dict)
    issued: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)  # requests with unread answers
    met: Counter[str] = field(default_factory=Counter)
    streams: list[Kept] = field(default_factory=list)
    etags: list[str] = field(default_factory=lambda: ["*"])  # of reports that were delivered
    count: int = 0

    async def prepare(self) -> None:
        service = self.streaming.service
        service.reports.others.add(SECOND)
        for who, credit_count in TOKENS.items():
            self.credentials[who], self.issued[who] = (
                await service.issue(credit_count),
                credit_count,
            )
        self.credentials["key"] = await Agent(service).key()
        ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
        account = await service.ledger.find(await service.issue(KEY_CREDITS))
        assert account is not None
        moved = await service.accounts.built.credits.deposit(UserId(user_id), account, None, None)
        assert isinstance(moved, Deposited)
        service.accounts.change("UPDATE api_key SET month_credits_max = ?", CAP)
        self.issued["key"] = KEY_CREDITS

    async def step(self) -> None:
        """Take one random step: make some calls, or change the streams, the market or the time."""
        kinds: list[Callable[[], Any]] = [self.open, self.close, self.trade, self.minute, self.age]
        kind = self.random.choice([self.plain] * 12 + [*kinds, self.change])
        await kind()

    async def plain(self) -> None:
        self.count += AT_ONCE
        await asyncio.gather(*(self.call() for _ in range(AT_ONCE)))

    async def call(self) -> None:
        who = self.random.choice([*self.credentials, "key"])
        headers = bearer(self.credentials[who])
        kind = self.random.choice(["single", "batch", "candles", "indicators", "swaps", "wrong"])
        mint = self.random.choice(MINTS)
        mints = self.random.sample(MINTS, self.random.randint(1, len(MINTS)))
        if who == "leaves":
            await self.leave(headers, mint)
            return
        response = await self.answer(kind, headers, mint, mints)
        assert response.status_code < 500 or response.status_code == 503, response.text
        self.note(kind, response)
        if response.status_code == 200:
            if "etag" in response.headers:
                self.etags.append(response.headers["etag"])
            self.reported[who] += delivered(kind, response.json()["data"])

    def note(self, kind: str, response: httpx.Response) -> None:
        is_paid = response.status_code == 402
        self.met[
            f"{kind} {response.json()['error']['code'] if is_paid else response.status_code}"
        ] += 1

    async def answer(
        self, kind: str, headers: dict[str, str], mint: str, mints: Sequence[str]
    ) -> httpx.Response:
        client = self.streaming.client
        match kind:
            case "single":
                if self.random.random() < 0.3:  # the report may have changed
                    headers = headers | {"if-none-match": self.random.choice(self.etags[-4:])}
                return await client.get(f"/v1/token/{mint}", headers=headers)
            case "batch":
                body = {"mints": list(mints)}
                return await client.post("/v1/tokens/batch", json=body, headers=headers)
            case "wrong":
                path = self.random.choice(["/v1/token/abc", "/v1/stream", "/v1/stream?mints=x"])
                return await client.get(path, headers=headers)
            case _:
                params = {} if kind == "swaps" else {"tf": "m1"}
                path = f"/v1/token/{mint}/{kind}"
                return await client.get(path, params=params, headers=headers)

    async def leave(self, headers: dict[str, str], mint: str) -> None:
        """Send a request, and disconnect without reading the answer."""
        path = self.random.choice([f"/v1/token/{mint}", f"/v1/stream?mints={mint}"])
        async with self.streaming.server.connection() as client:
            lines = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {headers['authorization']}"
            await client.send(lines.encode() + b"\r\n\r\n")
            for _ in range(self.random.randrange(6)):
                await asyncio.sleep(0)
        self.unseen["leaves"] += 1
        self.met["left"] += 1

    async def open(self) -> None:
        """Open a stream, unless STREAMS_MAX streams are open."""
        self.count += 1
        who = self.random.choice(["rich", "poor", "key", "key"])
        if len(self.streams) >= STREAMS_MAX:
            return
        mints = self.random.sample(TRADED, self.random.randint(1, 2))
        stack = AsyncExitStack()
        opened = self.streaming.open(self.credentials[who], mints)
        reader = await stack.enter_async_context(opened)
        if reader.response.status_code == 200:
            self.met["stream 200"] += 1
            self.streams.append(Kept(who, reader, stack, mints))
        else:
            self.note("stream", reader.response)
            await stack.aclose()

    async def close(self) -> None:
        """Read a random open stream to its end, close it, and count the credits it reported."""
        if self.streams:
            kept = self.streams.pop(self.random.randrange(len(self.streams)))
            await self.read(kept)
            await kept.stack.aclose()
            self.reported[kept.who] += kept.credits
            self.met["end" if kept.end is None else f"end {kept.end.data['reason']}"] += 1

    async def read(self, kept: Kept) -> None:
        """Make a trade, and read events of *kept* up to this trade, or to the end of the stream.

        Minutes that are due begin before the trade, so their events are read, too.
        """
        self.streaming.service.clock.advance(250)
        self.streaming.service.streams.look()
        trade_now(self.streaming.service)
        await self.streaming.service.follower.catch_up()
        newest = self.streaming.service.log.seq
        async with asyncio.timeout(PATIENCE_S):
            while kept.end is None:
                event = await kept.reader.next()
                kept.hear(event)
                if event.event_id == newest:
                    return
                self.streaming.service.streams.look()

    def trade_all(self) -> None:
        self.streaming.service.clock.advance(20_000)
        trade_now(self.streaming.service)

    async def trade(self) -> None:
        if len(self.streaming.service.log.kept) < TRADES_MAX:
            await self.streaming.trade(*self.random.sample(TRADED, self.random.randint(1, 2)))

    async def minute(self) -> None:
        """Let half a minute pass, after which half of the streams owe a minute."""
        await self.streaming.pass_time(30)
        self.trade_all()
        await self.streaming.service.follower.catch_up()

    async def change(self) -> None:
        """Change the reports' entity tag, so that clients no longer have the newest report."""
        self.streaming.service.reports.tag = b'W/"%d"' % self.count

    async def age(self) -> None:
        """Make the data of reports too old, or fresh again; sometimes that of streams, too."""
        self.streaming.service.reports.age_ms = self.random.choice([400, 400, 400_000])
        if self.random.random() < STALE_SHARE:
            await self.streaming.pass_time(301)
            self.trade_all()
            await self.streaming.service.follower.catch_up()

    async def taken(self) -> dict[str, int]:
        """Close all streams; return the credits that the ledger took."""
        while self.streams:
            await self.close()
        await self.streaming.pass_time(15)
        await self.streaming.pass_time(15)
        await self.streaming.until_closed()
        await self.streaming.settled()
        found = {}
        for who, credential in self.credentials.items():
            response = await self.streaming.client.get(
                "/v1/credits/balance", headers=bearer(credential)
            )
            found[who] = self.issued[who] - int(response.json()["data"]["balance"])
        return found


def delivered(kind: str, data: dict[str, Any]) -> int:
    """Return the number of credits that the content of an answer is worth."""
    match kind:
        case "single":
            return 1
        case "batch":
            return sum("report" in line for line in data["results"])
        case _:
            pages = [value for value in data.values() if isinstance(value, list)]
            return int(any(pages))


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[Calls]:
    async with streaming_service(tmp_path, api=RAISED, streams=MANY) as streaming:
        calls = Calls(streaming, Random(20))
        await calls.prepare()
        yield calls


@pytest.mark.storm
@pytest.mark.timeout(3_600 if FULL else 300)
async def test_credits_taken_equal_credits_delivered(
    calls: Calls, record_property: Callable[[str, object], None]
) -> None:
    while calls.count < CALLS or (MEET - set(calls.met) and calls.count < 5 * CALLS):
        await calls.step()
    taken = await calls.taken()
    record_property("figure", f"{calls.count:,} calls: credits taken are credits delivered")

    exact = {who: credit_count for who, credit_count in taken.items() if who != "leaves"}
    assert exact == {who: calls.reported[who] for who in exact}
    assert 0 <= taken["leaves"] <= calls.unseen["leaves"]
    assert taken["key"] <= CAP
    assert set(calls.met) >= MEET, calls.met
