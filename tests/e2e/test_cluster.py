"""A cluster under load and faults: answers to clients, books and candles stay correct.

`make cluster` runs this test at full length, and prints its figures.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psycopg
import pytest
from cluster import APIS, FIRST_MINTS, INGESTS, SOURCE, Cluster, Process, cluster_in
from shopping import PURCHASE, Paid, Shopper, redeem, send
from test_replicas_mail import expect_emails

from mintscope.app.config.groups import DexConfig
from mintscope.app.running.decode_worker import decoder
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, Slot
from mintscope.solana.blocks import WSOL, Endpoint, Finalized, Source, Tip, Update
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from support.oracles.market_file import kept, kept_in
from support.processes.documented_service import GENESIS
from support.scenes.stores import market_in

POLLING = Polling(start="first", backfill_s=0)


@dataclass(frozen=True)
class UpTo:
    """A Source that ends as soon as *slot* is final, and reports no later finality."""

    source: Source
    slot: Slot

    async def genesis_hash(self) -> str | None:
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        async for update in self.source.updates(after):
            if isinstance(update, Finalized) and update.slot >= self.slot:
                yield Finalized(self.slot)
                return
            yield update


async def ingest_serially(folder: Path, rpc_url: str, mints: Sequence[Mint], slot: int) -> None:
    """Ingest the blocks of the chain at *rpc_url* into *folder*, until *slot* is final.

    mints   the mints that are tracked from the first slot
    """
    clock = SystemClock()
    async with (
        market_in(folder) as market,
        Rpc(Endpoint(url=rpc_url), clock=clock) as rpc,
    ):
        await Ingest(
            source=UpTo(Poller(rpc, POLLING, clock=clock), Slot(slot)),
            store=market.store,
            decode=decoder(DexConfig()),
            clock=clock,
            mints=mints,
        ).run()


CHUNK: Final = 65_536
LOOK_EVERY_S: Final = 0.25
READY_S_MAX: Final = 1.0


class Balancer:
    """Forwards each connection to one of the *ports* whose service reports that it is ready."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._ready = list(ports)
        self._turn = count()
        self._passing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Yield the address of the balancer."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        looking = asyncio.create_task(self._look())
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in (looking, *self._passing):
                task.cancel()
            await asyncio.gather(looking, *self._passing, return_exceptions=True)

    async def _look(self) -> None:
        async with httpx.AsyncClient(timeout=READY_S_MAX) as client:
            while True:
                said = await asyncio.gather(*(_is_ready(client, port) for port in self._ports))
                ready = [port for port, is_so in zip(self._ports, said, strict=True) if is_so]
                self._ready = ready or list(self._ports)  # if no service is ready, use all services
                await asyncio.sleep(LOOK_EVERY_S)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await self._connect()
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pipe(reader, to_writer), _pipe(to_reader, writer))
        except OSError:
            pass
        finally:
            writer.close()
            to_writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ready = list(self._ready)
        first = next(self._turn)
        for n in range(len(ready)):
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", ready[(first + n) % len(ready)])
        raise ConnectionRefusedError("no api process listens")


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes from *reader* to *writer* until the reader ends, then end the writer."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _is_ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).is_success
    except httpx.HTTPError:
        return False


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
    """The answers that all clients of the cluster have received, and those that were lost."""

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
        """Forget the longest waits, the lost answers and the 503s that were recorded so far."""
        self.hidden_s = self.wait_s = 0.0
        self.lost.clear()
        self.unavailable.clear()


@dataclass
class Client:
    """A client of the cluster, each of whose requests names a random IP address."""

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
        """Request the terms of a purchase repeatedly, without paying, and note the answers."""
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


FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
FROZEN_S: Final = 10.0 if FULL else 5.0
POSTGRES_FROZEN_S: Final = 3.0
CALM_S: Final = 4.0 if FULL else 2.0
VISIBLE_S_MAX: Final = 5.0
BACK_S_MAX: Final = 60.0
SPENDERS: Final = 4
CREDITS: Final = 1_000_000
LIMIT: Final = 30
AT_ONCE: Final = 200
EMAILS: Final = 2_000
MOVED: Final = """
SELECT a.hint, e.kind, sum(e.delta) FROM credit_account AS a
  JOIN credit_entry AS e ON e.account = a.id
 GROUP BY a.hint, e.kind
"""


class Trouble(NamedTuple):
    """A fault of the cluster, and its length."""

    name: str
    begin: Callable[[], AbstractContextManager[None]]
    lasts_s: float


@contextmanager
def killed(cluster: Cluster, name: str) -> Iterator[None]:
    cluster.processes[name].send(signal.SIGKILL)
    cluster.processes[name].running.wait(BACK_S_MAX)
    cluster.processes[name].start()
    yield


@contextmanager
def frozen(cluster: Cluster, name: str) -> Iterator[None]:
    cluster.processes[name].send(signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.processes[name].send(signal.SIGCONT)


@contextmanager
def postgres_restarted(cluster: Cluster) -> Iterator[None]:
    cluster.postgres.stop(signal.SIGQUIT)
    cluster.postgres.start()
    yield


@contextmanager
def postgres_frozen(cluster: Cluster) -> Iterator[None]:
    cluster.postgres.send(signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.postgres.send(signal.SIGCONT)


@contextmanager
def leader_killed(cluster: Cluster) -> Iterator[None]:
    with killed(cluster, cluster.leader()):
        yield


@contextmanager
def leader_frozen(cluster: Cluster) -> Iterator[None]:
    with frozen(cluster, cluster.leader()):
        yield


@contextmanager
def standby_killed(cluster: Cluster) -> Iterator[None]:
    with killed(cluster, cluster.standby()):
        yield


def troubles(cluster: Cluster) -> list[Trouble]:
    """Return the troubles to cause in *cluster*, with the duration of each."""
    struck = APIS if FULL else APIS[:1]
    found: list[tuple[str, Callable[[], AbstractContextManager[None]], float]] = [
        ("kill -9 of the ingest that writes", partial(leader_killed, cluster), CALM_S),
        ("kill -9 of the ingest that stands by", partial(standby_killed, cluster), CALM_S),
        ("the ingest that writes is frozen", partial(leader_frozen, cluster), FROZEN_S),
        *((f"kill -9 of {name}", partial(killed, cluster, name), CALM_S) for name in struck),
        *((f"{name} is frozen", partial(frozen, cluster, name), FROZEN_S) for name in struck),
        ("PostgreSQL is restarted at once", partial(postgres_restarted, cluster), CALM_S),
        ("PostgreSQL is frozen", partial(postgres_frozen, cluster), POSTGRES_FROZEN_S),
    ]
    return [Trouble(*each) for each in found]


@pytest.mark.storm
@pytest.mark.timeout(1_500 if FULL else 400)
def test_a_cluster_serves_clients_and_its_books_stay_correct_under_faults(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    reported: list[str] = []
    with cluster_in(tmp_path) as cluster:
        cluster.command("faucet", str(GENESIS.key("buyer").pubkey()), "--url", cluster.rpc_url)
        issue = ("credits", "issue", "--credits", f"{CREDITS}")
        heard = Heard([Spent(cluster.command(*issue).strip()) for _ in range(SPENDERS)])
        try:
            asyncio.run(_through_all(cluster, heard, reported))
        finally:
            record_property("figure", "; ".join(reported))
            with capsys.disabled():
                sys.stdout.write("\n" + "\n".join(reported) + f"\n{dict(heard.answers)}\n")
        assert heard.wrong == []
        expect_serial(cluster, tmp_path, reported)


async def _through_all(cluster: Cluster, heard: Heard, reported: list[str]) -> None:
    balancer = Balancer(list(cluster.api_ports.values()))
    async with balancer.serving() as url:
        async with paying_load(url, cluster.rpc_url, heard) as shopper:
            await _calm(heard)
            for trouble in troubles(cluster):
                await _go_through(trouble, cluster, heard, reported)
            await _upgrade(cluster, heard, reported)
        await _expect_books(cluster, heard, shopper, reported)
        await _expect_limit(url, reported)
    reported.append(await expect_emails(cluster.postgres.dsn, cluster.mail_room, EMAILS))


async def _go_through(
    trouble: Trouble, cluster: Cluster, heard: Heard, reported: list[str]
) -> None:
    heard.begin()
    start_s = time.monotonic()
    with trouble.begin():
        await asyncio.sleep(trouble.lasts_s)
    over_s = time.monotonic()
    assert cluster.keep_alive() == [], f"{trouble.name}: no process may end for a store"
    await _calm(heard)
    refused_s = max((at_s for at_s, _ in heard.unavailable), default=start_s) - start_s
    reported.append(
        f"{trouble.name}: slots visible again after {heard.hidden_s:.1f} s,"
        f" {len(heard.lost)} answers lost, {len(heard.unavailable)} x 503 for {refused_s:.1f} s,"
        f" longest wait {heard.wait_s:.1f} s,"
        f" as before after {time.monotonic() - over_s:.1f} s"
    )
    is_of_store = "PostgreSQL" in trouble.name
    allowed_s = VISIBLE_S_MAX + (trouble.lasts_s if is_of_store else 0)
    assert heard.hidden_s <= allowed_s, reported[-1]
    if not is_of_store:
        assert not [kind for _, kind in heard.unavailable if kind != "buy"], reported[-1]


async def _upgrade(cluster: Cluster, heard: Heard, reported: list[str]) -> None:
    """Replace each process, one by one, by a version with new migrations."""
    heard.begin()
    cluster.use_next_version()
    for name, process in cluster.processes.items():
        if name == APIS[-1]:  # the old version can still restart
            await asyncio.to_thread(process.restart, SOURCE)
            await asyncio.to_thread(cluster.wait_for, name)
        await asyncio.to_thread(process.restart, cluster.code)
        if name in APIS:
            await asyncio.to_thread(cluster.wait_for, name)
        else:
            await _stands(process)
    await _calm(heard)
    reported.append(
        f"a rolling upgrade with a migration: slots visible again after {heard.hidden_s:.1f} s,"
        f" {len(heard.lost)} answers lost, {len(heard.unavailable)} x 503"
    )
    assert heard.hidden_s <= VISIBLE_S_MAX, reported[-1]
    assert heard.unavailable == [], reported[-1]
    assert heard.lost == [], heard.lost


async def _stands(ingest: Process) -> None:
    """Wait until a restarted ingest writes or stands by."""
    end_s = time.monotonic() + BACK_S_MAX
    begun = {"ingest_stands_by", "ingest_takes_over"}
    while not any(each.get("event") in begun for each in ingest.events(ingest.began_at)):
        assert time.monotonic() < end_s
        await asyncio.sleep(0.05)


async def _calm(heard: Heard) -> None:
    """Wait until clients are served as before: 200 for everyone, and newer slots."""
    end_s = time.monotonic() + BACK_S_MAX
    before, slot = heard.answers.copy(), heard.slot
    needed = {"spend 200": 4 * SPENDERS, "look 402": 4, "buy 201": 1}
    while any(heard.answers[kind] < before[kind] + n for kind, n in needed.items()) or (
        heard.slot <= slot
    ):
        assert time.monotonic() < end_s, f"{heard.answers - before}, {heard.wrong}, {heard.lost}"
        await asyncio.sleep(0.05)


async def _expect_books(
    cluster: Cluster, heard: Heard, shopper: Shopper, reported: list[str]
) -> None:
    """Compare the books with the answers to clients, and with the chain."""
    entries = await asyncio.to_thread(_moved, cluster)
    lost = found = reversed_ = 0
    for spent in heard.spent:
        moved = entries[spent.token[-8:]]
        debits, back = -moved["spend"], moved["reversal"]
        # Unanswered debits of a dead process are refunded; whether its last debits were answered
        # is unknown.
        assert spent.answered <= debits, spent
        assert debits - back <= spent.answered + spent.unanswered, spent
        lost, found, reversed_ = lost + spent.unanswered, found + debits, reversed_ + back
    assert reversed_ <= lost + SPENDERS * len(APIS), "only of processes that died"
    bought = [paid for paid in shopper.paid if paid.token]
    prices = sum(int(paid.answer.json()["data"]["pricePaid"]) for paid in bought if paid.answer)
    async with httpx.AsyncClient(base_url=cluster.rpc_url) as rpc:
        assert await _received(rpc) == prices
    assert len(entries) == SPENDERS + len({paid.token for paid in bought})
    reported.append(
        f"books: {found} debits, {reversed_} of them given back, for"
        f" {sum(one.answered for one in heard.spent)} answers and {lost} that never arrived;"
        f" {len(bought)} tokens for as many payments on chain"
    )


def _moved(cluster: Cluster) -> dict[str, Counter[str]]:
    """Return the total of journal entries by kind, for each credit token's last characters."""
    moved: dict[str, Counter[str]] = defaultdict(Counter)
    with psycopg.connect(cluster.postgres.dsn) as connection:
        for hint, kind, delta in connection.execute(MOVED):
            moved[hint][kind] += int(delta)
    return moved


async def _received(rpc: httpx.AsyncClient) -> int:
    """Return the treasury's balance of the payment token, in atoms."""
    params = [str(GENESIS.treasury_tokens), {"commitment": "processed"}]
    call = {"jsonrpc": "2.0", "id": 1, "method": "getTokenAccountBalance", "params": params}
    return int((await rpc.post("/", json=call)).json()["result"]["value"]["amount"])


async def _expect_limit(url: str, reported: list[str]) -> None:
    async def ask() -> int:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            return (
                await client.get("/nothing", headers={"x-forwarded-for": "192.0.2.1"})
            ).status_code

    answers = await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    assert answers.count(429) == AT_ONCE - LIMIT
    reported.append(f"limit: {AT_ONCE} at once over {len(APIS)} replicas, {LIMIT} admitted")


def expect_serial(cluster: Cluster, folder: Path, reported: list[str]) -> None:
    """Compare candles and states with those of one serial run on SQLite over the same blocks."""
    for name in INGESTS:
        cluster.processes[name].running.terminate()
    for name in INGESTS:
        cluster.processes[name].running.wait(BACK_S_MAX)
    with psycopg.connect(cluster.postgres.dsn) as connection:
        found = kept_in(lambda query: connection.execute(query.encode()).fetchall())
    ((_, folded_slot, _),) = found["progress"]
    asyncio.run(ingest_serially(folder / "serial", cluster.rpc_url, FIRST_MINTS, folded_slot))
    expected = kept(folder / "serial")
    for what in ("candles", "states", "tracking"):
        assert rows(found[what]) == rows(expected[what]), what
    reported.append(
        f"market: {len(found['candles'])} candles and {len(found['states'])} states are those of"
        " one serial run on SQLite"
    )


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    return [
        tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
        for row in found
    ]
