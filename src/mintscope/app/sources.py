"""Connects to Solana nodes, to read blocks, backfills, missing slots, mint facts and holders."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from typing_extensions import override

from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config
from mintscope.app.maintenance import running
from mintscope.app.running.decode_worker import decoder
from mintscope.app.stores.stores import Market, backfill_lock
from mintscope.dex.outcome import Swap
from mintscope.history.backfill import IncompleteBackfill, Kind, MendPlan, Survey
from mintscope.history.mending import DailyCalls, GapMending, is_read, settled
from mintscope.history.source import (
    Allow,
    HistoryReader,
    PacedNode,
    Progress,
    blocks_of,
    cost_of,
    find_pools,
)
from mintscope.history.worker import BackfillQueue, fold_backfill
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS, utc
from mintscope.market.engine.fold import read_state
from mintscope.market.mint_accounts import MINTS_A_CALL, Read, read_facts
from mintscope.market.quotes import oriented
from mintscope.market.series.holder_reads import HolderReader, NodeHolders, NoHolders
from mintscope.solana.blocks import WSOL, Endpoint, Gap
from mintscope.solana.files import FileSource
from mintscope.solana.finality import EVERY_S, FAST_EVERY_S, finality_now, watch_migration
from mintscope.solana.finality_meter import Behind, Finality
from mintscope.solana.node import Node, PreferredNodes
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Missing, Rpc, RpcFailure
from mintscope.solana.transaction import Transaction, UnreadableTransaction
from mintscope.solana.wire import JsonTransactions

__all__ = ["Commitment", "Progress", "is_read", "settled"]


def node_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the endpoint of the node from which blocks are read."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
        timeout_s=chain.timeout_s,
        requests_in_flight=chain.requests_in_flight,
        max_transaction_version=chain.max_transaction_version,
    )


def backfills_beside(chain: ChainConfig) -> Endpoint:
    """Return the endpoint of the node for requests other than those for blocks.

    A client of this endpoint sends one request at a time, without retries.  It must not be the
    client for blocks: otherwise the node's limits on these requests would delay blocks.
    """
    return replace(node_endpoint(chain), attempts_max=1, requests_in_flight=1)


@asynccontextmanager
async def following(
    chain: ChainConfig, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Node]:
    """Yield the node from which blocks are read, or both nodes if a second one is configured.

    Meanwhile, watch the first one for the migration of Solana to Alpenglow.
    """
    first = node_endpoint(chain)
    async with (
        Rpc(first, clock=clock, transport=transport) as rpc,
        Rpc(backfills_beside(chain), clock=clock, transport=transport) as aside,
        running(partial(watch_migration, aside, asyncio.sleep), "migration"),
    ):
        if chain.second_rpc_url is None:
            yield rpc
            return
        url = chain.second_rpc_url.get_secret_value()
        # The configured headers may contain the key of the first node's provider.
        async with Rpc(replace(first, url=url, headers={}), clock=clock) as second:
            yield PreferredNodes([rpc, second], clock)


POOLS_MAX: Final = 20
BEFORE_THE_FIRST_S: Final = 3_600  # a repeated backfill begins this long before the first candle


@asynccontextmanager
async def open_backfill(
    config: Config,
    market: Market,
    calls_per_s: float,
    *,
    allow: Allow | None = None,
    rate_pools: Collection[str] = (),
) -> AsyncIterator["BackfillReading"]:
    """Yield a reader of swaps from before a token was tracked, connected to the node.

    calls_per_s   the maximum number of requests to the node in a second
    allow         awaited before each request, to limit requests; None: nothing is awaited
    rate_pools    the pools of SOL to read; empty: the busiest pool in the log
    """
    endpoint = node_endpoint(config.chain)
    clock = SystemClock()
    async with PacedNode(endpoint, clock=clock, calls_per_s=calls_per_s, allow=allow) as node:
        yield BackfillReading(config, market, node, calls_per_s, rate_pools)


class BackfillReading:
    """Reads the swaps of tokens from before they were tracked, or in gaps, from a node.

    Each method may raise SourceError and ServiceUnavailable.
    """

    def __init__(
        self,
        config: Config,
        market: Market,
        node: PacedNode,
        calls_per_s: float,
        rate_pools: Collection[str] = (),
    ) -> None:
        self._block = decoder(config.dex)
        self._market = market
        self._node = node
        self._calls_per_s = calls_per_s
        self._rate_pools = rate_pools

    @property
    def calls(self) -> int:
        """The number of requests to the node so far."""
        return self._node.calls

    async def begin(self, mint: Mint, since: UnixS) -> UnixS:
        """Return the start of a backfill that replaces the candles of *mint*.

        It is *since*, or some time before the first candle if that is earlier.  Raises ValueError
        if *mint* cannot be backfilled.
        """
        return await begin_of(self._market, mint, since, again=True)

    async def survey(
        self,
        mint: Mint,
        from_time: UnixS,
        *,
        pools: Collection[str] = (),
        rate_pools: Collection[str] = (),
    ) -> Survey:
        """Return the start, the addresses and the cost of a backfill of *mint*, before it is read.

        If the node has no blocks from *from_time*, the start is later.

        pools        the pools of *mint* to read; empty: the pools that are found
        rate_pools   the pools of SOL to read; empty: those of `open_backfill`
        Raises       ValueError if *mint* cannot be backfilled, if no pool is found, or if candles
                     would be lost
        """
        first = await _first_candle(self._market, mint)
        await self._expect_known_quotes(mint)
        addresses = await self._addresses(mint, pools, rate_pools or self._rate_pools)
        oldest = await self._node.reaches_back_to()
        if oldest is not None:
            from_time = max(from_time, oldest)
        if first is not None and from_time >= first + MINUTE_S:  # a first candle covers a minute
            raise ValueError(
                f"{mint} has candles since {_at(first)}, which would be lost: expected a node that"
                f" reaches back before them; this one reaches back to {_at(from_time)}"
            )
        rate = self._calls_per_s
        cost = await cost_of(self._node, addresses, from_time=from_time, calls_per_s=rate)
        return Survey(from_time, addresses, cost)

    async def _addresses(
        self, mint: Mint, pools: Collection[str], rate_pools: Collection[str]
    ) -> Mapping[str, Kind]:
        jobs = self._market.history
        if not pools:
            logged = await jobs.pools(mint)
            found = await find_pools(self._node, self._decode, mint)
            # A pool without an address of its own is named after two accounts, joined by +; the
            # node cannot list its transactions.
            listable = {pool for pool in (*logged, *found) if "+" not in pool}
            others = sorted(listable, key=lambda pool: -found.get(pool, 0))
            pools = list(dict.fromkeys([*await jobs.booked_pools(mint), *others]))[:POOLS_MAX]
        if not pools:
            raise ValueError(f"no pool of {mint} was found: name its pools with --pool")
        if not rate_pools:
            rates = {pool: n for pool, n in (await jobs.pools(WSOL)).items() if "+" not in pool}
            rate_pools = sorted(rates, key=lambda pool: -rates[pool])[:1]
        if not rate_pools:
            raise ValueError("no pool of SOL and dollars is in the log: name one with --rate-pool")
        return dict.fromkeys(rate_pools, Kind.RATE) | dict.fromkeys(pools, Kind.POOL)

    async def traded(self, gap: Gap) -> Collection[Mint]:
        """Return the mints with a swap in *gap*.  Raises SourceError if the node lacks a block."""
        found = set()
        async for block in blocks_of(self._node, gap):
            seen = map(oriented, self._block(block.transactions).swaps)
            found |= {each.base for each in seen if each is not None}
        return found

    async def read(
        self,
        mint: Mint,
        from_time: UnixS,
        progress: Progress = lambda _what, _count: None,
        *,
        incomplete: bool = False,
    ) -> int:
        """Read the swaps of *mint* since *from_time*, and store candles of them for ingest to join.

        Only final transactions are read.  A call after a failure resumes.  Returns the number of
        transactions that the node did not return; raises IncompleteBackfill if there are any,
        unless *incomplete* is set.  Raises ValueError if candles would be lost.
        """
        await self._expect_known_quotes(mint)
        node = self._node
        store = self._market.history
        reader = HistoryReader(
            node, store, self._decode, in_flight=node.in_flight, progress=progress
        )
        await reader.round(mint, from_time)
        job = await self._market.history.one(mint)  # before ingest can join the backfill
        missing = 0 if job is None else job.missing
        if missing and not incomplete:
            raise IncompleteBackfill(left_out(missing))
        await fold_backfill(self._market.history, mint)
        return missing

    async def _expect_known_quotes(self, mint: Mint) -> None:
        others = await self._market.history.other_quotes(mint)
        if others:
            raise ValueError(
                f"expected {mint} to trade against USDC, USDT and SOL, because a backfill cannot"
                " price other swaps, and would lose their candles; over a tenth of its volume is"
                f" against {', '.join(others)}"
            )

    def _decode(
        self, transactions: Sequence[Transaction | UnreadableTransaction]
    ) -> Sequence[Swap]:
        decoded = self._block(transactions)
        return [*decoded.swaps, *decoded.migrations]


async def begin_of(market: Market, mint: Mint, from_time: UnixS, *, again: bool = False) -> UnixS:
    """Return the start of a backfill of *mint* that is requested from *from_time* on.

    again    whether to read candles again that exist: then it begins before the first candle
    Raises   ValueError, with the reason, if nothing is missing or *mint* cannot be backfilled
    """
    first = await _first_candle(market, mint)
    if first is not None and again:
        return min(from_time, UnixS(first - BEFORE_THE_FIRST_S))
    if first is not None and first <= from_time:
        raise ValueError(
            f"{mint} has candles since {_at(first)}: nothing is missing"
            f" (mintscope history {mint} --again reads them again)"
        )
    return from_time


async def _first_candle(market: Market, mint: Mint) -> UnixS | None:
    """Return the time of the first candle of *mint*; None if it has no candle.

    Raises ValueError for SOL, and for a mint that is not tracked.
    """
    tracked = await market.tracking.one(mint)
    if mint == WSOL:
        raise ValueError(
            "expected another mint: every price rests on that of SOL, which is followed always"
        )
    if tracked is None:
        raise ValueError(f"{mint} is not tracked: mintscope tokens add {mint}")
    if tracked.state is None:
        return None
    return UnixS(int(read_state(tracked.state)["first"][0]))


def _at(time: UnixS) -> str:
    return f"{utc(UnixMs(time * SECOND_MS)):%Y-%m-%d %H:%M} UTC"


def left_out(missing: int) -> str:
    """Return a warning about the *missing* transactions that the node lists but did not return."""
    transactions = "1 transaction" if missing == 1 else f"{missing} transactions"
    return f"the node did not give {transactions} that it lists: candles would lack their swaps"


def of_the_second_node(config: Config) -> Config:
    """Return *config* with the URL of the second node, if there is one, in place of the first."""
    chain = config.chain
    if chain.second_rpc_url is None:
        return config
    # The headers may contain the key of the first node's provider.
    second = chain.model_copy(update={"rpc_url": chain.second_rpc_url, "rpc_headers": {}})
    return config.model_copy(update={"chain": second})


@asynccontextmanager
async def gap_mending(config: Config, market: Market, clock: Clock) -> AsyncIterator[GapMending]:
    """Yield the `GapMending`, which reads missing slots again from a node.

    It reads from the second node if one is configured, else from the first.
    """
    chain = config.chain
    calls = DailyCalls(market.gap_mends, clock, chain.gap_calls_per_day)
    pace = chain.history_calls_per_s
    node = of_the_second_node(config)
    rates = chain.gap_rate_pools
    async with open_backfill(node, market, pace, allow=calls.take, rate_pools=rates) as reading:
        yield GapMending(
            mends=market.gap_mends,
            reader=market.reader,
            tracking=market.tracking,
            jobs=market.history,
            source=reading,
            lock=partial(backfill_lock, config),
            plan=MendPlan(chain.gap_mend_after_s, chain.gap_attempts_max, chain.gap_calls_per_day),
            clock=clock,
        )


@asynccontextmanager
async def backfill_queue(
    config: Config, market: Market, clock: Clock
) -> AsyncIterator[BackfillQueue]:
    """Yield the queue of requested backfills."""
    async with open_backfill(config, market, config.chain.history_calls_per_s) as reading:
        yield BackfillQueue(
            queue=market.backfill_jobs,
            jobs=market.history,
            source=_BackfillSource(market, reading),
            lock=partial(backfill_lock, config),
            clock=clock,
        )


class _BackfillSource:
    """Reads the swaps of a token from before it was tracked, and first estimates the work."""

    def __init__(self, market: Market, reading: BackfillReading) -> None:
        self._market = market
        self._reading = reading

    async def survey(self, mint: Mint, from_time: UnixS) -> Survey:
        begin = await begin_of(self._market, mint, from_time)
        found = await self._reading.survey(mint, begin)
        # The node's history may begin later than requested: check again that candles are missing.
        await begin_of(self._market, mint, found.from_time)
        return found

    async def read(self, mint: Mint, from_time: UnixS, progress: Progress) -> int:
        return await self._reading.read(mint, from_time, progress)


# Limits of requests while an operator or a client waits.
TIMEOUT_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 2


class BlockProbe(NamedTuple):
    """The response of a node to a request for one block.

    absence        the reason why the node does not have the block; None if it has the block
    transactions   number of transactions in the block; 0 if the node does not have it
    took_s         seconds until the response was complete
    """

    absence: str | None
    transactions: int
    took_s: float


async def finality_of(rpc: Rpc, pace: Pace | None) -> Finality:
    """Return the cluster's finality; *pace* converts its delay to seconds.  Raises SourceError."""
    return Finality(await rpc.alpenglow(), await finality_now(rpc, pace))


async def probe_block(rpc: Rpc, slot: Slot, clock: Clock) -> BlockProbe:
    """Request a whole block, and measure the time.  Raises SourceError."""
    start_s = clock.monotonic_s()
    block = await rpc.block(slot, Commitment.CONFIRMED)
    took_s = clock.monotonic_s() - start_s
    if isinstance(block, Missing):
        return BlockProbe(block.absence, 0, took_s)
    return BlockProbe(None, len(block.transactions), took_s)


def probed_node(chain: ChainConfig, clock: Clock) -> Rpc:
    """Return a client, for the doctor, of the node from which blocks are read.

    It gives up sooner than other clients.
    """
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=ATTEMPTS_MAX)
    return Rpc(endpoint, clock=clock)


async def ask_facts(chain: ChainConfig, mints: Sequence[Mint]) -> Read:
    """Return the facts of each of *mints*, or NotAMint with the reason.  Raises SourceError."""
    clock = SystemClock()
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=1)
    async with Rpc(endpoint, clock=clock) as rpc:
        found: Read = {}
        for start in range(0, len(mints), MINTS_A_CALL):
            found |= await read_facts(rpc, mints[start : start + MINTS_A_CALL], clock)
        return found


@asynccontextmanager
async def holders_of(chain: ChainConfig, clock: Clock) -> AsyncIterator[HolderReader]:
    """Yield a reader of holders, which sends the node one request at a time.

    If `chain.source` is files, or `chain.holder_calls_per_day` is 0, it sends no request.
    """
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(backfills_beside(chain), timeout_s=timeout_s)
    async with Rpc(endpoint, clock=clock) as rpc:
        is_asked = chain.source != "files" and chain.holder_calls_per_day > 0
        yield NodeHolders(rpc, clock, chain.holder_calls_per_day) if is_asked else NoHolders()


async def holds_blocks(path: Path) -> bool:
    """Return whether the file *path* has a block.  Raises SourceError if it cannot be read."""
    async with aclosing(FileSource([path]).updates(None)) as updates:
        async for _ in updates:
            return True
    return False


# Requests of ingest that come too early for a block, as a share of its requests for blocks.  The
# watch sends no such requests.
EARLY_SHARE: Final = 0.15


@dataclass(slots=True, kw_only=True)
class NodeWatch:
    """The measurements of a node.

    genesis_hash      hash of the genesis block of the node's chain
    software          version of its software; "" if unknown
    seconds           duration of the watch, in seconds
    version           newest transaction version that requests had to accept
    first_available   oldest slot whose block the node has
    pace              pace of the chain according to the node; None if unknown
    final             delay of the newest final slot; None if the pace is unknown
    start, head       newest slot when the watch began and ended
    took_s            duration of each request that returned a block, in seconds
    raw_bytes         bytes of all received transactions, uncompressed
    wire_bytes        bytes of all responses as received
    calls             number of all requests
    polls             number of requests of the watch for the newest slot; ingest rarely makes them
    behind            number of slots that were not yet read when the watch ended
    failures          a message for each request that failed
    """

    genesis_hash: str
    version: int
    first_available: Slot
    start: Slot
    head: Slot
    software: str = ""
    pace: Pace | None = None
    final: Behind | None = None
    seconds: float = 0.0
    took_s: list[float] = field(default_factory=list)
    raw_bytes: int = 0
    wire_bytes: int = 0
    calls: int = 0
    polls: int = 0
    behind: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def calls_a_day(self) -> int:
        """The approximate number of requests that ingest sends this node in a day."""
        blocks_a_day = (self.calls - self.polls) / max(self.seconds, 1e-9) * DAY_S
        # An unknown delay counts as short, for which ingest sends more requests.
        is_slow = self.final is not None and not self.final.is_fast
        finality_a_day = DAY_S / (EVERY_S if is_slow else FAST_EVERY_S)
        return round(blocks_a_day * (1 + EARLY_SHARE) + finality_a_day)


class _Counted(httpx.AsyncByteStream):
    """Counts the bytes of a response as they are read, before they are decompressed."""

    def __init__(self, stream: httpx.AsyncByteStream, counting: "_Counting") -> None:
        self._stream = stream
        self._counting = counting

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._counting.wire_bytes += len(chunk)
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


class _Counting(httpx.AsyncHTTPTransport):
    """A transport that counts its requests, and the bytes of their responses as received."""

    calls = 0
    wire_bytes = 0

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, self)
        return response


async def watch_node(chain: ChainConfig, clock: Clock, seconds: float) -> NodeWatch:
    """Follow the node of *chain* for *seconds*, and return the measurements.

    Raises SourceError if the first requests fail.
    """
    counting = _Counting()
    async with Rpc(node_endpoint(chain), clock=clock, transport=counting) as rpc:
        head = await rpc.slot(Commitment.CONFIRMED)
        watch = NodeWatch(
            genesis_hash=await rpc.genesis_hash(),
            version=rpc.version.newest,
            first_available=await rpc.first_available(),
            start=head,
            head=head,
            pace=await rpc.pace(),
        )
        with suppress(RpcFailure):  # some providers omit the version, and nothing depends on it
            watch.software = await rpc.software()
        watch.final = await finality_now(rpc, watch.pace)
        await _follow_node(rpc, chain, clock, seconds, watch)
        # A block may have needed a newer version than that at the beginning.
        watch.version = rpc.version.newest
    watch.calls = counting.calls
    watch.wire_bytes = counting.wire_bytes
    return watch


async def _follow_node(
    rpc: Rpc, chain: ChainConfig, clock: Clock, seconds: float, watch: NodeWatch
) -> None:
    begin_s = clock.monotonic_s()
    waiting = deque([watch.head])
    running: set[asyncio.Task[None]] = set()
    while (watch_s := clock.monotonic_s() - begin_s) < seconds:
        watch.polls += 1
        try:
            head = await rpc.slot(Commitment.CONFIRMED)
        except RpcFailure as failure:
            watch.failures.append(str(failure))
            head = watch.head
        # The head may go back, but no slot is requested twice.
        waiting.extend(Slot(slot) for slot in range(watch.head + 1, head + 1))
        watch.head = max(watch.head, head)
        running = {task for task in running if not task.done()}
        while waiting and len(running) < chain.requests_in_flight:
            running.add(asyncio.create_task(_take(rpc, waiting.popleft(), clock, watch)))
        await asyncio.sleep(chain.poll_interval_ms / 1000)
    watch.seconds = watch_s
    watch.behind = len(waiting) + sum(not task.done() for task in running)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _take(rpc: Rpc, slot: Slot, clock: Clock, watch: NodeWatch) -> None:
    start_s = clock.monotonic_s()
    try:
        block = await rpc.block(slot, Commitment.CONFIRMED)
    except RpcFailure as failure:
        watch.failures.append(str(failure))
        return
    if isinstance(block, Missing):
        return
    watch.took_s.append(clock.monotonic_s() - start_s)
    if isinstance(block.transactions, JsonTransactions):
        watch.raw_bytes += sum(map(len, block.transactions.entries))
