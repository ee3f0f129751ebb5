"""What a JSON-RPC node answers, decoded as far as we need it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from mintscope.base.primitives import Slot

T = TypeVar("T")
SlotNumber = Annotated[Slot, msgspec.Meta(ge=0, le=2**53)]


class Absence(StrEnum):
    """Why a node says it has no block at a slot."""

    SKIPPED = "skipped"
    NOT_READY = "not ready"
    PURGED = "purged"


class ErrorWire(msgspec.Struct, frozen=True):
    """A refusal."""

    code: int
    message: str = ""


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """One answer: a result, an error, or neither."""

    result: T | None = None
    error: ErrorWire | None = None


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A block without its transactions."""

    blockhash: str
    parent_blockhash: str = msgspec.field(name="previousBlockhash")
    parent_slot: SlotNumber


class BlockWire(Header, frozen=True, rename="camel", kw_only=True):
    """getBlock with every transaction as JSON."""

    block_time: SlotNumber | None = None
    transactions: list[msgspec.Raw]


ABSENCES: Final[Mapping[int, Absence]] = {
    -32001: Absence.PURGED,
    -32004: Absence.NOT_READY,
    -32007: Absence.SKIPPED,
    -32009: Absence.SKIPPED,
    -32014: Absence.NOT_READY,
}
REFUSALS: Final[Mapping[int, str]] = {
    -32011: "it keeps no transaction history: choose a node that does",
    -32015: "a block holds a newer kind of transaction: raise chain.max_transaction_version",
    -32601: "it does not offer this method: choose a provider that does",
    -32602: "it does not accept these parameters: choose another provider",
}
SLOT: Final = msgspec.json.Decoder(Answer[SlotNumber])
SLOTS: Final = msgspec.json.Decoder(Answer[list[SlotNumber]])
TEXT: Final = msgspec.json.Decoder(Answer[str])
HEADER: Final = msgspec.json.Decoder(Answer[Header])
BLOCK: Final = msgspec.json.Decoder(Answer[BlockWire])
