"""Blocks from the messages of one session of a stream.  No I/O."""

from collections.abc import Sequence
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.primitives import Slot, UnixS
from mintscope.base.solana import Block
from mintscope.base.yellowstone import geyser_pb2
from mintscope.edges.sources.geyser.shelf import Shelf
from mintscope.edges.sources.geyser.transactions import ProtobufTransactions

log = structlog.get_logger()

FUTURE_S_MAX: Final = 60.0
PARTIAL_SLOTS_MAX: Final = 64
PARTIAL_BYTES_MAX: Final = 256 * 1024 * 1024

Info = geyser_pb2.SubscribeUpdateTransactionInfo
Head = geyser_pb2.SubscribeUpdateBlock | geyser_pb2.SubscribeUpdateBlockMeta


class Assembler:
    """Puts what a session sends on the *shelf*.

    is_joined   the session sends single transactions and block metas, not blocks: a slot is whole
                once its meta has come and a later slot has begun; the first slot of a session may
                have begun before it, and is left to the repair, and so are the oldest of too
                many slots, or bytes, that are not whole
    """

    def __init__(self, shelf: Shelf, clock: Clock, *, is_joined: bool) -> None:
        self._shelf = shelf
        self._clock = clock
        self.is_joined = is_joined
        self._parts: dict[Slot, dict[int, Info]] = {}
        self._metas: dict[Slot, geyser_pb2.SubscribeUpdateBlockMeta] = {}
        self._bytes = 0
        self._closed = Slot(-1)

    def take(self, update: geyser_pb2.SubscribeUpdate) -> bool:
        """Take one message; return whether a block came of it."""
        match update.WhichOneof("update_oneof"):
            case "block":
                block = update.block
                return self._put(block, block.transactions, update.ByteSize())
            case "slot":
                return self._take_slot(update.slot)
            case "transaction":
                slot, info = Slot(update.transaction.slot), update.transaction.transaction
                if self._is_open(slot):
                    self._parts.setdefault(slot, {})[info.index] = info
                    self._bytes += _size(info)
                    self._make_room()
                return self._close_below(slot)
            case "block_meta":
                slot = Slot(update.block_meta.slot)
                if self._is_open(slot):
                    self._metas[slot] = update.block_meta
                    self._make_room()
                return self._close_below(slot)
            case _:
                return False

    def _take_slot(self, said: geyser_pb2.SubscribeUpdateSlot) -> bool:
        slot = Slot(said.slot)
        if said.status == geyser_pb2.SLOT_DEAD:
            self._take_parts(slot)
            self._metas.pop(slot, None)
            self._shelf.kill(slot)
        elif said.status == geyser_pb2.SLOT_FINALIZED:
            self._shelf.finalize(slot)
        return False

    def _is_open(self, slot: Slot) -> bool:
        """Tell whether *slot* is not whole yet."""
        if self._closed < 0:
            self._closed = slot
        return slot > self._closed

    def _make_room(self) -> None:
        """Forget the oldest of too much that never is whole: what comes of it yet is no block."""
        while (
            len(self._parts.keys() | self._metas.keys()) > PARTIAL_SLOTS_MAX
            or self._bytes > PARTIAL_BYTES_MAX
        ):
            oldest = min(self._parts.keys() | self._metas.keys())
            self._take_parts(oldest)
            self._metas.pop(oldest, None)
            self._closed = max(self._closed, oldest)

    def _take_parts(self, slot: Slot) -> list[Info]:
        """Return the transactions of *slot* in their order, and hold them no longer."""
        parts = [part for _, part in sorted(self._parts.pop(slot, {}).items())]
        self._bytes = self._bytes - sum(map(_size, parts)) if self._parts else 0
        return parts

    def _close_below(self, slot: Slot) -> bool:
        """Put what is whole now that *slot* has begun."""
        done = sorted(each for each in self._metas if each < slot)
        for each in done:
            meta = self._metas.pop(each)
            parts = self._take_parts(each)
            size = meta.ByteSize() + sum(map(_size, parts))
            self._closed = each
            self._put(meta, parts, size)
        return bool(done)

    def _put(self, head: Head, parts: Sequence[Info], size: int) -> bool:
        if head.parent_slot >= head.slot > 0:
            log.warning("stream_block_unusable", slot=head.slot, parent_slot=head.parent_slot)
            return False
        block = Block(
            slot=Slot(head.slot),
            parent_slot=Slot(head.parent_slot),
            blockhash=head.blockhash,
            parent_blockhash=head.parent_blockhash,
            time=self._believable(head),
            transactions=ProtobufTransactions(parts),
            size=size,
        )
        return self._shelf.add(block, size)

    def _believable(self, head: Head) -> UnixS | None:
        """Return the time of the block, or None for one in the future, which stops the market."""
        if not head.HasField("block_time"):
            return None
        time = head.block_time.timestamp
        if time > self._clock.now() / 1000 + FUTURE_S_MAX:
            log.warning("block_from_the_future", slot=head.slot, block_time=time)
            return None
        return UnixS(time)


def _size(part: Info) -> int:
    return part.ByteSize()
