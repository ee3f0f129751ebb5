"""Answers of a JSON-RPC node.

The parser skips all fields that decoding does not need, for example logs, which are a third of the
bytes.  Transactions are parsed one at a time during an iteration over the block: keeping the
objects of 1,500 transactions would cost more than parsing them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MethodType
from typing import Annotated, Final, Generic, TypeVar

import msgspec
import structlog

from mintscope.kit.errors import UNPARSABLE
from mintscope.kit.primitives import Signature, Slot
from mintscope.solana.blocks import LOGGED_PROGRAMS
from mintscope.solana.finality_meter import INVALID_PARAMS
from mintscope.solana.transaction import (
    Effects,
    Height,
    Index,
    InnerInstructions,
    Instruction,
    NodeRecord,
    TokenBalance,
    Transaction,
    UnreadableTransaction,
)

log = structlog.get_logger()

T = TypeVar("T")
SlotNumber = Annotated[Slot, msgspec.Meta(ge=0, le=2**53)]


class Absence(StrEnum):
    """The reason why a node returns no block for a slot."""

    SKIPPED = "skipped"
    NOT_READY = "not ready"
    PURGED = "purged"
    REFUSED = "refused"  # the node fails for this block, but answers for others


class ErrorWire(msgspec.Struct, frozen=True):
    """The error in a JSON-RPC answer."""

    code: int
    message: str = ""


class SoftwareWire(msgspec.Struct, frozen=True):
    """The software version of a node."""

    version: str = msgspec.field(name="solana-core", default="")


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """A JSON-RPC answer: a result, an error, or neither."""

    result: T | None = None
    error: ErrorWire | None = None


class AccountWire(msgspec.Struct, frozen=True):
    """An account; *data* is its content as base64 text, followed by the name of the encoding."""

    owner: str
    data: tuple[str, str]


class Context(msgspec.Struct, frozen=True):
    """The slot as of which an answer is valid."""

    slot: SlotNumber


class AccountsWire(msgspec.Struct, frozen=True):
    """Accounts as of one slot; None means that the account does not exist."""

    context: Context
    value: list[AccountWire | None]


class LargeAccountWire(msgspec.Struct, frozen=True):
    """One of the token accounts with the most tokens of a mint."""

    address: str


class LargestWire(msgspec.Struct, frozen=True):
    """The token accounts with the most tokens of a mint."""

    value: list[LargeAccountWire]


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A block without its transactions."""

    blockhash: str
    parent_blockhash: str = msgspec.field(name="previousBlockhash")
    parent_slot: SlotNumber


class BlockWire(Header, frozen=True, rename="camel", kw_only=True):
    """A block with its transactions as raw JSON."""

    block_time: SlotNumber | None = None
    transactions: list[msgspec.Raw]


class LatestWire(msgspec.Struct, frozen=True):
    """The hash of the newest block at a commitment level."""

    blockhash: str


class LatestAnswer(msgspec.Struct, frozen=True):
    """The hash of the newest block, and its slot."""

    context: Context
    value: LatestWire


class CertificateWire(msgspec.Struct, frozen=True):
    """The certificate of the block after which Alpenglow began; its fields are not needed."""


class PerformanceSample(msgspec.Struct, rename="camel"):
    """The number of slots in a period, usually a minute."""

    num_slots: int
    sample_period_secs: float


class Treatment(StrEnum):
    """The way in which a client handles a JSON-RPC error code of a node.

    In any case, a slot whose block must exist but is missing becomes a gap after
    `chain.gap_after_s` if the node delivers other blocks; otherwise ingest waits for the node.
    """

    RETRY = "retry"  # repeat after a pause; if all attempts fail, try later
    NEWER_VERSION = "newer version"  # repeat at once, with a higher maxSupportedTransactionVersion
    SKIPPED = "skipped"  # continue: a later block proves the skip, or the slot is requested again
    NOT_READY = "not ready"  # continue as after SKIPPED
    GAP = "gap"  # record a gap once a later block proves that this slot had a block
    STOP = "stop"  # at the start, stop; later, wait for the operator


class Code(msgspec.Struct, frozen=True):
    """A JSON-RPC error code: its name, the handling of the request, and advice to the operator."""

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
    -32010: Code(
        "KEY_EXCLUDED_FROM_SECONDARY_INDEX",
        Treatment.STOP,
        "it keeps no index of the accounts of this token: choose a node that does",
    ),
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
LARGEST: Final = msgspec.json.Decoder(Answer[LargestWire])
ACCOUNTS: Final = msgspec.json.Decoder(Answer[AccountsWire])
TEXT: Final = msgspec.json.Decoder(Answer[str])
SOFTWARE: Final = msgspec.json.Decoder(Answer[SoftwareWire])
SAMPLES: Final = msgspec.json.Decoder(Answer[list[PerformanceSample]])
HEADER: Final = msgspec.json.Decoder(Answer[Header])
BLOCK: Final = msgspec.json.Decoder(Answer[BlockWire])
VERSION_MAX: Final = 127  # the version of a transaction has seven bits
VERSION_NAMED: Final = re.compile(r"version \((\d{1,3})\)")


class AcceptedVersion:
    """The newest version of transactions that is accepted; it rises if a node requires this."""

    def __init__(self, newest: int) -> None:
        self.newest = newest

    def rise(self, asked: int, message: str) -> bool:
        """Accept newer transactions, after a node refused the request for version *asked*.

        Take the new version from *message*, the node's error, or else the next one.  Return False
        if *asked* is already the highest possible version.

        asked     the highest transaction version that the refused request accepted
        """
        if asked >= VERSION_MAX:
            return False
        named = VERSION_NAMED.search(message)
        version = int(named[1]) if named else 0
        # A message of another form names no version: then try one version after the other.
        newer = version if asked < version <= VERSION_MAX else asked + 1
        # Another request may have raised the version further in the meantime.
        if newer > self.newest:
            self.newest = newer
            log.info("newer_transactions_accepted", max_transaction_version=newer)
        return True


# A transaction without inner instructions has no swap, unless its program shows fills only in the
# log.  Most transactions are short votes without inner instructions: a search finds them without
# parsing.  For long transactions the search costs more than it saves.
NOTHING_CALLED: Final = b'"innerInstructions":[]'
LOGGED: Final = [program.encode() for program in LOGGED_PROGRAMS]
SEARCH_MAX: Final = 4096

# Version 1 (SIMD-0385) has no address tables, and is otherwise like version 0.
VERSIONS: Final = frozenset({None, "legacy", 0, 1})

# The end of the parser's message for a failed transaction: `TransactionMeta.err` must be null.
FAILED: Final = "`$.meta.err`"


class JsonInstruction(Instruction):
    """A call of a program; its data is base58 text."""

    accounts: list[Index]
    data: str
    program_id_index: Index
    stack_height: Height | None = None


class JsonInnerInstructions(InnerInstructions):
    """The inner instructions of one top-level instruction."""

    index: Index
    instructions: list[JsonInstruction]


class LoadedAddresses(NodeRecord):
    """The addresses that a transaction loads from lookup tables."""

    writable: list[str] = msgspec.field(default_factory=list)
    readonly: list[str] = msgspec.field(default_factory=list)


class TransactionMeta(NodeRecord):
    """The outcome of a transaction; the balances before it are parsed on request."""

    err: None = None
    inner_instructions: list[JsonInnerInstructions] | None = None
    loaded_addresses: LoadedAddresses | None = None
    post_token_balances: list[TokenBalance] | None = None
    pre_token_balances: msgspec.Raw = msgspec.Raw(b"null")

    def read_earlier(self) -> Sequence[TokenBalance]:
        """Return the token balances before the transaction; empty if they were not recorded.

        Raises ValueError if the balances cannot be parsed.
        """
        try:
            return _BALANCES.decode(self.pre_token_balances) or ()
        except UNPARSABLE as cause:
            raise ValueError("expected a list of token balances") from cause


class MessageHeader(NodeRecord):
    """The header of a message: the number of signers, which are the first accounts."""

    num_required_signatures: Index = 1


class TransactionMessage(NodeRecord, kw_only=True):
    """The part of a transaction that is signed."""

    account_keys: list[str]
    header: MessageHeader | None = None
    instructions: list[JsonInstruction]


class SignedMessage(NodeRecord):
    """A message and its signatures."""

    message: TransactionMessage
    signatures: Annotated[list[Signature], msgspec.Meta(min_length=1)]


class JsonTransaction(NodeRecord, kw_only=True):
    """A transaction in the result of getBlock, or the result of getTransaction."""

    meta: TransactionMeta | None = None
    transaction: SignedMessage
    version: int | str | None = None


class JsonEffects(Effects):
    """The lamports and the log of a transaction, read from JSON."""

    pre_balances: list[int] = msgspec.field(default_factory=list)
    post_balances: list[int] = msgspec.field(default_factory=list)
    log_messages: list[str] | None = None


class EntryEffects(NodeRecord):
    """A transaction in the result of getBlock, of which only the effects are parsed."""

    meta: JsonEffects


_TRANSACTION: Final = msgspec.json.Decoder(JsonTransaction)
_BALANCES: Final = msgspec.json.Decoder(list[TokenBalance] | None)
_EFFECTS: Final = msgspec.json.Decoder(EntryEffects)


class JsonTransactions(msgspec.Struct, frozen=True):
    """The transactions of one block, each as the JSON in the result of getBlock."""

    entries: Sequence[msgspec.Raw]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]:
        for index, entry in enumerate(self.entries):
            if len(entry) > SEARCH_MAX or may_hold_swap(bytes(entry)):
                read = read_transaction(entry, index)
                if read is not None:
                    yield read
                del read  # frees the memory for the next transaction


def may_hold_swap(entry: bytes) -> bool:
    """Return whether *entry*, a transaction in JSON, may have a swap.

    Return False only if the transaction's list of inner instructions is empty, and it names no
    program whose swaps are only in the log.
    """
    # *entry* is a copy of the bytes: two searches in it are as fast as one regular expression in
    # the raw block.
    if NOTHING_CALLED not in entry:
        return True
    for program in LOGGED:  # noqa: SIM110 - a generator costs more than the search
        if program in entry:
            return True
    return False


def read_effects(entry: bytes | msgspec.Raw) -> Effects:
    """Return the lamports and the log of *entry*, a transaction in JSON.

    Raises ValueError if *entry* has no outcome (`meta`), if the lamports are not lists of numbers,
    or if the log is not a list of texts.
    """
    try:
        return _EFFECTS.decode(entry).meta
    except UNPARSABLE as cause:
        raise ValueError("expected lists of lamports and of log lines") from cause


def read_transaction(
    entry: bytes | msgspec.Raw, index: int
) -> Transaction | UnreadableTransaction | None:
    """Return the transaction at *index* of its block; None if it failed.  Never raises.

    A transaction that cannot be parsed is returned as UnreadableTransaction.
    """
    try:
        parsed = _TRANSACTION.decode(entry)
    except UNPARSABLE as error:
        if str(error).endswith(FAILED):
            return None
        return UnreadableTransaction(index, None, "malformed")
    signed = parsed.transaction
    meta = parsed.meta
    if parsed.version not in VERSIONS:
        return UnreadableTransaction(index, signed.signatures[0], "unknown_version")
    if meta is None:
        return UnreadableTransaction(index, signed.signatures[0], "no_meta")
    message = signed.message
    keys = message.account_keys
    if loaded := meta.loaded_addresses:
        keys += loaded.writable
        keys += loaded.readonly
    return Transaction(
        index,
        signed.signatures[0],
        keys,
        1 if message.header is None else message.header.num_required_signatures,
        message.instructions,
        meta.inner_instructions,
        meta.post_token_balances or (),
        meta.read_earlier,
        MethodType(read_effects, entry),  # faster to create than a `partial`
    )
