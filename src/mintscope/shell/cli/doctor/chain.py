"""Checks the source of blocks: a node or files."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.finality import Finality
from mintscope.base.pace import Pace
from mintscope.base.primitives import Slot, UnixS
from mintscope.base.solana import SourceError
from mintscope.shell.cli.config import shown
from mintscope.shell.cli.doctor.finding import Finding, collect, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.config.geyser import GeyserConfig
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.probes import BlockProbe, holds_blocks, open_node

MAINNET: Final = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
SKEW_S_MAX: Final = 5
FINAL_S_MAX: Final = 40  # 13 s are usual before Alpenglow
TOO_MANY: Final = "HTTP 429"


def check_chain(config: Config) -> Iterator[Finding]:
    """Ask the node, or open the files."""
    if config.chain.source == "files":
        for path in config.chain.files:
            yield asyncio.run(_file(path))
    else:
        yield from collect(_node(config.chain, SystemClock()))
        if config.chain.source == "geyser":
            yield from collect(_streams(config.geyser))


async def _file(path: Path) -> Finding:
    try:
        if await holds_blocks(path):
            return ok(f"blocks: {path} can be read")
    except SourceError as error:
        return fail(f"blocks: {error}", "see chain.files")
    return fail(f"blocks: {path} holds no block", "see chain.files")


async def _node(chain: ChainConfig, clock: Clock) -> AsyncIterator[Finding]:
    """Ask the node what it is, for its time, and for a whole block, as ingest does all day."""
    where = f"node: {shown(chain.rpc_url)}"
    try:
        async with open_node(chain, clock) as node:
            yield _cluster(where, health=await node.health(), genesis=await node.genesis_hash())
            head = await node.newest_slot()
            yield _clock(head, await node.block_time(head), clock)
            pace = await node.pace()
            yield _pace(pace)
            yield _finality(await node.finality(), knows_confirmed=node.knows_confirmed)
            yield _block(head, await node.probe_block(head), chain.requests_in_flight, pace)
    except SourceError as error:
        if error.is_refusal:
            yield fail(f"{where} refuses: {error}", "check chain.rpc_url and chain.rpc_headers")
        else:
            fix = "is it running, and does chain.rpc_url name it?"
            if TOO_MANY in str(error):
                fix = "the plan is used up: mintscope doctor --node says how many calls are needed"
            yield fail(f"{where} does not answer: {error}", fix)


async def _streams(geyser: GeyserConfig) -> AsyncIterator[Finding]:
    """Ask each server of the stream for its version: that shows the way and the x-token too."""
    # Only here: grpcio and protobuf are an extra that others need not have.
    from mintscope.shell.wiring.sources.stream import versions  # noqa: PLC0415 - see above

    async for where, version, said in versions(geyser):
        if version is None:
            fix = "check geyser.urls and geyser.x_tokens, and that the plan includes gRPC"
            yield fail(f"stream: {where} does not serve: {said:.200}", fix)
        else:
            yield ok(f"stream: {where} serves, version {version:.80}")


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
        fix = "does the node lag? Compare it with another; if not, set this machine's clock by NTP"
        return warn(what, fix)
    return ok(what)


def _pace(pace: Pace | None) -> Finding:
    if pace is None:
        fix = "choose a node that answers getRecentPerformanceSamples or getBlockTime"
        return warn("pace: the node does not know how long a slot takes", fix)
    return ok(f"pace: {pace.slot_s * 1000:.0f} ms a slot, over the last {pace.over_s:.0f} s")


def _finality(finality: Finality, *, knows_confirmed: bool) -> Finding:
    cluster = {
        True: "the cluster is on Alpenglow",
        False: "the cluster is not on Alpenglow yet",
        None: "the node does not know whether the cluster is on Alpenglow",
    }[finality.alpenglow]
    behind = finality.behind
    if not knows_confirmed:
        return ok(
            "finality: the node does not know the level confirmed: blocks are read, and payments"
            f" taken, once they are final; {cluster}"
        )
    if behind is None:
        return ok(f"finality: not measured, as the pace is not known; {cluster}")
    late = f"{behind.slots} slots ({behind.seconds * 1000:,.0f} ms) behind confirmed"
    if behind.seconds > FINAL_S_MAX:
        fix = "does the cluster finalize? If it does, choose another node"
        return warn(f"finality: {late}; {cluster}", fix)
    return ok(f"finality: {late}; {cluster}")


def _block(head: Slot, block: BlockProbe, in_flight: int, pace: Pace | None) -> Finding:
    if block.absence is not None:
        fix = "run doctor again; if it stays, set chain.second_rpc_url or change chain.rpc_url"
        return warn(f"blocks: the node has no block {head}: {block.absence}", fix)
    what = f"blocks: {block.transactions} transactions of slot {head} took {block.took_s:.2f} s"
    if pace is not None and block.took_s > pace.slot_s * in_flight:
        return warn(what, "too slow to keep up: raise chain.requests_in_flight")
    return ok(what)
