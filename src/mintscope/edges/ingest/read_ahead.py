"""Blocks of a source that wait while others are decoded: bounded in number and in bytes."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from mintscope.base.solana import Block, SourceError, Update

Offer: TypeAlias = Callable[[Block], None]

UPDATES_MAX: Final = 32
# A real block is about 7 MB; one is always taken, however large.
BYTES_MAX: Final = 128 * 1024 * 1024
# Of what is offered; more is read, and decoded ahead, while these are written.
TAKEN_MAX: Final = 16
CANCEL_AGAIN_S: Final = 1.0


class ReadAhead:
    """Updates in order, until the source ends."""

    def __init__(
        self, updates: AsyncIterator[Update], bytes_max: int, offer: Offer | None = None
    ) -> None:
        self._updates = updates
        self._offer = offer
        self._bytes_max = bytes_max
        self._held: deque[Update] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()
        self._has_ended = False
        self._failure: Exception | None = None

    async def pump(self) -> None:
        """Read the source to its end."""
        failure: Exception | None = None
        try:
            async for update in self._updates:
                async with self._changed:
                    await self._changed.wait_for(self._has_room)
                    if self._offer is not None and self._held and isinstance(update, Block):
                        self._offer(update)
                    self._held.append(update)
                    self._bytes += _size(update)
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - raised again where the updates are taken
            failure = error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Else the taker would wait for ever: nothing outside asked for the end.
            failure = SourceError("the source was cancelled from inside")
        async with self._changed:
            self._has_ended = True
            self._failure = failure
            self._changed.notify_all()

    @property
    def holds_updates(self) -> bool:
        """Whether `take` would return at once."""
        return bool(self._held) or self._has_ended

    async def take(self) -> list[Update]:
        """Return the next updates, at least one; none at the end, and not too many if offered.

        Raises what the source raised, after everything it yielded before.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._held or self._has_ended)
            count = len(self._held) if self._offer is None else TAKEN_MAX
            updates = [self._held.popleft() for _ in range(min(count, len(self._held)))]
            self._bytes -= sum(map(_size, updates))
            self._changed.notify_all()
        if not updates and self._failure is not None:
            raise self._failure
        return updates

    def _has_room(self) -> bool:
        return not self._held or (len(self._held) < UPDATES_MAX and self._bytes < self._bytes_max)


@asynccontextmanager
async def read_ahead(
    updates: AsyncIterator[Update], *, bytes_max: int = BYTES_MAX, offer: Offer | None = None
) -> AsyncIterator[ReadAhead]:
    """Let the source work while blocks are decoded; no task is left behind.

    offer   called with each block that others wait before
    """
    ahead = ReadAhead(updates, bytes_max, offer)
    reading = asyncio.create_task(ahead.pump(), name="read-ahead")
    try:
        yield ahead
    finally:
        while not reading.done():  # what the source awaits may swallow a cancellation
            reading.cancel()
            await asyncio.wait([reading], timeout=CANCEL_AGAIN_S)
        if isinstance(updates, AsyncGenerator):
            await updates.aclose()


def _size(update: Update) -> int:
    return update.size if isinstance(update, Block) else 0
