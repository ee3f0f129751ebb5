"""Clients of a cluster: they spend credits, request payment terms, and buy."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

from mintscope.solana.blocks import WSOL
from support.cluster.cluster import GENESIS
from support.scenes.payments.shopping import PURCHASE, Paid, Shopper, redeem, send

REPORT: Final = f"/v1/token/{WSOL}"
PAUSE_S: Final = 0.02
BUY_EVERY_S: Final = 0.4
TIMEOUT_S: Final = 30.0
WATCH_S: Final = 1.0  # seconds; requests to a frozen process must fail before the measurement ends


@dataclass
class Spent:
    """The outcomes of the requests with one credit token."""

    token: str
    answered: int = 0
    unanswered: int = 0


@dataclass
class Heard:
    """The answers that all clients have received."""

    spent: list[Spent]
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unavailable: list[tuple[float, str]] = field(default_factory=list)
    lost: list[tuple[float, str]] = field(default_factory=list)
    slot: int = 0
    slot_at_s: float = field(default_factory=time.monotonic)
    hidden_s: float = 0.0  # the longest time in which no answer had a newer slot
    wait_s: float = 0.0  # the longest time to an answer with status 200, 201 or 402

    def note(self, kind: str, response: httpx.Response, took_s: float) -> None:
        """Count an answer; an answer with a status other than 200, 201, 402 and 503 is wrong."""
        now_s = time.monotonic()
        self.answers[f"{kind} {response.status_code}"] += 1
        if response.status_code == 503:
            self.unavailable.append((now_s, kind))
            if "retry-after" not in response.headers:
                self.wrong.append(f"{kind}: 503 without Retry-After")
        elif response.status_code not in (200, 201, 402):
            self.wrong.append(f"{kind}: {response.status_code} {response.text[:200]}")
        else:
            self.wait_s = max(self.wait_s, took_s)
        slot = int(response.headers.get("x-data-slot", 0))
        if slot > self.slot:
            self.slot, self.slot_at_s, before_s = slot, now_s, self.slot_at_s
            self.hidden_s = max(self.hidden_s, now_s - before_s)

    def begin(self) -> None:
        """Reset all measurements."""
        self.hidden_s = self.wait_s = 0.0
        self.lost.clear()
        self.unavailable.clear()


@dataclass
class Client:
    """One client; each of its requests comes from a different address."""

    http: httpx.AsyncClient
    heard: Heard

    async def spend(self, spent: Spent, timeout_s: float = TIMEOUT_S) -> None:
        """Request a report repeatedly."""
        bearer = {"authorization": f"Bearer {spent.token}"}
        while True:
            start_s = time.monotonic()
            try:
                response = await self.http.get(
                    REPORT, headers=bearer | from_anywhere(), timeout=timeout_s
                )
            except httpx.ConnectError as error:
                self.heard.lost.append((start_s, f"spend: {error!r}"))
            # The service may have charged the credit
            except httpx.TransportError as error:
                self.heard.lost.append((start_s, f"spend: {error!r}"))
                spent.unanswered += 1
            except asyncio.CancelledError:
                spent.unanswered += 1
                raise
            else:
                self.heard.note("spend", response, time.monotonic() - start_s)
                spent.answered += response.status_code == 200
            await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """Request the terms of a purchase repeatedly, without paying."""
        while True:
            start_s = time.monotonic()
            try:
                response = await self.http.post(PURCHASE, headers=from_anywhere())
            except httpx.TransportError as error:
                self.heard.lost.append((start_s, f"look: {error!r}"))
            else:
                self.heard.note("look", response, time.monotonic() - start_s)
            await asyncio.sleep(PAUSE_S)

    async def buy(self, shopper: Shopper) -> None:
        """Buy credits repeatedly."""
        while True:
            await asyncio.sleep(BUY_EVERY_S)
            with suppress(httpx.TransportError):
                paid = await shopper.prepare(self.http, f"the-secret-{len(shopper.paid):05}")
                shopper.paid.append(paid)
                await self._send(paid)

    async def _send(self, paid: Paid) -> None:
        start_s = time.monotonic()
        paid.answer = await send(self.http, paid)
        self.heard.note("buy", paid.answer, time.monotonic() - start_s)


def from_anywhere() -> dict[str, str]:
    """Return an X-Forwarded-For header with a random address."""
    return {"x-forwarded-for": f"10.{random.randrange(256)}.{random.randrange(256)}.7"}


@asynccontextmanager
async def paying_load(url: str, rpc_url: str, heard: Heard) -> AsyncIterator[Shopper]:
    """Run clients that spend, request terms and buy; after the block, redeem all payments."""
    limits = httpx.Limits(max_connections=50, max_keepalive_connections=0)
    async with (
        httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as http,
        httpx.AsyncClient(base_url=rpc_url, timeout=TIMEOUT_S) as rpc,
    ):
        http.headers.update(from_anywhere())
        shopper, client = Shopper(GENESIS.key("buyer"), GENESIS, rpc), Client(http, heard)
        watcher, *spenders = heard.spent
        work = [client.spend(watcher, WATCH_S), *map(client.spend, spenders), client.look()]
        work.append(client.buy(shopper))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            yield shopper
            for task in tasks:
                task.cancel()
        await asyncio.gather(*(redeem(http, each) for each in shopper.paid if each.token is None))
