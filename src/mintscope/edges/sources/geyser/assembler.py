"""Blocks from the messages of one session of a stream.  No I/O."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.primitives import Slot, UnixS
from mintscope.base.solana import Block
from mintscope.base.yellowstone import geyser_pb2
from mintscope.edges.sources.geyser.banks import UNNAMED, Banks, Info, Room, Whole
from mintscope.edges.sources.geyser.shelf import Shelf
from mintscope.edges.sources.geyser.transactions import ProtobufTransactions

log = structlog.get_logger()

FUTURE_S_MAX: Final = 60.0
PARTIAL_SLOTS_MAX: Final = 64
PARTIAL_BYTES_MAX: Final = 256 * 1024 * 1024
NAMED_SLOTS_MAX: Final = 1_024  # slots of which at least one bank was named
GIVEN_MAX: Final = 1_024

CONFIRMING: Final = frozenset({geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED})
# Other statuses may name no bank.
STATUSES_OF_BANKS: Final = CONFIRMING | {geyser_pb2.SLOT_CREATED_BANK, geyser_pb2.SLOT_PROCESSED}

Head = geyser_pb2.SubscribeUpdateBlock | geyser_pb2.SubscribeUpdateBlockMeta


class Assembler:
    """Puts what a session sends on the *shelf*.

    is_joined   the session sends single transactions and block metas, not blocks: a slot is whole
                once its meta has come, a later slot has begun, and of several banks one is
                confirmed, by a slot's status or by the parent hash of a later block; the first slot
                of a session may have begun before it, and is left to the repair, and so are the
                oldest of too many slots, or bytes, that are not whole
    """

    def __init__(self, shelf: Shelf, clock: Clock, *, is_joined: bool) -> None:
        self._shelf = shelf
        self._clock = clock
        self.is_joined = is_joined
        self._slots: dict[Slot, Banks] = {}
        self._given: OrderedDict[Slot, int] = OrderedDict()
        self._room = Room()
        self._closed = Slot(-1)
        self._begun = Slot(-1)

    def take(self, update: geyser_pb2.SubscribeUpdate) -> bool:
        """Take one message; return whether a block came of it."""
        match update.WhichOneof("update_oneof"):
            case "block":
                block = update.block
                return self._put(block, block.transactions, update.ByteSize())
            case "slot":
                return self._take_slot(update.slot)
            case "transaction":
                part = update.transaction
                banks = self._open(Slot(part.slot))
                if banks is not None:
                    banks.take(part.bank_id, part.transaction)
                    self._make_room()
                # Only a slot that begins makes another whole.
                return part.slot > self._begun and self._begin(Slot(part.slot))
            case "block_meta":
                meta = update.block_meta
                banks = self._open(Slot(meta.slot))
                if banks is not None:
                    banks.finish(meta.bank_id, meta)
                    self._make_room()
                return self._begin(Slot(meta.slot))
            case _:
                return False

    def _take_slot(self, said: geyser_pb2.SubscribeUpdateSlot) -> bool:
        slot = Slot(said.slot)
        bank_id = said.bank_id or None
        if said.status == geyser_pb2.SLOT_DEAD:
            self._kill(slot, bank_id)
            return False
        if said.status == geyser_pb2.SLOT_FINALIZED:
            self._shelf.finalize(slot)
        if bank_id is None or said.status not in STATUSES_OF_BANKS:
            return False
        if said.status in CONFIRMING:
            given = self._given.get(slot, bank_id)
            if given not in {bank_id, UNNAMED}:
                self._shelf.kill(slot)  # another bank, the only one at that time
            self._remember(slot, bank_id)
        banks = self._banks(slot) if self.is_joined else None
        if banks is None:
            return False
        if said.status in CONFIRMING:
            banks.confirm(bank_id)
            return self._close()
        banks.note(bank_id)
        return False

    def _kill(self, slot: Slot, bank_id: int | None) -> None:
        """Drop the bank of *slot* that died; None: every bank of it."""
        # A bank that is not held yet is noted, too: its later messages are not taken.
        banks = self._banks(slot) if self.is_joined else None
        if banks is not None:
            banks.kill(bank_id)
        # A whole block names no bank: until one is confirmed, it may be the one that died.
        if bank_id is None or self._given.get(slot, bank_id) in {bank_id, UNNAMED}:
            self._given.pop(slot, None)
            self._shelf.kill(slot)

    def _remember(self, slot: Slot, bank_id: int) -> None:
        """Note the bank of *slot* that is on the shelf or is confirmed."""
        self._given[slot] = bank_id
        while len(self._given) > GIVEN_MAX:
            self._given.popitem(last=False)

    def _open(self, slot: Slot) -> Banks | None:
        """Return the banks of *slot* as `_banks` does; the first slot of a session is closed."""
        if self._closed < 0:
            self._closed = slot
            for each in [each for each in self._slots if each <= slot]:
                self._forget(each)
        return self._banks(slot)

    def _banks(self, slot: Slot) -> Banks | None:
        """Return the banks of *slot*; None if it is on the shelf or left to the repair."""
        if slot <= self._closed and slot not in self._slots:
            return None
        self._slots.setdefault(slot, Banks(self._room))
        while len(self._slots) > NAMED_SLOTS_MAX:
            self._forget(min(self._slots))
        return self._slots.get(slot)

    def _forget(self, slot: Slot) -> None:
        self._slots.pop(slot).clear()
        self._closed = max(self._closed, slot)

    def _make_room(self) -> None:
        """Close the oldest slots that are not whole while they are too many, or too large."""
        if len(self._slots) <= PARTIAL_SLOTS_MAX and self._room.taken <= PARTIAL_BYTES_MAX:
            return
        held = sorted(slot for slot, banks in self._slots.items() if not banks.is_empty)
        while held and (len(held) > PARTIAL_SLOTS_MAX or self._room.taken > PARTIAL_BYTES_MAX):
            self._forget(held.pop(0))

    def _begin(self, slot: Slot) -> bool:
        """Note that *slot* has begun, and put what is whole now."""
        self._begun = max(self._begun, slot)
        return self._close()

    def _close(self) -> bool:
        """Put every whole slot below the newest that has begun; return whether there was one."""
        whole: list[Whole] = []
        for slot in sorted((each for each in self._slots if each < self._begun), reverse=True):
            banks = self._slots[slot]
            if banks.is_undecided and (named := self._shelf.named_as_parent(slot)) is not None:
                self._choose(slot, named)
            one = banks.whole()
            if one is None:
                continue
            whole.append(one)
            self._choose(Slot(one.meta.parent_slot), one.meta.parent_blockhash)
        for one in reversed(whole):
            slot = Slot(one.meta.slot)
            self._forget(slot)
            self._remember(slot, one.bank_id)
            size = one.meta.ByteSize() + sum(part.ByteSize() for part in one.parts)
            self._put(one.meta, one.parts, size)
        if whole:
            # Slots below with named banks and no messages were skipped, or came too late.
            closed = [slot for slot in self._slots if slot <= self._closed]
            for slot in closed:
                if self._slots[slot].is_empty:
                    self._forget(slot)
        return bool(whole)

    def _choose(self, slot: Slot, blockhash: str) -> None:
        """Confirm the bank of *slot* whose block is *blockhash*, unless one is confirmed."""
        if slot in self._slots:
            self._slots[slot].choose(blockhash)

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
