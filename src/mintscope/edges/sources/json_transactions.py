"""Transactions from the JSON of getBlock and getTransaction (encoding "json").

Only the fields that decoding needs are built; the parser skips the rest, logs (a third of the
bytes) above all.  A block is parsed while it is iterated, one transaction at a time: the objects
of 1,500 transactions held at once would cost more than parsing them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Final

import msgspec

from mintscope.base.foreign import UNPARSABLE
from mintscope.base.primitives import Signature
from mintscope.base.solana import LOGGED_PROGRAMS
from mintscope.base.transaction import (
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

# A transaction that called nothing moved no pool, but for programs that show a fill in the log
# alone.  Most of a block are votes, short and of this kind: the search spares parsing them.  In
# longer ones it would cost more than it saves.
NOTHING_CALLED: Final = b'"innerInstructions":[]'
LOGGED: Final = [program.encode() for program in LOGGED_PROGRAMS]
SEARCH_MAX: Final = 4096

# Version 1 (SIMD-0385) has no address tables, and is otherwise read like those before.
VERSIONS: Final = frozenset({None, "legacy", 0, 1})

# Where the parser stops at a failed transaction: `TransactionMeta.err` can only be null.
FAILED: Final = "`$.meta.err`"


class JsonInstruction(Instruction):
    """A call of a program, its data as base58 text."""

    accounts: list[Index]
    data: str
    program_id_index: Index
    stack_height: Height | None = None


class JsonInnerInstructions(InnerInstructions):
    """The instructions that one top-level instruction called."""

    index: Index
    instructions: list[JsonInstruction]


class LoadedAddresses(NodeRecord):
    """The accounts that the lookup tables added."""

    writable: list[str] = msgspec.field(default_factory=list)
    readonly: list[str] = msgspec.field(default_factory=list)


class TransactionMeta(NodeRecord):
    """The outcome of a transaction; the earlier balances stay unparsed."""

    err: None = None
    inner_instructions: list[JsonInnerInstructions] | None = None
    loaded_addresses: LoadedAddresses | None = None
    post_token_balances: list[TokenBalance] | None = None
    pre_token_balances: msgspec.Raw = msgspec.Raw(b"null")

    def read_earlier(self) -> Sequence[TokenBalance]:
        """Return the balances before.

        Raises ValueError where they are not a list of balances.
        """
        try:
            return _BALANCES.decode(self.pre_token_balances) or ()
        except UNPARSABLE as cause:
            raise ValueError("expected a list of token balances") from cause


class MessageHeader(NodeRecord):
    """How many of the first accounts sign."""

    num_required_signatures: Index = 1


class TransactionMessage(NodeRecord, kw_only=True):
    """The signed part."""

    account_keys: list[str]
    header: MessageHeader | None = None
    instructions: list[JsonInstruction]


class SignedMessage(NodeRecord):
    """A message and its signatures."""

    message: TransactionMessage
    signatures: Annotated[list[Signature], msgspec.Meta(min_length=1)]


class JsonTransaction(NodeRecord, kw_only=True):
    """One entry of a getBlock result, or a getTransaction result."""

    meta: TransactionMeta | None = None
    transaction: SignedMessage
    version: int | str | None = None


class JsonEffects(Effects):
    """Lamports and log in JSON."""

    pre_balances: list[int] = msgspec.field(default_factory=list)
    post_balances: list[int] = msgspec.field(default_factory=list)
    log_messages: list[str] | None = None


class EntryEffects(NodeRecord):
    """The values of an entry: parsed for the few transactions that need them."""

    meta: JsonEffects


_TRANSACTION: Final = msgspec.json.Decoder(JsonTransaction)
_BALANCES: Final = msgspec.json.Decoder(list[TokenBalance] | None)
_EFFECTS: Final = msgspec.json.Decoder(EntryEffects)


class JsonTransactions(msgspec.Struct, frozen=True):
    """The transactions of one block, each the JSON of its entry."""

    entries: Sequence[msgspec.Raw]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]:
        for index, entry in enumerate(self.entries):
            if len(entry) > SEARCH_MAX or may_hold_swap(bytes(entry)):
                read = read_transaction(entry, index)
                if read is not None:
                    yield read
                del read


def may_hold_swap(entry: bytes) -> bool:
    """Return whether transaction *entry* called a program, or one that shows fills in its log.

    Takes a copy of what lies in a block: two searches in it cost as much as one pattern in that.
    """
    if NOTHING_CALLED not in entry:
        return True
    for program in LOGGED:  # noqa: SIM110 - a generator costs more than the search
        if program in entry:
            return True
    return False


def read_effects(entry: bytes | msgspec.Raw) -> Effects:
    """Return lamports and log of transaction *entry*.

    Raises ValueError if they are no lists of numbers and of text.
    """
    try:
        return _EFFECTS.decode(entry).meta
    except UNPARSABLE as cause:
        raise ValueError("expected lists of lamports and of log lines") from cause


def read_transaction(
    entry: bytes | msgspec.Raw, index: int
) -> Transaction | UnreadableTransaction | None:
    """Return transaction *index* of its block, None if it failed.  Never raises."""
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
        partial(read_effects, entry),
    )
