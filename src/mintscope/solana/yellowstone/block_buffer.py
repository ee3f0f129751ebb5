"""The block buffer of a gRPC stream, and a check that the stream delivers blocks."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block

BLOCKS_MAX: Final = 1_024
BYTES_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Held:
    block: Block
    size: int


class BlockBuffer:
    """Keeps the newest blocks of a stream by slot.

    If there are too many blocks or bytes, the lowest slots are dropped.
    """

    def __init__(self, *, blocks_max: int = BLOCKS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._blocks_max = blocks_max
        self._bytes_max = bytes_max
        self._held: OrderedDict[Slot, _Held] = OrderedDict()
        self._bytes = 0
        self.newest = Slot(-1)  # the highest slot so far, -1 before the first
        self.final = Slot(-1)  # the newest slot that the session reported as final, else -1
        self._session_after = Slot(-1)

    def add(self, block: Block, size: int) -> bool:
        """Add *block* of *size* bytes, and drop the blocks that it proves to be abandoned.

        Return False if *block* is already stored, or if a stored block proves that it is abandoned.
        """
        # A block that is not an ancestor of a stored block above it has died: it is dropped, or not
        # added.
        held = self._held.get(block.slot)
        if held is not None and held.block.blockhash == block.blockhash:
            return False
        above = self._above(block.slot)
        if above is not None and not _admits(above, block):
            return False  # the block is late, and of a dead fork
        self._drop_between(block)
        self._held[block.slot] = _Held(block, size)
        self._bytes += size
        # `add` drops the first block if there are too many, so the order must be by slot.
        if block.slot < self.newest:
            self._held = OrderedDict(sorted(self._held.items()))
        self.newest = max(self.newest, block.slot)
        while len(self._held) > self._blocks_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._held)))
        return True

    def contradict(self, block: Block) -> None:
        """Drop the blocks that *block*, returned by a node, proves to be abandoned by the chain."""
        held = self._held.get(block.slot)
        if held is None or held.block.blockhash != block.blockhash:
            self._drop_between(block)

    def kill(self, slot: Slot) -> None:
        """Drop the block at *slot*, because the server reported that the chain abandoned it."""
        if slot in self._held:
            self._drop(slot)

    def begin_session(self) -> None:
        """Forget which blocks are final, because the server of a new session may differ."""
        self.final = Slot(-1)
        self._session_after = self.newest

    def final_block(self, slot: Slot) -> Block | None:
        """Return the block at *slot* if this session delivered it and it is final, else None."""
        return self.block(slot) if self._session_after < slot <= self.final else None

    def finalize(self, slot: Slot) -> None:
        """Record that the stream has reported *slot* as final."""
        self.final = max(self.final, slot)

    def block(self, slot: Slot) -> Block | None:
        """Return the block at *slot*, or None if it is not stored."""
        held = self._held.get(slot)
        return None if held is None else held.block

    def named_as_parent(self, slot: Slot) -> str | None:
        """Return the hash that the next stored block has for its parent at *slot*.

        Return None if there is no later block, or if its parent is at another slot.
        """
        above = self._above(slot)
        return above.parent_blockhash if above is not None and above.parent_slot == slot else None

    def passes_over(self, slot: Slot) -> bool:
        """Return whether the next stored block above *slot* proves that *slot* was skipped."""
        above = self._above(slot)
        return above is not None and above.parent_slot < slot

    def covers(self, first: Slot, last: Slot) -> list[Slot] | None:
        """Return all slots from *first* to *last* that have a block.

        Return None unless the stored blocks prove that no other slot has one: each of them must
        name the block before it as its parent.
        """
        slots = [slot for slot in self._held if first <= slot <= last]
        if not slots or slots[-1] != last:
            return None
        lowest = Slot(first - 1)
        for slot in slots:
            parent = self._held[slot].block.parent_slot
            if parent > lowest:
                return None
            lowest = slot
        return slots

    def _above(self, slot: Slot) -> Block | None:
        if slot >= self.newest:
            return None
        return min(
            (held.block for at, held in self._held.items() if at > slot),
            key=lambda block: block.slot,
            default=None,
        )

    def _drop_between(self, block: Block) -> None:
        """Drop the blocks that *block* proves to be abandoned.

        These are the blocks between its parent and itself, the block at its own slot, and a block
        at the parent's slot with another hash.
        """
        for slot in [at for at in self._held if block.parent_slot < at <= block.slot]:
            self._drop(slot)
        parent = self._held.get(block.parent_slot)
        if parent is not None and parent.block.blockhash != block.parent_blockhash:
            self._drop(block.parent_slot)

    def _drop(self, slot: Slot) -> None:
        self._bytes -= self._held.pop(slot).size


def _admits(above: Block, block: Block) -> bool:
    """Return whether *block* can be an ancestor of *above*, a block at a higher slot."""
    if above.parent_slot == block.slot:
        return above.parent_blockhash == block.blockhash
    return above.parent_slot > block.slot


SILENT_S: Final = 20.0


class StreamWatch:
    """A check that fails if the stream has delivered no block for SILENT_S seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._block_at_s = clock.monotonic_s()

    def note_block(self) -> None:
        """Record that the stream has delivered a block."""
        self._block_at_s = self._clock.monotonic_s()

    async def expect_blocks(self) -> None:
        """Raise ServiceUnavailable while the stream delivers no blocks."""
        silent_s = self._clock.monotonic_s() - self._block_at_s
        if silent_s > SILENT_S:
            raise ServiceUnavailable(
                f"no server of geyser.urls gave a block for {silent_s:.0f} s, so chain.rpc_url is"
                " asked for all blocks: the lines stream_ended have the answers of the servers"
            )
