"""Reading a mint's past: the node, the decoder, the store and the fold, put together."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from mintscope.base.clock import SystemClock
from mintscope.base.primitives import Mint, UnixMs, UnixS
from mintscope.base.solana import WSOL, Gap
from mintscope.base.time import MINUTE_S, SECOND_MS, utc
from mintscope.base.transaction import Transaction, UnreadableTransaction
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.history.asking import IncompletePast, Survey
from mintscope.core.market.history.store import Kind
from mintscope.core.market.quotes import oriented
from mintscope.core.market.swap import Swap
from mintscope.edges.ingest.past import fold_past
from mintscope.edges.sources.history.gaps import blocks_of
from mintscope.edges.sources.history.node import Allow, PacedNode
from mintscope.edges.sources.history.reader import HistoryReader, Progress
from mintscope.edges.sources.history.survey import cost_of, find_pools
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.decoding import decoder
from mintscope.shell.wiring.sources.endpoint import node_endpoint
from mintscope.shell.wiring.stores import Market

__all__ = [
    "PastReading",
    "Progress",
    "begin_of",
    "left_out",
    "of_the_second_node",
    "open_past",
]

POOLS_MAX: Final = 20
BEFORE_THE_FIRST_S: Final = 3_600  # a repeated read begins so long before: rates rest on a minute


@asynccontextmanager
async def open_past(
    config: Config, market: Market, calls_per_s: float, *, allow: Allow | None = None
) -> AsyncIterator["PastReading"]:
    """Connect to the node that pasts are read from.

    allow   awaited before each request
    """
    endpoint = node_endpoint(config.chain)
    clock = SystemClock()
    async with PacedNode(endpoint, clock=clock, calls_per_s=calls_per_s, allow=allow) as node:
        yield PastReading(config, market, node, calls_per_s)


class PastReading:
    """Reads pasts; every verb raises SourceError, ServiceUnavailable."""

    def __init__(self, config: Config, market: Market, node: PacedNode, calls_per_s: float) -> None:
        self._block = decoder(config.dex)
        self._market = market
        self._node = node
        self._calls_per_s = calls_per_s

    @property
    def calls(self) -> int:
        """The requests so far."""
        return self._node.calls

    async def survey(
        self,
        mint: Mint,
        from_time: UnixS,
        *,
        pools: Collection[str] = (),
        rate_pools: Collection[str] = (),
    ) -> Survey:
        """Return what to read since *from_time*, as far as the node reaches back, and its cost.

        pools, rate_pools   what to read; where none is named, what is found
        Raises              ValueError in words where there is nothing to read
        """
        first = await _first_candle(self._market, mint)
        addresses = await self._addresses(mint, pools=pools, rate_pools=rate_pools)
        oldest = await self._node.reaches_back_to()
        if oldest is not None:
            from_time = max(from_time, oldest)
        if first is not None and from_time >= first + MINUTE_S:  # the candle of a minute
            raise ValueError(
                f"{mint} has candles since {_at(first)}, which would be lost: expected a node that"
                f" reaches back before them; this one does to {_at(from_time)}"
            )
        rate = self._calls_per_s
        cost = await cost_of(self._node, addresses, from_time=from_time, calls_per_s=rate)
        return Survey(from_time, addresses, cost)

    async def _addresses(
        self, mint: Mint, *, pools: Collection[str], rate_pools: Collection[str]
    ) -> Mapping[str, Kind]:
        jobs = self._market.history_jobs
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
        """Return the mints with a swap in *gap*.  Raises SourceError where it is not whole here."""
        found = set()
        async for block in blocks_of(self._node, gap):
            seen = map(oriented, self._block(block.transactions).swaps)
            found |= {each.base for each in seen if each is not None}
        return found

    async def read(
        self, mint: Mint, from_time: UnixS, progress: Progress, *, incomplete: bool = False
    ) -> int:
        """Read and fold all of *mint* that is final now; ingest may join it then.

        After a failure call it again: it goes on.  Return how many transactions were never given:
        unless an *incomplete* past will do, IncompletePast is raised where there is one.
        """
        node = self._node
        store = self._market.history_reading
        reader = HistoryReader(
            node, store, self._decode, in_flight=node.in_flight, progress=progress
        )
        await reader.round(mint, from_time)
        job = await self._market.history_jobs.one(mint)  # before it is joined: then it is dropped
        missing = 0 if job is None else job.missing
        if missing and not incomplete:
            raise IncompletePast(left_out(missing))
        await fold_past(self._market.past_folding, mint)
        return missing

    def _decode(
        self, transactions: Sequence[Transaction | UnreadableTransaction]
    ) -> Sequence[Swap]:
        decoded = self._block(transactions)
        return [*decoded.swaps, *decoded.migrations]


async def begin_of(market: Market, mint: Mint, from_time: UnixS, *, again: bool = False) -> UnixS:
    """Return where a past of *mint* begins that was asked for since *from_time*.

    again     from before the first candle, which is replaced
    Raises    ValueError in words where nothing is missing, or it can have no past
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
    """Return when the first candle of *mint* is, None without one."""
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
    """Say that a node did not give *missing* transactions, and what that means."""
    transactions = "1 transaction" if missing == 1 else f"{missing} transactions"
    return f"{transactions} that the node lists it did not give: candles would lack their swaps"


def of_the_second_node(config: Config) -> Config:
    """Return *config* with the second node, if there is one, in the place of the first."""
    chain = config.chain
    if chain.second_rpc_url is None:
        return config
    second = chain.model_copy(update={"rpc_url": chain.second_rpc_url, "rpc_headers": {}})
    return config.model_copy(update={"chain": second})
