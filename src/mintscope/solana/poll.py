"""A block source that polls a node with getSlot, getBlocks and getBlock."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Gap, Tip, Update
from mintscope.solana.finality import Lineage, Position
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import Node
from mintscope.solana.rpc import Commitment, Patience, RpcRefused, Sleep, Unreachable
from mintscope.solana.walk import OtherChain, Polling, Walk

__all__ = ["OtherChain", "Polling"]

log = structlog.get_logger()

# A resumed consumer can follow a fork that begins at most this many slots below its tip.
OVERLAP_SLOTS: Final = 512

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Poller:
    """A source that requests blocks from a JSON-RPC node.

    owed_since   by slot, the time when each missing block was first known to exist; a restart keeps
                 these times, because `gap_after_s` counts from them
    """

    rpc: Node
    polling: Polling
    _: KW_ONLY
    clock: Clock
    sleep: Sleep = asyncio.sleep
    progress: Progress | None = None  # called with the numbers of finished and of known slots
    owed_since: dict[Slot, float] = field(default_factory=dict)
    meter: FinalityMeter = field(default_factory=FinalityMeter)

    async def genesis_hash(self) -> str | None:
        """Return the genesis hash of the node's chain, or None if the node refuses the request.

        Wait while the node is unreachable.
        """
        patience = Patience(self.sleep)
        while True:
            try:
                return await self.rpc.genesis_hash()
            except Unreachable as failure:
                await patience.wait(failure)
            except RpcRefused as refusal:
                log.warning("chain_not_identified", reason=str(refusal))
                return None

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield blocks in order, reports of final blocks, and gaps; never end.

        Raises RpcRefused if the node refuses the first requests, and OtherChain if the node follows
        another cluster.  Later failures are logged, and the requests are repeated.
        """
        patience = Patience(self.sleep)
        lineage, missed = await self._begin(after, patience)
        if missed is not None:
            yield missed
        walk = Walk(
            self.rpc,
            lineage,
            self.polling,
            clock=self.clock,
            sleep=self.sleep,
            owed_since=self.owed_since,
            meter=self.meter,
        )
        start = lineage.tip.slot
        try:
            while True:
                try:
                    updates = await walk.step()
                except (Unreachable, RpcRefused) as failure:
                    await walk.interrupted()
                    is_refused = isinstance(failure, RpcRefused)
                    event = "chain_refused" if is_refused else "chain_unreachable"
                    await patience.wait(failure, event)
                    continue
                patience.renew()
                for update in updates:
                    yield update
                if updates and self.progress is not None:
                    self.progress(lineage.tip.slot - start, walk.head - start)
        finally:
            await walk.close()

    async def _begin(self, after: Tip | None, patience: Patience) -> tuple[Lineage, Gap | None]:
        while True:
            try:
                return await self._locate(after)
            except Unreachable as failure:
                await patience.wait(failure)

    async def _locate(self, after: Tip | None) -> tuple[Lineage, Gap | None]:
        """Return the lineage that continues after the block *after*, and the gap of skipped slots.

        The slots after *after* are skipped if there are too many; the gap is None if none are
        skipped.
        """
        head = (await self.rpc.head(Commitment.CONFIRMED)).slot
        if after is None:
            return Lineage(Position(Slot(await self._first(head) - 1), None)), None
        if head < after.slot:
            log.warning("node_behind_store", node_slot=head, store_slot=after.slot)
        limit = await self._slots(self.polling.max_gap_s)
        if limit and head - after.slot > limit:
            # A head that is far too high, from a broken node, must not skip all slots up to it.
            await self._expect_blocks(head)
            backfill = await self._slots(self.polling.backfill_s)
            last = Slot(max(after.slot + 1, head - backfill - 1))
            reason = f"resumed {head - after.slot} slots behind, more than max_gap_s"
            return Lineage(Position(last, None)), Gap(Slot(after.slot + 1), last, reason)
        lineage = Lineage(Position(Slot(max(after.slot - OVERLAP_SLOTS, -1)), None))
        lineage.resume(after)
        return lineage, None

    async def _expect_blocks(self, head: Slot) -> None:
        """Raise Unreachable if the node lists no blocks near *head*, which may be a wrong number.

        Called before slots up to *head* are skipped.
        """
        first = Slot(max(head - OVERLAP_SLOTS, 0))
        if not await self.rpc.blocks(first=first, last=head, commitment=Commitment.CONFIRMED):
            raise Unreachable(f"expected blocks at the newest slot; it lists none before {head}")

    async def _slots(self, seconds: float) -> int:
        """Return the number of slots in *seconds* at the pace of the chain, which the node reports.

        Returns 0 if the node does not know the pace.  Raises RpcFailure.
        """
        if not seconds:
            return 0
        pace = await self.rpc.pace()
        if pace is None:
            log.warning("pace_unknown", settings="chain.backfill_s and chain.max_gap_s")
            return 0
        return pace.slots(seconds)

    async def _first(self, head: Slot) -> Slot:
        start = self.polling.start
        if start == "first":
            return await self.rpc.first_available()
        if start == "latest":
            return Slot(max(head - await self._slots(self.polling.backfill_s), 0))
        return start
