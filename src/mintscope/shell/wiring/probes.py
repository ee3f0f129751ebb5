"""Requests of `mintscope doctor` to a source of blocks: as ingest makes them, but only once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.finality import Finality
from mintscope.base.pace import Pace
from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.edges.sources.accounts.mint_facts import MINTS_A_CALL, Read, read_facts
from mintscope.edges.sources.files import FileSource
from mintscope.edges.sources.finality import finality_now
from mintscope.edges.sources.rpc import Commitment, Missing, Rpc
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.sources.endpoint import node_endpoint

# An operator waits for the answer.
TIMEOUT_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProbe:
    """The answer of a node to a request for one block.

    absence        why it has no such block, in its words; None if it has
    transactions   how many the block holds
    took_s         how long the answer took
    """

    absence: str | None
    transactions: int
    took_s: float


class NodeProbe:
    """The questions of the doctor.  Each raises SourceError without a usable answer."""

    def __init__(self, rpc: Rpc, clock: Clock) -> None:
        self._rpc = rpc
        self._clock = clock

    async def health(self) -> str:
        """Return "ok", or what the node says of itself."""
        return await self._rpc.health()

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        return await self._rpc.genesis_hash()

    async def newest_slot(self) -> Slot:
        """Return the newest confirmed slot."""
        return await self._rpc.slot(Commitment.CONFIRMED)

    async def pace(self) -> Pace | None:
        """Return how fast the chain makes slots; None if the node does not know."""
        return await self._rpc.pace()

    async def finality(self) -> Finality:
        """Return the finality of the node, in seconds at its own pace."""
        behind = await finality_now(self._rpc, await self._rpc.pace())
        return Finality(await self._rpc.alpenglow(), behind)

    @property
    def knows_confirmed(self) -> bool:
        """Whether the node knows the level `confirmed`, as far as it was asked."""
        return self._rpc.knows_confirmed

    async def block_time(self, slot: Slot) -> UnixS | None:
        """Return when *slot* was made, None where the chain does not know."""
        return await self._rpc.block_time(slot)

    async def probe_block(self, slot: Slot) -> BlockProbe:
        """Ask for a whole block, and take the time."""
        start_s = self._clock.monotonic_s()
        block = await self._rpc.block(slot, Commitment.CONFIRMED)
        took_s = self._clock.monotonic_s() - start_s
        if isinstance(block, Missing):
            return BlockProbe(absence=block.absence, transactions=0, took_s=took_s)
        return BlockProbe(absence=None, transactions=len(block.transactions), took_s=took_s)


@asynccontextmanager
async def open_node(chain: ChainConfig, clock: Clock) -> AsyncIterator[NodeProbe]:
    """Connect to the node that blocks are read from.  Raises SourceError."""
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=ATTEMPTS_MAX)
    async with Rpc(endpoint, clock=clock) as rpc:
        yield NodeProbe(rpc, clock)


async def ask_facts(chain: ChainConfig, mints: Sequence[Mint]) -> Read:
    """Return what each of *mints* is, or why it is no mint.  Raises SourceError."""
    clock = SystemClock()
    timeout_s = min(chain.timeout_s, TIMEOUT_S_MAX)
    endpoint = replace(node_endpoint(chain), timeout_s=timeout_s, attempts_max=1)
    async with Rpc(endpoint, clock=clock) as rpc:
        found: Read = {}
        for start in range(0, len(mints), MINTS_A_CALL):
            found |= await read_facts(rpc, mints[start : start + MINTS_A_CALL], clock)
        return found


async def holds_blocks(path: Path) -> bool:
    """Return whether the first block of *path* can be read.  Raises SourceError."""
    async with aclosing(FileSource([path]).updates(None)) as updates:
        async for _ in updates:
            return True
    return False
