"""Opens the nodes of the chain: for blocks, backfills, gaps, facts and holders."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import httpx

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
from mintscope.kit.time import MINUTE_S, SECOND_MS, utc
from mintscope.market.engine.fold import read_state
from mintscope.market.mint_accounts import MINTS_A_CALL, Read, read_facts
from mintscope.market.quotes import oriented
from mintscope.market.series.holder_reads import HolderReader, NodeHolders, NoHolders
from mintscope.solana.blocks import WSOL, Endpoint, Gap
from mintscope.solana.files import FileSource
from mintscope.solana.finality import finality_now, watch_migration
from mintscope.solana.finality_meter import Finality
from mintscope.solana.node import Node, PreferredNodes
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Missing, Rpc
from mintscope.solana.transaction import Transaction, UnreadableTransaction

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
    """Return the endpoint of the node for blocks, with one request at a time and without retries.

    Requests other than those for blocks use this endpoint and a separate client, so that the node's
    limits on these requests delay no blocks.
    """
    return replace(node_endpoint(chain), attempts_max=1, requests_in_flight=1)


@asynccontextmanager
async def following(
    chain: ChainConfig, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Node]:
    """Yield the node or nodes for blocks; watch the first for the migration to Alpenglow."""
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
        async with Rpc(replace(first, url=url, headers={}), clock=clock) as second:
            yield PreferredNodes([rpc, second], clock)


POOLS_MAX: Final = 20
BEFORE_THE_FIRST_S: Final = 3_600  # a repeated backfill begins this long before the first candle


@asynccontextmanager
async def open_backfill(
    config: Config, market: Market, calls_per_s: float, *, allow: Allow | None = None
) -> AsyncIterator["BackfillReading"]:
    """Yield a reader of backfills, connected to the node.

    allow   awaited before each request, to limit requests; None: nothing is awaited
    """
    endpoint = node_endpoint(config.chain)
    clock = SystemClock()
    async with PacedNode(endpoint, clock=clock, calls_per_s=calls_per_s, allow=allow) as node:
        yield BackfillReading(config, market, node, calls_per_s)


class BackfillReading:
    """Reads backfills.  Every method may raise SourceError and ServiceUnavailable."""

    def __init__(self, config: Config, market: Market, node: PacedNode, calls_per_s: float) -> None:
        self._block = decoder(config.dex)
        self._market = market
        self._node = node
        self._calls_per_s = calls_per_s

    @property
    def calls(self) -> int:
        """The number of requests to the node so far."""
        return self._node.calls

    async def survey(
        self,
        mint: Mint,
        from_time: UnixS,
        *,
        pools: Collection[str] = (),
        rate_pools: Collection[str] = (),
    ) -> Survey:
        """Return start, addresses and cost of a backfill; the node's history limits the start.

        pools, rate_pools   the addresses to read; empty: the addresses that are found
        Raises              ValueError if *mint* cannot be backfilled, if no pool is found, or if
                            candles would be lost
        """
        first = await _first_candle(self._market, mint)
        addresses = await self._addresses(mint, pools=pools, rate_pools=rate_pools)
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
        self, mint: Mint, *, pools: Collection[str], rate_pools: Collection[str]
    ) -> Mapping[str, Kind]:
        jobs = self._market.history
        if not pools:
            logged = await jobs.pools(mint)
            found = await find_pools(self._node, self._decode, mint)
            pools = sorted({*logged, *found}, key=lambda pool: -found.get(pool, 0))[:POOLS_MAX]
        if not pools:
            raise ValueError(f"no pool of {mint} was found: name its pools with --pool")
        if not rate_pools:
            rates = await jobs.pools(WSOL)
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
        self, mint: Mint, from_time: UnixS, progress: Progress, *, incomplete: bool = False
    ) -> int:
        """Read and fold all final transactions of *mint*; after this, ingest joins them.

        A call after a failure resumes.  Returns the number of transactions that the node did not
        return; raises IncompleteBackfill if there are any, unless *incomplete* is set.
        """
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

    def _decode(
        self, transactions: Sequence[Transaction | UnreadableTransaction]
    ) -> Sequence[Swap]:
        decoded = self._block(transactions)
        return [*decoded.swaps, *decoded.migrations]


async def begin_of(market: Market, mint: Mint, from_time: UnixS, *, again: bool = False) -> UnixS:
    """Return the time at which a backfill of *mint*, requested from *from_time* on, must begin.

    again     whether to begin before the first candle, which is replaced
    Raises    ValueError, with the reason, if nothing is missing or *mint* cannot be backfilled
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
    """Return a warning: the node lists *missing* transactions that it did not return."""
    transactions = "1 transaction" if missing == 1 else f"{missing} transactions"
    return f"the node did not give {transactions} that it lists: candles would lack their swaps"


def of_the_second_node(config: Config) -> Config:
    """Return *config* with the second node in place of the first; without a second, *config*."""
    chain = config.chain
    if chain.second_rpc_url is None:
        return config
    second = chain.model_copy(update={"rpc_url": chain.second_rpc_url, "rpc_headers": {}})
    return config.model_copy(update={"chain": second})


@asynccontextmanager
async def mending_gaps(config: Config, market: Market, clock: Clock) -> AsyncIterator[None]:
    """Mend gaps during the block, over separate connections; not with block files."""
    if config.chain.source == "files":
        yield
        return
    async with (
        gap_mending(config, market, clock) as mending,
        running(mending.run, "gaps"),
    ):
        yield


@asynccontextmanager
async def gap_mending(config: Config, market: Market, clock: Clock) -> AsyncIterator[GapMending]:
    """Yield the `GapMending`; it uses the second node if configured, else the first."""
    chain = config.chain
    calls = DailyCalls(market.gap_mends, clock, chain.gap_calls_per_day)
    pace = chain.history_calls_per_s
    node = of_the_second_node(config)
    async with open_backfill(node, market, pace, allow=calls.take) as reading:
        yield GapMending(
            mends=market.gap_mends,
            reader=market.reader,
            tracking=market.tracking,
            reading=market.history,
            jobs=market.history,
            source=_Source(market, reading, chain.gap_rate_pools),
            lock=partial(backfill_lock, config),
            plan=MendPlan(chain.gap_mend_after_s, chain.gap_attempts_max, chain.gap_calls_per_day),
            clock=clock,
        )


@dataclass(eq=False, repr=False)
class _Source:
    """Implements GapSource."""

    market: Market
    reading: BackfillReading
    rate_pools: Collection[str]

    async def traded(self, gap: Gap) -> Collection[Mint]:
        return await self.reading.traded(gap)

    async def begin(self, mint: Mint, since: UnixS) -> UnixS:
        return await begin_of(self.market, mint, since, again=True)

    async def survey(self, mint: Mint, from_time: UnixS) -> Survey:
        return await self.reading.survey(mint, from_time, rate_pools=self.rate_pools)

    async def read(self, mint: Mint, from_time: UnixS) -> int:
        return await self.reading.read(mint, from_time, lambda _what, _count: None)


@asynccontextmanager
async def reading_backfills(config: Config, market: Market, clock: Clock) -> AsyncIterator[None]:
    """Run requested backfills during the block, over separate connections; not with block files."""
    if config.chain.source == "files":
        yield
        return
    async with open_backfill(config, market, config.chain.history_calls_per_s) as reading:
        asked = BackfillQueue(
            queue=market.backfill_jobs,
            reading=market.history,
            jobs=market.history,
            source=_BackfillSource(market, reading),
            lock=partial(backfill_lock, config),
            clock=clock,
        )
        async with running(asked.run, "backfills"):
            yield


class _BackfillSource:
    """Implements BackfillSource."""

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


# Limits of requests while an operator waits.
TIMEOUT_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProbe:
    """The response of a node to a request for one block.

    absence        why the node does not have the block; None if it has the block
    transactions   number of transactions in the block
    took_s         seconds until the response was complete
    """

    absence: str | None
    transactions: int
    took_s: float


async def finality_of(rpc: Rpc, pace: Pace | None) -> Finality:
    """Return the finality of the cluster; *pace* converts slots to seconds.  Raises SourceError."""
    return Finality(await rpc.alpenglow(), await finality_now(rpc, pace))


async def probe_block(rpc: Rpc, slot: Slot, clock: Clock) -> BlockProbe:
    """Request a whole block, and measure the time.  Raises SourceError."""
    start_s = clock.monotonic_s()
    block = await rpc.block(slot, Commitment.CONFIRMED)
    took_s = clock.monotonic_s() - start_s
    if isinstance(block, Missing):
        return BlockProbe(absence=block.absence, transactions=0, took_s=took_s)
    return BlockProbe(absence=None, transactions=len(block.transactions), took_s=took_s)


def probed_node(chain: ChainConfig, clock: Clock) -> Rpc:
    """Return a client of the node from which blocks are read, for the doctor."""
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=ATTEMPTS_MAX)
    return Rpc(endpoint, clock=clock)


async def ask_facts(chain: ChainConfig, mints: Sequence[Mint]) -> Read:
    """Return the facts of each of *mints*, or the reason why it is not a mint.

    Raises SourceError.
    """
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
    """Yield a reader of holders, which sends the node for blocks one request at a time.

    With block files, or if `chain.holder_calls_per_day` is 0, the reader sends no request.
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
