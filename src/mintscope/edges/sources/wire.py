"""Answers of a JSON-RPC node, decoded as far as we need them."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Generic, TypeVar

import msgspec
import structlog

from mintscope.base.finality import INVALID_PARAMS
from mintscope.base.primitives import Slot

log = structlog.get_logger()

T = TypeVar("T")
SlotNumber = Annotated[Slot, msgspec.Meta(ge=0, le=2**53)]


class Absence(StrEnum):
    """Why a node says it has no block at a slot."""

    SKIPPED = "skipped"
    NOT_READY = "not ready"
    PURGED = "purged"
    REFUSED = "refused"  # it fails at this block, and gives others


class ErrorWire(msgspec.Struct, frozen=True):
    """A refusal."""

    code: int
    message: str = ""


class SoftwareWire(msgspec.Struct, frozen=True):
    """The software of a node."""

    version: str = msgspec.field(name="solana-core", default="")


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """One answer: a result, an error, or neither."""

    result: T | None = None
    error: ErrorWire | None = None


class AccountWire(msgspec.Struct, frozen=True):
    """An account; *data* is base64 and the word for it."""

    owner: str
    data: tuple[str, str]


class Context(msgspec.Struct, frozen=True):
    """The context of an answer about state."""

    slot: SlotNumber


class AccountsWire(msgspec.Struct, frozen=True):
    """Accounts as of one slot, None where there is none."""

    context: Context
    value: list[AccountWire | None]


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A block without its transactions."""

    blockhash: str
    parent_blockhash: str = msgspec.field(name="previousBlockhash")
    parent_slot: SlotNumber


class BlockWire(Header, frozen=True, rename="camel", kw_only=True):
    """getBlock with every transaction as JSON."""

    block_time: SlotNumber | None = None
    transactions: list[msgspec.Raw]


class LatestWire(msgspec.Struct, frozen=True):
    """The hash of the newest block at a commitment."""

    blockhash: str


class LatestAnswer(msgspec.Struct, frozen=True):
    """It, and the slot of that block."""

    context: Context
    value: LatestWire


class CertificateWire(msgspec.Struct, frozen=True):
    """Of the block after which Alpenglow began; what it says is not needed."""


class PerformanceSample(msgspec.Struct, rename="camel"):
    """How many slots the chain made in some seconds, a minute as a rule."""

    num_slots: int
    sample_period_secs: float


class Treatment(StrEnum):
    """The treatment of a request that a code answers.

    A slot that stays without its block for `chain.gap_after_s` becomes a gap, whatever the code,
    if the node gives other blocks; if it gives none, it is waited for.
    """

    RETRY = "retry"  # after a pause, then later
    NEWER_VERSION = "newer version"  # at once, with a higher maxSupportedTransactionVersion
    SKIPPED = "skipped"  # go on: the parent of a later block proves it, or it is asked again
    NOT_READY = "not ready"  # the same
    GAP = "gap"  # once a later block proves that there was one
    STOP = "stop"  # at the start; later it is waited for: only an operator can help


class Code(msgspec.Struct, frozen=True):
    """An error code of JSON-RPC: its name, what becomes of the request, what the operator does."""

    name: str
    treatment: Treatment
    advice: str = ""


UNKNOWN_CODE: Final = Code("not of this table", Treatment.RETRY)
CODES: Final[Mapping[int, Code]] = {
    -32001: Code("BLOCK_CLEANED_UP", Treatment.GAP),
    -32002: Code("SEND_TRANSACTION_PREFLIGHT_FAILURE", Treatment.RETRY),
    -32003: Code("TRANSACTION_SIGNATURE_VERIFICATION_FAILURE", Treatment.RETRY),
    -32004: Code("BLOCK_NOT_AVAILABLE", Treatment.NOT_READY),
    -32005: Code("NODE_UNHEALTHY", Treatment.RETRY),
    -32006: Code("TRANSACTION_PRECOMPILE_VERIFICATION_FAILURE", Treatment.RETRY),
    -32007: Code("SLOT_SKIPPED", Treatment.SKIPPED),
    -32008: Code("NO_SNAPSHOT", Treatment.RETRY),
    -32009: Code("LONG_TERM_STORAGE_SLOT_SKIPPED", Treatment.SKIPPED),
    -32010: Code("KEY_EXCLUDED_FROM_SECONDARY_INDEX", Treatment.RETRY),
    -32011: Code(
        "TRANSACTION_HISTORY_NOT_AVAILABLE",
        Treatment.STOP,
        "it keeps no transaction history: choose a node that does",
    ),
    -32012: Code("SCAN_ERROR", Treatment.RETRY),
    -32013: Code("TRANSACTION_SIGNATURE_LEN_MISMATCH", Treatment.RETRY),
    -32014: Code("BLOCK_STATUS_NOT_AVAILABLE_YET", Treatment.NOT_READY),
    -32015: Code(
        "UNSUPPORTED_TRANSACTION_VERSION",
        Treatment.NEWER_VERSION,
        "it withholds a block for a transaction in it, whatever version we accept",
    ),
    -32016: Code("MIN_CONTEXT_SLOT_NOT_REACHED", Treatment.RETRY),
    -32017: Code("EPOCH_REWARDS_PERIOD_ACTIVE", Treatment.RETRY),
    -32018: Code("SLOT_NOT_EPOCH_BOUNDARY", Treatment.RETRY),
    -32019: Code("LONG_TERM_STORAGE_UNREACHABLE", Treatment.RETRY),
    -32020: Code("FILTER_TRANSACTION_NOT_FOUND", Treatment.RETRY),
    -32021: Code("NO_SLOT_HISTORY", Treatment.RETRY),
    -32600: Code(
        "INVALID_REQUEST", Treatment.STOP, "it cannot read our request: choose another provider"
    ),
    -32601: Code(
        "METHOD_NOT_FOUND",
        Treatment.STOP,
        "it does not offer this method: choose a provider that does",
    ),
    INVALID_PARAMS: Code(
        "INVALID_PARAMS",
        Treatment.STOP,
        "it does not accept these parameters: choose another provider",
    ),
    -32603: Code("INTERNAL_ERROR", Treatment.RETRY),
    -32700: Code(
        "PARSE_ERROR", Treatment.STOP, "it cannot read our request: choose another provider"
    ),
}
ABSENCES: Final[Mapping[Treatment, Absence]] = {
    Treatment.GAP: Absence.PURGED,
    Treatment.NOT_READY: Absence.NOT_READY,
    Treatment.SKIPPED: Absence.SKIPPED,
}
LATEST: Final = msgspec.json.Decoder(Answer[LatestAnswer])
CERTIFICATE: Final = msgspec.json.Decoder(Answer[CertificateWire])
SLOT: Final = msgspec.json.Decoder(Answer[SlotNumber])
SLOTS: Final = msgspec.json.Decoder(Answer[list[SlotNumber]])
ACCOUNTS: Final = msgspec.json.Decoder(Answer[AccountsWire])
TEXT: Final = msgspec.json.Decoder(Answer[str])
SOFTWARE: Final = msgspec.json.Decoder(Answer[SoftwareWire])
SAMPLES: Final = msgspec.json.Decoder(Answer[list[PerformanceSample]])
HEADER: Final = msgspec.json.Decoder(Answer[Header])
BLOCK: Final = msgspec.json.Decoder(Answer[BlockWire])
VERSION_MAX: Final = 127  # the version of a transaction has seven bits
VERSION_NAMED: Final = re.compile(r"version \((\d{1,3})\)")


class AcceptedVersion:
    """Starts at *newest* and rises as the node asks: it withholds whole blocks for one above it."""

    def __init__(self, newest: int) -> None:
        self.newest = newest

    def rise(self, asked: int, message: str) -> bool:
        """Accept more than *asked*, which was refused with *message*; False if there is no more."""
        if asked >= VERSION_MAX:
            return False
        named = VERSION_NAMED.search(message)
        version = int(named[1]) if named else 0
        newer = version if asked < version <= VERSION_MAX else asked + 1
        if newer > self.newest:
            self.newest = newer
            log.info("newer_transactions_accepted", max_transaction_version=newer)
        return True
