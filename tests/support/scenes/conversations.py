"""Requests for paid answers whose connection breaks: the routes, and ways to break it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from mintscope.api.series.wire import TIME_MAX
from mintscope.credits.ledger import FIRST, Empty
from mintscope.kit.metrics import DISCONNECTED_STATUS, REQUESTS
from mintscope.kit.primitives import Signature
from mintscope.kit.time import MINUTE_S
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.log import FakeLog
from support.fakes.reports import TRACKED
from support.processes.served import Client, Served
from support.scenes.service import NOW, Service
from support.scenes.standings import packed_pool

MINTS: Final = [TRACKED, WSOL]
# Routes that read the list of tokens.
OF_THE_LIST: Final = {
    "pools": ("GET", f"/v1/token/{WSOL}/pools", 1),
    "screen": ("GET", "/v1/screen", 1),
    "screen by body": ("POST", "/v1/screen", 1),
    "bars": ("GET", f"/v1/udf/history?symbol={WSOL}&resolution=1", 1),
}
# All routes that charge credits for an answer, except streams, and their costs.
ROUTES: Final = {
    "report at once": ("GET", f"/v1/token/{TRACKED}", 1),
    "report": ("GET", f"/v1/token/{TRACKED}?candles=closed", 1),
    "candles": ("GET", f"/v1/token/{WSOL}/candles?tf=m1", 1),
    "indicators": ("GET", f"/v1/token/{WSOL}/indicators?tf=m1", 1),
    "swaps": ("GET", f"/v1/token/{WSOL}/swaps", 1),
    "backtest": ("GET", f"/v1/token/{WSOL}/backtest?tf=m1&where=price+%3E+0", 1),
    "traders": ("GET", f"/v1/token/{WSOL}/traders", 1),
    "holders": ("GET", f"/v1/token/{WSOL}/holders", 1),
    "prices": ("POST", "/v1/prices", 1),
    "backtest of tokens": ("POST", "/v1/backtest", 1),
    "table": ("GET", f"/v1/token/{WSOL}/candles?tf=m1&format=csv", 1),
    "batch": ("POST", "/v1/tokens/batch", 1),
    **OF_THE_LIST,
}

DETAIL: Final = SwapDetail(Signature("5" * 88), "pump.fun", 10**6, 6, USDC, 10**6, 6)
SWAP: Final = PricedSwap(
    WSOL, 0, 0, -1, 0, is_buy=True, volume=10**6, price_usd=1.5, price_sol=0.01, detail=DETAIL,
    evidence=Evidence(None, 10**6, "signer"),
)  # fmt: skip


def add_swap(service: Service) -> None:
    """Add a slot with a swap, so that the page of swaps has one."""
    # An older first swap, whose candle is closed by now
    if service.log.tip_at(service.log.seq).slot is None:
        append_swap(service.log, NOW // 1000 - 2 * MINUTE_S)
    append_swap(service.log, NOW // 1000)


async def list_token(service: Service) -> None:
    """Add WSOL, with a pool, to the list of tokens."""
    now = service.clock.now() // 1000
    service.market.standings[WSOL] = packed_pool(now, depth_usd=1_000, usd=1.5)
    await service.market.append(1, now)
    await service.market.track(WSOL)
    await service.lister.refresh()


def append_swap(log: FakeLog, at_s: int) -> None:
    """Append a slot with one swap to *log*."""
    log.append((log.tip_at(log.seq).slot or 0) + 1, at_s, SWAP)


def written(
    route: str, token: str, *, key: str | None = None, mints: Sequence[str] = MINTS[:1]
) -> bytes:
    method, path, _ = ROUTES[route]
    bodies: dict[str, object] = {
        "batch": {"mints": mints},
        "backtest of tokens": {"mints": [WSOL], "where": "price > 0", "tf": "m1"},
        "prices": {"prices": [{"mint": WSOL, "t": TIME_MAX}]},
    }
    body = json.dumps(bodies[route]).encode() if route in bodies else b""
    lines = [f"{method} {path} HTTP/1.1", "Host: shop", f"Authorization: Bearer {token}"]
    if method == "POST":
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if key is not None:
        lines.append(f"Idempotency-Key: {key}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class SlowStore:
    """Events that pause a ledger just after it has committed a debit.

    taken   is set when a debit is committed
    go_on   a test sets it to let the paused debits continue
    """

    taken: threading.Event
    go_on: threading.Event

    async def until_taken(self) -> None:
        assert await asyncio.to_thread(self.taken.wait, 10)


@asynccontextmanager
async def standing_still(service: Service) -> AsyncIterator[SlowStore]:
    """Make each debit wait between its commit and its result, until the event `go_on` is set."""
    tables: Any = vars(service.ledger)["_writing"]
    store = SlowStore(threading.Event(), threading.Event())
    kept = {name: getattr(tables, name) for name in ("spend", "debit")}

    def slow(take: Callable[..., Any]) -> Callable[..., Any]:
        def taking(*values: Any) -> Any:
            outcome = take(*values)
            store.taken.set()
            assert store.go_on.wait(10)
            return outcome

        return taking

    for name, take in kept.items():
        setattr(tables, name, slow(take))
    try:
        yield store
    finally:
        store.go_on.set()
        for name, take in kept.items():
            setattr(tables, name, take)


async def reset(client: Client) -> None:
    """Reset the connection instead of closing it."""
    client.writer.transport.abort()


async def half_close(client: Client) -> None:
    """Close the sending side of the connection; answers can still be read."""
    client.writer.write_eof()


async def break_off(server: Served, request: bytes, random: Random) -> None:
    """Send a request, and break the connection at random: during or after the request."""
    async with server.connection() as client:
        whole = random.random() < 0.8
        await client.send(request if whole else request[: random.randrange(len(request))])
        if random.random() < 0.5:
            with suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(client.reader.read(random.randrange(1, 200)), 0.02)
        if random.random() < 0.3:
            with suppress(OSError):
                await half_close(client)
        await reset(client)


async def until_seen(server: Served, count: int) -> None:
    """Wait until the server has noticed the actions of its clients.

    Wait for *count* iterations of the event loop, and then for the answer to another request.
    """
    for _ in range(count):
        await asyncio.sleep(0)
    async with server.connection() as client:
        await client.send(b"GET /healthz HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
        await client.rest()


def left_count() -> int:
    """Return the number of requests that ended because the client disconnected."""
    return REQUESTS.by_status().get(DISCONNECTED_STATUS, 0)


async def until_left(count: int) -> None:
    """Wait until *count* requests have ended because the client disconnected."""
    async with asyncio.timeout(10):
        while left_count() < count:  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.01)


async def settled(service: Service) -> None:
    """Wait until the requested debits are committed, then until broken requests are refunded.

    Several commits can write the requested debits, so a balance between two commits proves nothing.
    """
    await service.ledger.expect_writable()
    assert await service.ledger.spend(FIRST) == Empty()
