"""Blocks from the messages of a gRPC stream.

A bank is one execution of a slot by the node that sends the stream; the id of a bank has no meaning
for other nodes.  A slot has several banks if, for example, its leader restarts the block on another
parent.  At most one bank of a slot is confirmed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block
from mintscope.solana.rpc import plausible_time
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope.solana.yellowstone.transactions import ProtobufTransactions

Info = geyser_pb2.SubscribeUpdateTransactionInfo
Meta = geyser_pb2.SubscribeUpdateBlockMeta

# The bank_id in messages of a server that sends no bank ids; only the genesis bank has this id.
UNNAMED: Final = 0
# A limit of banks in a slot; no real slot has nearly as many.
BANKS_MAX: Final = 64


@dataclass(slots=True)
class Bank:
    """The parts of one bank that have arrived.

    parts   the transactions, by their index in the block
    meta    the block meta; None until it arrives
    """

    parts: dict[int, Info] = field(default_factory=dict)
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A bank with its block meta and all its transactions."""

    bank_id: int
    meta: Meta
    parts: Sequence[Info]


@dataclass(slots=True)
class Room:
    """Counts the bytes of the transactions in memory, over all slots."""

    taken: int = 0


class Banks:
    """The banks of one slot, while it is not known which of them is its block.

    room   counts the bytes of the transactions of all slots
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._live: dict[int, Bank] = {}
        self._dropped: set[int] = set()
        self._confirmed: int | None = None
        self._is_mixed = False

    @property
    def is_undecided(self) -> bool:
        """Whether none of several banks is confirmed yet, and at least one has its block meta."""
        heads = [bank for bank in self._live.values() if bank.meta is not None]
        return self._confirmed is None and len(self._live) > 1 and bool(heads)

    @property
    def is_empty(self) -> bool:
        """Whether the slot has neither a transaction nor a block meta."""
        return not any(bank.parts or bank.meta for bank in self._live.values())

    def note(self, bank_id: int) -> Bank | None:
        """Return the bank *bank_id* of this slot, which is added if it is new.

        Return None if its messages must be ignored: another bank is confirmed, or there are too
        many.
        """
        if self._is_mixed or bank_id in self._dropped:
            return None
        if bank_id not in self._live and len(self._live) + len(self._dropped) >= BANKS_MAX:
            self._mix()
            return None
        if self._confirmed is not None and bank_id not in {self._confirmed, UNNAMED}:
            self._dropped.add(bank_id)
            return None
        return self._live.setdefault(bank_id, Bank())

    def take(self, bank_id: int, info: Info) -> None:
        """Store the transaction *info* of the bank, replacing an earlier copy."""
        bank = self.note(bank_id)
        if bank is not None:
            before = bank.parts.get(info.index)
            if before is not None and before.signature != info.signature:
                self._mix()  # messages of two banks have the same id
                return
            self._room.taken += info.ByteSize() - (0 if before is None else before.ByteSize())
            bank.parts[info.index] = info

    def finish(self, bank_id: int, meta: Meta) -> None:
        """Store the block meta of the bank."""
        bank = self.note(bank_id)
        if bank is not None:
            bank.meta = meta

    def confirm(self, bank_id: int) -> None:
        """Record that the bank is confirmed, and drop every other bank that has an id."""
        self._confirmed = bank_id
        for other in self._live.keys() - {bank_id, UNNAMED}:
            self._drop(other)

    def choose(self, blockhash: str) -> None:
        """Confirm the bank whose block is *blockhash*, if it exists and no bank is confirmed."""
        if self._confirmed is not None:
            return
        for bank_id, bank in self._live.items():
            if bank_id != UNNAMED and bank.meta is not None and bank.meta.blockhash == blockhash:
                self.confirm(bank_id)
                return

    def _mix(self) -> None:
        """Drop all banks, and ignore later messages, because they cannot be assigned to a bank."""
        self.clear()
        self._is_mixed = True

    def clear(self) -> None:
        """Drop all banks of the slot, with their transactions."""
        for bank_id in [*self._live]:
            self._drop(bank_id)

    def kill(self, bank_id: int | None) -> None:
        """Drop the bank, which the chain abandoned, or every bank if *bank_id* is None."""
        for each in [*self._live] if bank_id is None else [bank_id]:
            self._drop(each)
        if bank_id is None or bank_id == self._confirmed:
            self._confirmed = None

    def _drop(self, bank_id: int) -> None:
        bank = self._live.pop(bank_id, None)
        if bank is not None:
            self._room.taken -= sum(part.ByteSize() for part in bank.parts.values())
        if bank_id != UNNAMED:
            self._dropped.add(bank_id)

    def whole(self) -> Whole | None:
        """Return the bank that is the block of the slot, with all its transactions.

        This is the confirmed bank, or else the only bank; messages without a bank id count as its
        own.  Return None before its block meta has arrived, if several banks have an id and no bank
        is confirmed, if the bank was dropped, or if messages of several banks may be mixed.
        """
        named = self._live.keys() - {UNNAMED}
        if self._is_mixed or (self._confirmed is None and len(named) > 1):
            return None
        bank_id = self._confirmed if self._confirmed is not None else next(iter(named), UNNAMED)
        if bank_id in self._dropped:
            return None  # the messages of this bank were dropped
        bank = self._live.get(bank_id, Bank())
        parts = bank.parts
        meta = bank.meta
        unnamed = self._live.get(UNNAMED, Bank())
        if bank_id != UNNAMED and (unnamed.parts or unnamed.meta is not None):
            if self._dropped:
                return None  # the messages without id may belong to a dropped bank
            if any(
                parts[index].signature != unnamed.parts[index].signature
                for index in parts.keys() & unnamed.parts.keys()
            ):
                return None
            parts = unnamed.parts | parts
            meta = meta or unnamed.meta
        if meta is None:
            return None
        return Whole(bank_id, meta, [part for _, part in sorted(parts.items())])


log = structlog.get_logger()

PARTIAL_SLOTS_MAX: Final = 64
PARTIAL_BYTES_MAX: Final = 256 * 1024 * 1024
NAMED_SLOTS_MAX: Final = 1_024  # maximum number of slots with a known bank
GIVEN_MAX: Final = 1_024  # maximum number of slots whose buffered or confirmed bank is known

CONFIRMING: Final = frozenset({geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED})
# Messages with other statuses may have no bank id.
STATUSES_OF_BANKS: Final = CONFIRMING | {geyser_pb2.SLOT_CREATED_BANK, geyser_pb2.SLOT_PROCESSED}

Head = geyser_pb2.SubscribeUpdateBlock | geyser_pb2.SubscribeUpdateBlockMeta


class Assembler:
    """Builds blocks from the messages of one gRPC session, and adds them to a block buffer.

    is_joined   whether the session sends single transactions and block metas instead of blocks.  A
                slot is then complete when its meta has arrived and a later slot has begun.  If the
                slot has several banks, one must also be confirmed by a slot status, or by the
                parent hash of a later block.  Not built are the first slot, which may have begun
                before the session, and the oldest slots if too many are incomplete: a JSON-RPC node
                delivers them (`StreamedNode`)
    """

    def __init__(self, buffer: BlockBuffer, clock: Clock, *, is_joined: bool) -> None:
        self._buffer = buffer
        self._clock = clock
        self.is_joined = is_joined
        self._slots: dict[Slot, Banks] = {}
        self._given: OrderedDict[Slot, int] = OrderedDict()  # the buffered or confirmed bank
        self._room = Room()
        self._closed = Slot(-1)  # no new banks are accepted up to this slot
        self._begun = Slot(-1)  # the newest slot with a transaction or a block meta

    def take(self, update: geyser_pb2.SubscribeUpdate) -> bool:
        """Process one message of the gRPC session; return whether it completed a block."""
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
                # Only the first message of a new slot can complete an earlier slot.
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
            self._buffer.finalize(slot)
        if bank_id is None or said.status not in STATUSES_OF_BANKS:
            return False
        if said.status in CONFIRMING:
            given = self._given.get(slot, bank_id)
            if given not in {bank_id, UNNAMED}:
                self._buffer.kill(slot)  # the buffered block is of another bank
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
        """Drop the bank *bank_id* of *slot*, which the chain abandoned; None: all its banks."""
        # Unknown banks are recorded as dropped too, so that their later messages are ignored.
        banks = self._banks(slot) if self.is_joined else None
        if banks is not None:
            banks.kill(bank_id)
        # Before a confirmation, a block without a bank id may be of the dead bank.
        if bank_id is None or self._given.get(slot, bank_id) in {bank_id, UNNAMED}:
            self._given.pop(slot, None)
            self._buffer.kill(slot)

    def _remember(self, slot: Slot, bank_id: int) -> None:
        self._given[slot] = bank_id
        while len(self._given) > GIVEN_MAX:
            self._given.popitem(last=False)

    def _open(self, slot: Slot) -> Banks | None:
        """Return the banks of *slot*; None if its block is in the buffer or will not be built.

        The first slot of the session and all older slots are not built.
        """
        if self._closed < 0:
            self._closed = slot
            for each in [each for each in self._slots if each <= slot]:
                self._forget(each)
        return self._banks(slot)

    def _banks(self, slot: Slot) -> Banks | None:
        """Return the banks of *slot*; None if its block is in the buffer or will not be built."""
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
        """Drop the oldest incomplete slots while there are too many slots or bytes."""
        if len(self._slots) <= PARTIAL_SLOTS_MAX and self._room.taken <= PARTIAL_BYTES_MAX:
            return
        held = sorted(slot for slot, banks in self._slots.items() if not banks.is_empty)
        while held and (len(held) > PARTIAL_SLOTS_MAX or self._room.taken > PARTIAL_BYTES_MAX):
            self._forget(held.pop(0))

    def _begin(self, slot: Slot) -> bool:
        """Record that *slot* has begun, and buffer complete blocks.

        Return whether there was a complete block.
        """
        self._begun = max(self._begun, slot)
        return self._close()

    def _close(self) -> bool:
        """Add the complete blocks to the buffer; return whether there was one.

        A block can only be complete if a later slot has begun.
        """
        whole: list[Whole] = []
        # Descending, because the parent hash of a block confirms a bank of an earlier slot.
        for slot in sorted((each for each in self._slots if each < self._begun), reverse=True):
            banks = self._slots[slot]
            if banks.is_undecided and (named := self._buffer.named_as_parent(slot)) is not None:
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
            # Empty slots below a buffered one were skipped, or their messages come too late.
            closed = [slot for slot in self._slots if slot <= self._closed]
            for slot in closed:
                if self._slots[slot].is_empty:
                    self._forget(slot)
        return bool(whole)

    def _choose(self, slot: Slot, blockhash: str) -> None:
        if slot in self._slots:
            self._slots[slot].choose(blockhash)

    def _put(self, head: Head, parts: Sequence[Info], size: int) -> bool:
        if head.parent_slot >= head.slot > 0:
            log.warning("stream_block_unusable", slot=head.slot, parent_slot=head.parent_slot)
            return False
        time = head.block_time.timestamp if head.HasField("block_time") else None
        block = Block(
            slot=Slot(head.slot),
            parent_slot=Slot(head.parent_slot),
            blockhash=head.blockhash,
            parent_blockhash=head.parent_blockhash,
            time=plausible_time(Slot(head.slot), time, self._clock),
            transactions=ProtobufTransactions(parts),
            size=size,
        )
        return self._buffer.add(block, size)
