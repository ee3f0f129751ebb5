"""The messages of one slot, by bank.  No I/O.

A bank is one execution of a slot by the node that streams; its id means nothing to another node.
A slot has several banks if, for example, its leader begins the block again on another parent.
At most one of them is ever confirmed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mintscope.base.yellowstone import geyser_pb2

Info = geyser_pb2.SubscribeUpdateTransactionInfo
Meta = geyser_pb2.SubscribeUpdateBlockMeta

# The bank_id of messages of a server that does not name banks; only the genesis bank has this id.
UNNAMED: Final = 0
# Far more banks than a node makes of a slot.
BANKS_MAX: Final = 64


@dataclass(slots=True)
class Bank:
    """The transactions of one bank by index, and the head of its block."""

    parts: dict[int, Info] = field(default_factory=dict)
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """The bank of a slot that becomes its block."""

    bank_id: int
    meta: Meta
    parts: Sequence[Info]


@dataclass(slots=True)
class Room:
    """The bytes of transactions that all slots hold together."""

    taken: int = 0


class Banks:
    """The banks of one slot; what they hold counts in *room*."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._live: dict[int, Bank] = {}
        self._dropped: set[int] = set()
        self._confirmed: int | None = None
        self._is_mixed = False

    @property
    def is_undecided(self) -> bool:
        """Whether several banks are held, one with its head at least, and none is confirmed."""
        heads = [bank for bank in self._live.values() if bank.meta is not None]
        return self._confirmed is None and len(self._live) > 1 and bool(heads)

    @property
    def is_empty(self) -> bool:
        """Whether no transaction and no head is held."""
        return not any(bank.parts or bank.meta for bank in self._live.values())

    def note(self, bank_id: int) -> Bank | None:
        """Return the bank, which is held from now on; None if it was dropped."""
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
        """Hold a transaction of the bank; one that is held already is replaced."""
        bank = self.note(bank_id)
        if bank is not None:
            before = bank.parts.get(info.index)
            if before is not None and before.signature != info.signature:
                self._mix()  # two banks with one name
                return
            self._room.taken += info.ByteSize() - (0 if before is None else before.ByteSize())
            bank.parts[info.index] = info

    def finish(self, bank_id: int, meta: Meta) -> None:
        """Hold the head of the bank's block."""
        bank = self.note(bank_id)
        if bank is not None:
            bank.meta = meta

    def confirm(self, bank_id: int) -> None:
        """Drop every other bank: at most one of a slot is ever confirmed."""
        self._confirmed = bank_id
        for other in self._live.keys() - {bank_id, UNNAMED}:
            self._drop(other)

    def choose(self, blockhash: str) -> None:
        """Confirm the bank whose block is *blockhash*, if it is held and none is confirmed."""
        if self._confirmed is not None:
            return
        for bank_id, bank in self._live.items():
            if bank_id != UNNAMED and bank.meta is not None and bank.meta.blockhash == blockhash:
                self.confirm(bank_id)
                return

    def _mix(self) -> None:
        """Give the slot up: its messages cannot be assigned to banks."""
        self.clear()
        self._is_mixed = True

    def clear(self) -> None:
        """Drop every bank that is held."""
        for bank_id in [*self._live]:
            self._drop(bank_id)

    def kill(self, bank_id: int | None) -> None:
        """Drop the bank; None: every bank that is held."""
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
        """Return the confirmed bank, or the only one; None while its head is missing.

        None, too, while several banks are held and none is confirmed, and if messages without a
        bank came beside those of several.
        """
        named = self._live.keys() - {UNNAMED}
        if self._is_mixed or (self._confirmed is None and len(named) > 1):
            return None
        bank_id = self._confirmed if self._confirmed is not None else next(iter(named), UNNAMED)
        if bank_id in self._dropped:
            return None  # what was held of it is gone
        bank = self._live.get(bank_id, Bank())
        parts = bank.parts
        meta = bank.meta
        unnamed = self._live.get(UNNAMED, Bank())
        if bank_id != UNNAMED and (unnamed.parts or unnamed.meta is not None):
            if self._dropped:
                return None  # they may belong to a dropped bank
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
