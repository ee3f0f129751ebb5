"""A node as the poller asks it, answered from a stream while that has what is asked for."""

import asyncio
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.pace import Pace
from mintscope.base.primitives import Slot
from mintscope.base.solana import Block
from mintscope.edges.sources.finality import FAST_EVERY_S
from mintscope.edges.sources.geyser.stream import Stream
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, Head, Missing, Unreachable
from mintscope.edges.sources.wire import Absence, Header

NEWS_S: Final = 0.25
OWED_SLOTS_MAX: Final = 10_000


class StreamedNode:
    """The blocks of *stream*; *repairer* gives what the stream left out, and all while it is away.

    The poller proves the chain by its links, so a wrong guess here costs a request, never a block.
    """

    def __init__(
        self, stream: Stream, repairer: Node, clock: Clock, *, poll_s: float, gap_after_s: float
    ) -> None:
        self._stream = stream
        self._shelf = stream.shelf
        self._repairer = repairer
        self._clock = clock
        self._poll_s = poll_s
        self._gap_after_s = gap_after_s
        self._told = Slot(-1)
        self._final: tuple[float, Head] | None = None
        self._failing_since_s: dict[Slot, float] = {}

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; wait a moment where that is no news."""
        if commitment is Commitment.FINALIZED:
            final = self._shelf.final
            if self._stream.is_live and final >= 0:
                held = self._shelf.final_block(final)
                return Head(final, None if held is None else held.blockhash)
            return await self._repaired_final()
        if self._shelf.newest <= self._told:
            await self._news()
        if self._stream.is_live and self._shelf.newest >= 0:
            self._told = self._shelf.newest
        else:
            self._told = max(self._told, (await self._repairer.head(commitment)).slot)
        return Head(self._told, None)

    async def _repaired_final(self) -> Head:
        """Return the newest final block of the repairer, as of a moment ago at most."""
        now_s = self._clock.monotonic_s()
        if self._final is None or now_s - self._final[0] >= FAST_EVERY_S:
            self._final = now_s, await self._repairer.head(Commitment.FINALIZED)
        return self._final[1]

    async def _news(self) -> None:
        """Wait until the stream has a block, shortly."""
        wait_s = NEWS_S if self._stream.is_live else self._poll_s
        self._stream.news.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._stream.news.wait()
        except TimeoutError:
            pass

    async def first_available(self) -> Slot:
        """Return the oldest slot the repairer still has a block of."""
        return await self._repairer.first_available()

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        return await self._repairer.genesis_hash()

    async def pace(self) -> Pace | None:
        """Return how fast the chain makes slots; None if the repairer does not know."""
        return await self._repairer.pace()

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* said to have a block, ascending."""
        proven = self._shelf.covers(first, last)
        if proven is not None:
            return proven
        return await self._repairer.blocks(first=first, last=last, commitment=commitment)

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot*: of the stream, or of the repairer where its links lack it.

        A block that the repairer cannot be asked for in `gap_after_s` counts as purged.
        """
        held = self._shelf.block(slot)
        if held is not None:
            self._failing_since_s.pop(slot, None)
            return held
        if self._shelf.passes_over(slot):
            return Missing(slot=slot, absence=Absence.SKIPPED)
        try:
            answer = await self._repairer.block(slot, commitment, is_expected=is_expected)
        except Unreachable:
            if not self._is_given_up(slot):
                raise
            return Missing(slot=slot, absence=Absence.PURGED)
        self._failing_since_s.pop(slot, None)
        if isinstance(answer, Block):
            self._shelf.contradict(answer)  # else a dead block of the stream is given for ever
        return answer

    def _is_given_up(self, slot: Slot) -> bool:
        """Return whether the stream goes on, and *slot* has been asked for in vain for long."""
        now_s = self._clock.monotonic_s()
        if len(self._failing_since_s) >= OWED_SLOTS_MAX:
            self._failing_since_s.clear()
        since_s = self._failing_since_s.setdefault(slot, now_s)
        return self._stream.is_live and now_s - since_s > self._gap_after_s

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        is_final = commitment is Commitment.FINALIZED
        held = self._shelf.final_block(slot) if is_final else self._shelf.block(slot)
        if held is None:
            return await self._repairer.header(slot, commitment)
        return Header(
            blockhash=held.blockhash,
            parent_blockhash=held.parent_blockhash,
            parent_slot=held.parent_slot,
        )
