"""Checks the source of blocks: a node or files."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Final

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.primitives import Slot, UnixS
from mintscope.base.solana import Block
from mintscope.edges.sources.files import FileError, FileSource
from mintscope.edges.sources.rpc import Commitment, Missing, Rpc, RpcFailure, RpcRefused
from mintscope.shell.cli.config import shown
from mintscope.shell.cli.doctor.finding import Finding, collect, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.ingest import node_endpoint

MAINNET: Final = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
TIMEOUT_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 2
SKEW_S_MAX: Final = 5
SLOT_S: Final = 0.4


def check_chain(config: Config) -> Iterator[Finding]:
    """Ask the node, or open the files."""
    if config.chain.source == "files":
        for path in config.chain.files:
            yield asyncio.run(_file(path))
    else:
        yield from collect(_node(config.chain, SystemClock()))


async def _file(path: Path) -> Finding:
    try:
        async with aclosing(FileSource([path]).updates(None)) as updates:
            async for _ in updates:
                return ok(f"blocks: {path} can be read")
    except FileError as error:
        return fail(f"blocks: {error}", "see chain.files")
    return fail(f"blocks: {path} holds no block", "see chain.files")


async def _node(chain: ChainConfig, clock: Clock) -> AsyncIterator[Finding]:
    """Ask the node what it is, for its time, and for a whole block, as ingest does all day."""
    where = f"node: {shown(chain.rpc_url)}"
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=ATTEMPTS_MAX)
    try:
        async with Rpc(endpoint, clock=clock) as rpc:
            yield _cluster(where, health=await rpc.health(), genesis=await rpc.genesis_hash())
            head = await rpc.slot(Commitment.CONFIRMED)
            yield _clock(head, await rpc.block_time(head), clock)
            start_s = clock.monotonic_s()
            block = await rpc.block(head, Commitment.CONFIRMED)
            yield _block(head, block, clock.monotonic_s() - start_s, chain.requests_in_flight)
    except RpcRefused as error:
        yield fail(f"{where} refuses: {error}", "check chain.rpc_url and chain.rpc_headers")
    except RpcFailure as error:
        fix = "is it running, and does chain.rpc_url name it?"
        yield fail(f"{where} does not answer: {error}", fix)


def _cluster(where: str, *, health: str, genesis: str) -> Finding:
    if health != "ok":
        return warn(f"{where} says of itself: {health!r:.80}", "wait for it, or choose another")
    if genesis != MAINNET:
        return warn(f"{where} is not mainnet: genesis {genesis:.44}", "fine for a test only")
    return ok(f"{where} is up, mainnet")


def _clock(head: Slot, time: UnixS | None, clock: Clock) -> Finding:
    if time is None:
        return warn(f"clock: the node gives no time for slot {head}", "choose another provider")
    skew_s = clock.now() / 1000 - time
    what = f"clock: {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} block {head}"
    if abs(skew_s) > SKEW_S_MAX:
        return warn(what, "set this machine's clock by NTP; if it is right, the node lags")
    return ok(what)


def _block(head: Slot, block: Block | Missing, took_s: float, in_flight: int) -> Finding:
    if isinstance(block, Missing):
        return warn(f"blocks: the node has no block {head}: {block.absence}", "run doctor again")
    what = f"blocks: {len(block.transactions)} transactions of slot {head} took {took_s:.2f} s"
    if took_s > SLOT_S * in_flight:
        return warn(what, "too slow to keep up: raise chain.requests_in_flight")
    return ok(what)
