"""A source that is begun again if it gives nothing while the chain goes on."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.metrics import SOURCE_STALLS
from mintscope.base.primitives import Slot
from mintscope.base.solana import Block, Source, Tip, Update
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, RpcFailure

log = structlog.get_logger()

ASK_S: Final = 10.0
WAIT_FACTOR_MAX: Final = 8
PAUSE_SHARE: Final = 0.1
CANCEL_AGAIN_S: Final = 1.0
CANCELS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSource:
    """*source*, begun again after the last block that it gave where it stalls.

    It stalls if it gives no update for *stall_after_s* seconds while *node* names a slot above that
    block, or if it ends in a cancellation of its own.  Each time in a row it has twice as long,
    eight times at most.  The time in which the consumer does not ask for an update does not count.
    """

    source: Source
    node: Node
    clock: Clock
    stall_after_s: float

    async def genesis_hash(self) -> str | None:
        """Return that of the source."""
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield what the source does; ends and raises as it does."""
        tip = after
        factor = 1
        while True:
            reading = _Reading(self.source.updates(tip))
            try:
                while True:
                    cause = await self._awaited(reading, tip, self.stall_after_s * factor)
                    if cause is not None:
                        break
                    update = reading.take()
                    if update is None:
                        return
                    factor = 1
                    if isinstance(update, Block):
                        tip = Tip(update.slot, update.blockhash)
                    yield update
            finally:
                await reading.end()
            SOURCE_STALLS.inc()
            slot = None if tip is None else tip.slot
            log.warning("source_stalled", slot=slot, cause=cause)
            # One that ends at once, each time, is not begun again at once.
            await asyncio.sleep(self.stall_after_s * factor * PAUSE_SHARE)
            factor = min(2 * factor, WAIT_FACTOR_MAX)

    async def _awaited(self, reading: "_Reading", tip: Tip | None, patience_s: float) -> str | None:
        """Wait for the next update; return None if it is there, else why it will not come."""
        told: Slot | None = None
        while not await reading.is_there(patience_s):
            head = await self._head()
            if head is not None and (tip is None or head > tip.slot) and not reading.is_done:
                return f"no update for {patience_s:g} s; the node is at slot {head}"
            if head is not None and told is None:
                log.warning("node_stands_still", slot=head, for_s=patience_s)
                told = head
        if told is not None:
            log.info("node_goes_on", after_slot=told)
        return "it was cancelled from inside" if reading.is_cancelled else None

    async def _head(self) -> Slot | None:
        """Return the newest slot of the node, None if it cannot be asked: then nothing stalls."""
        try:
            async with asyncio.timeout(ASK_S):
                return (await self.node.head(Commitment.CONFIRMED)).slot
        except (RpcFailure, TimeoutError):
            return None


class _Reading:
    """One reading of a source, an update at a time."""

    def __init__(self, updates: AsyncIterator[Update]) -> None:
        self._updates = updates
        self._next: asyncio.Task[Update | None] | None = None

    async def is_there(self, timeout_s: float) -> bool:
        """Wait for the next update, or the end; return whether it came in time."""
        if self._next is None:
            self._next = asyncio.create_task(_coroutine(anext(self._updates, None)))
        await asyncio.wait([self._next], timeout=timeout_s)
        return self._next.done()

    @property
    def is_done(self) -> bool:
        """The next update, or the end, has come."""
        return self._next is not None and self._next.done()

    @property
    def is_cancelled(self) -> bool:
        """The source ended in a cancellation that nothing outside asked for."""
        return self._next is not None and self._next.done() and self._next.cancelled()

    def take(self) -> Update | None:
        """Return the update that is there, None at the end; raise what the source raised."""
        assert self._next is not None
        taken = self._next
        self._next = None
        return taken.result()

    async def end(self) -> None:
        """End the source; one that swallows every cancellation is left behind."""
        task = self._next
        self._next = None
        if task is not None:
            for _ in range(CANCELS_MAX):
                if task.done():
                    break
                task.cancel()
                await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
            else:
                log.error("source_not_ended", cancelled=CANCELS_MAX)
                return
            if not task.cancelled():
                task.exception()  # it is looked at, so that it is not logged
        if isinstance(self._updates, AsyncGenerator):
            with suppress(RuntimeError):  # it is in use by a task that was left behind
                await self._updates.aclose()


async def _coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
