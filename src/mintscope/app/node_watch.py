"""Measures a node for `mintscope doctor --node`: requests each new block for a while."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import httpx
from typing_extensions import override

from mintscope.app.config.config import ChainConfig
from mintscope.app.sources import node_endpoint
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Slot
from mintscope.kit.time import DAY_S
from mintscope.solana.finality import EVERY_S, FAST_EVERY_S, finality_now
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Missing, Rpc, RpcFailure
from mintscope.solana.wire import JsonTransactions

# Requests of ingest that come too early for a block, as a share of its requests for blocks.  The
# watch sends no such requests.
EARLY_SHARE: Final = 0.15


@dataclass(slots=True, kw_only=True)
class NodeWatch:
    """The measurements of a node.

    genesis_hash        hash of the genesis block of the node's chain
    software            version of its software; "" if unknown
    seconds             duration of the watch, in seconds
    version             newest transaction version that requests had to accept
    first_available     oldest slot whose block the node has
    pace                pace of the chain according to the node; None if unknown
    final               delay of the newest final slot; None if the pace is unknown
    start, head         newest slot when the watch began and ended
    took_s              duration of each request that returned a block, in seconds
    raw_bytes           bytes of all received transactions, uncompressed
    wire_bytes          bytes of all responses as received
    calls               number of all requests
    polls               number of requests for the newest slot, which ingest rarely makes
    behind              number of slots that were not yet read when the watch ended
    failures            a message for each request that failed
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
        is_slow = self.final is not None and not self.final.is_fast
        finality_a_day = DAY_S / (EVERY_S if is_slow else FAST_EVERY_S)
        return round(blocks_a_day * (1 + EARLY_SHARE) + finality_a_day)


class _Counted(httpx.AsyncByteStream):
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
    """Counts the requests, and the bytes of the responses as received."""

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
    """Follow the node of *chain* for *seconds*.  Raises SourceError if the first requests fail."""
    counting = _Counting()
    async with Rpc(node_endpoint(chain), clock=clock, transport=counting) as rpc:
        head = await rpc.slot(Commitment.CONFIRMED)
        watch = NodeWatch(
            genesis_hash=await rpc.genesis_hash(),
            version=rpc.newest_version,
            first_available=await rpc.first_available(),
            start=head,
            head=head,
            software=await _software(rpc),
            pace=await rpc.pace(),
        )
        watch.final = await finality_now(rpc, watch.pace)
        await _follow(rpc, chain, clock, seconds, watch)
        watch.version = rpc.newest_version
    watch.calls = counting.calls
    watch.wire_bytes = counting.wire_bytes
    return watch


async def _software(rpc: Rpc) -> str:
    try:
        return await rpc.software()
    except RpcFailure:  # some providers omit the version, and nothing depends on it
        return ""


async def _follow(
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
