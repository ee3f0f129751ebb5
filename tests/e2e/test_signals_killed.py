"""Alerts of a real api process that is killed repeatedly: each crossing fires exactly once."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw
import httpx
import pytest

from mintscope.accounts.mail.email import EmailKind
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL
from support.oracles.standard_webhooks import verified
from support.processes.api_process import settings
from support.processes.listening import addresses_in
from support.scenes.account_stores import open_sqlite
from support.scenes.old_folder import FACTS, old_folder
from support.scenes.traded import Traded, traded_on

LEVEL: Final = 160.0
KILLS: Final = 20 if os.environ.get("STORM") == "full" else 2  # noqa: TID251 - only how many
EMAILS_MAX: Final = 3  # of one alert; fewer than its firings
REFUSED_MAX: Final = 3 * (KILLS - 1)  # later refusals would prolong the test
READY_S: Final = 180.0
KEY: Final = {"Authorization": f"Bearer {FACTS['key']['apiKey']}"}
ASKED: Final = {
    "name": "up",
    "mint": WSOL,
    "field": "price.usd",
    "kind": "above",
    "level": LEVEL,
    "leastConfidence": "low",
}


@dataclass
class Receiver:
    """Stores the webhooks that it accepts; it first refuses every third of the early webhooks."""

    got: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()  # its process may be killed
            lines = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
            headers = {name.lower(): value for name, value in lines}
            body = await reader.readexactly(int(headers["content-length"]))
            is_refused = self.keep(headers["webhook-id"], headers, body)
            status = 500 if is_refused else 204
            writer.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)

    def keep(self, name: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Store or refuse a webhook; return whether it is refused."""
        number = int(name.removeprefix("msg_"))
        if number % 3 == 1 and number <= REFUSED_MAX and name not in self.refused:
            self.refused.add(name)
            return True
        self.got[name], self.headers[name] = body, headers
        return False


@dataclass
class Trading:
    """A market whose price crosses the alerts' level; `crossings` has the slots of upward ones."""

    market: Traded
    slot: int
    time: int
    price: float = 150.0
    crossings: list[int] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(7))

    async def trade(self) -> None:
        before, self.price = self.price, self.random.choice([150.0, 159.0, 160.0, 161.0, 170.0])
        self.slot, self.time = self.slot + 1, self.time + 1
        swap = PricedSwap(Mint(WSOL), 0, 0, -1, 0, True, 10**6, self.price, 1.0)  # noqa: FBT003
        await self.market.slot(self.slot, self.time, swap)
        if before <= LEVEL < self.price:
            self.crossings.append(self.slot)

    async def run(self) -> None:
        while True:
            await self.trade()
            await asyncio.sleep(0.1)


@asynccontextmanager
async def api(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Run an api process, and kill it at the end of the block."""
    log = folder / "api.log"
    environment = settings(
        folder,
        MINTSCOPE_SIGNALS__WEBHOOK_LOOPBACK="true",
        MINTSCOPE_SIGNALS__WEBHOOK_TIMEOUT_S="1",  # sent again 6 s after a kill
        MINTSCOPE_SIGNALS__TAKEOVER_S="2",
        MINTSCOPE_SIGNALS__FIRINGS_PER_HOUR_MAX="100000",
        MINTSCOPE_SIGNALS__WEBHOOKS_PER_MINUTE_MAX="100000",  # the last would wait for minutes
        MINTSCOPE_SIGNALS__EMAILS_PER_ALERT_MAX=str(EMAILS_MAX),
        MINTSCOPE_SIGNALS__EMAIL_PAUSE_S="0",
        MINTSCOPE_ACCOUNTS__KEY_LIMIT_REQUESTS="100000",
    )
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mintscope", "api", env=environment, stderr=stderr
        )
    try:
        async with asyncio.timeout(READY_S):
            while not (found := addresses_in(log.read_text())):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        async with httpx.AsyncClient(base_url=found[0], headers=KEY, timeout=20) as client:
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def until(what: Any) -> Any:
    """Wait until *what* returns a true value; return the value."""
    async with asyncio.timeout(READY_S):
        while not (found := await what()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    return found


async def events_of(client: httpx.AsyncClient, signal_id: int) -> list[dict[str, Any]]:
    """Return all firings of an alert, oldest first."""
    found: list[dict[str, Any]] = []
    query = "?limit=100"
    while True:
        answer = (await client.get(f"/v1/signals/{signal_id}/events{query}")).json()["data"]
        found += answer["events"]
        if answer["nextCursor"] is None:
            return found[::-1]
        query = f"?limit=100&cursor={answer['nextCursor']}"


@pytest.mark.process
@pytest.mark.storm
@pytest.mark.timeout(600)
async def test_each_crossing_is_sent_once_if_the_process_is_killed(tmp_path: Path) -> None:
    data = old_folder(tmp_path / "data")
    with closing(apsw.Connection(str(data / MONEY_FILE))) as db:
        db.execute("UPDATE api_key SET scopes = ?", ('["signals:read","signals:write"]',))
        db.execute('UPDATE "user" SET verified_at = created_at')
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with traded_on("sqlite", data, []) as market:
        tip = await market.reader.tip()
        trading = Trading(market, tip.slot or 0, tip.time or 0)
        while not trading.crossings or trading.price != 150.0:
            await trading.trade()
        trading.crossings.clear()
        made: list[dict[str, Any]] = []
        task = None
        for _ in range(KILLS):
            seen = len(receiver.got)
            async with api(tmp_path) as client:
                if task is None:
                    made = await _begin(client, data, url)
                    task = asyncio.create_task(trading.run())
                await until(lambda seen=seen: _more(receiver, seen + 3))
        assert task is not None
        await asyncio.sleep(1)  # the market goes on while no api process runs
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with api(tmp_path) as client:
            expected = trading.crossings

            async def reported() -> list[dict[str, Any]]:
                events = await events_of(client, made[0]["signalId"])
                waits = any(each["webhook"]["state"] == "waiting" for each in events)
                return [] if len(events) < len(expected) or waits else events

            events = await until(reported)
            emailed, once = [await events_of(client, each["signalId"]) for each in made[1:]]
    server.close()
    assert [each["slot"] for each in events] == expected
    assert receiver.refused
    assert {f"msg_{each['eventId']}" for each in events} == set(receiver.got)
    for name, body in receiver.got.items():
        headers = receiver.headers[name]
        sent_at = int(headers["webhook-timestamp"])
        payload = verified(made[0]["webhookSecret"], headers, body, now_s=sent_at)
        assert payload["data"]["slot"] in expected

    assert [each["slot"] for each in emailed] == expected
    await expect_emails(data, emailed, made[1]["signalId"])
    assert [each["slot"] for each in once] == expected[:1]
    assert len(await emails(data, EmailKind.SIGNAL_FIRED, made[2]["signalId"])) == 1
    assert not await emails(data, EmailKind.SIGNAL_LIMIT, made[2]["signalId"])


async def expect_emails(data: Path, events: list[dict[str, Any]], signal_id: int) -> None:
    """Expect an e-mail line for each firing up to the limit, and one e-mail about the limit."""
    reported = [each["email"] for each in events if each["email"]["state"] != "not_sent"]
    refused = [each["email"] for each in events if each["email"]["state"] == "not_sent"]
    assert {each["reason"] for each in refused} == {f"limit of {EMAILS_MAX} reached"}
    written = await emails(data, EmailKind.SIGNAL_FIRED, signal_id)
    assert len(written) == EMAILS_MAX
    assert sum(len(each["lines"].splitlines()) for each in written) == len(reported)
    assert len(await emails(data, EmailKind.SIGNAL_LIMIT, signal_id)) == 1


async def emails(data: Path, kind: EmailKind, signal_id: int) -> list[Mapping[str, str]]:
    """Return the facts in each e-mail of *kind* about the alert *signal_id*."""
    async with open_sqlite(data) as store:
        written = await store.read(lambda rows: rows.emails.newest(9_999))
    facts = [each.facts for each in written if each.kind is kind]
    return [each for each in facts if each["signal"] == str(signal_id)]


async def _more(receiver: Receiver, count: int) -> bool:
    return len(receiver.got) >= count


async def _begin(client: httpx.AsyncClient, data: Path, url: str) -> list[dict[str, Any]]:
    """Create three alerts, and wait until they have been evaluated.

    The first alert sends webhooks, the second an e-mail at each crossing, the third one e-mail.
    """

    async def is_seen() -> bool:
        with closing(apsw.Connection(str(data / MONEY_FILE))) as db:
            return not db.execute("SELECT 1 FROM signal WHERE state IS NULL").get

    made: list[dict[str, Any]] = []
    for ways in ({"webhookUrl": url}, {"email": True}, {"email": True, "fires": "once"}):
        answer = await client.post("/v1/signals", json=ASKED | ways)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["data"])
    await until(is_seen)
    return made
