"""Transactions from any source, for the decoder.

Addresses, signatures and data are base58 text from JSON and bytes from protobuf, and are converted
only if needed, because most are never used.  Field names and value ranges are those of getBlock, so
JSON is parsed directly into these structs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, Protocol

import msgspec

from mintscope.kit.primitives import Signature

Index = Annotated[int, msgspec.Meta(ge=0, le=255)]
Height = Annotated[int, msgspec.Meta(ge=1)]


class NodeRecord(msgspec.Struct, rename="camel", gc=False):
    """A record with the field names of getBlock, for which garbage collection is disabled."""


class Instruction(NodeRecord):
    """A call of a program."""

    accounts: Sequence[int]  # indices into the transaction's keys; bytes in protobuf
    data: str | bytes  # bytes, or base58 text
    program_id_index: Index
    stack_height: Height | None = None  # 1 at the top, 1 more per inner level; None before 2023


class InnerInstructions(NodeRecord):
    """The instructions called by the top-level instruction *index*, in order of execution."""

    index: Index
    instructions: Sequence[Instruction]


class TokenAmount(NodeRecord, kw_only=True):
    """The balance of a token account; *amount* is in raw units, in decimal digits."""

    amount: str = ""
    decimals: Index


class TokenBalance(NodeRecord):
    """The balance of a token account before or after a transaction."""

    account_index: Index
    mint: str
    owner: str | None = None
    ui_token_amount: TokenAmount | None = None


class Effects(NodeRecord):
    """The parts of a transaction's outcome that only few transactions need.

    pre_balances, post_balances   lamports of each key before and after the transaction; empty if
                                  not recorded
    """

    pre_balances: Sequence[int] = ()
    post_balances: Sequence[int] = ()
    log_messages: Sequence[str] | None = None  # lines of the log; None or empty if not recorded


class Transaction(msgspec.Struct, gc=False):
    """One successful transaction.

    read_earlier   returns the balances before the transaction.  Only this call parses them, because
                   few transactions need them.  Raises ValueError if they cannot be read
    read_effects   returns the lamports and the log.  Only this call parses them.  Raises ValueError
                   if they cannot be read
    """

    index: int  # position in its block, from 0
    signature: Signature | bytes
    keys: Sequence[str] | Sequence[bytes]  # first static, then loaded writable, then readonly ones
    signer_count: int  # the signers are the first keys; the very first one paid the fee
    instructions: Sequence[Instruction]
    inner: Sequence[InnerInstructions] | None  # None if the node did not record them
    balances: Sequence[TokenBalance]  # after the transaction, as the node recorded them
    read_earlier: Callable[[], Sequence[TokenBalance]]
    read_effects: Callable[[], Effects] = Effects


class UnreadableTransaction(msgspec.Struct, frozen=True):
    """A transaction that cannot be converted to `Transaction`.

    reason      malformed; no_meta: the outcome was not recorded; unknown_version: the version is
                newer than the known ones, so fields may have another meaning
    """

    index: int
    signature: Signature | None  # None if the signature could not be read either
    reason: Literal["malformed", "no_meta", "unknown_version"]


class Transactions(Protocol):
    """The transactions of one block, in order.

    Failed transactions are omitted.  A source may also omit transactions without inner
    instructions, mostly votes, if they have no swap.  Each iteration may parse the transactions
    again.
    """

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]: ...

    def __len__(self) -> int:
        """Return the number of received transactions, including those that iterations omit."""
