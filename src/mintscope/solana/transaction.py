"""Transactions from any source, for the decoder.

Addresses, signatures and data are base58 text from JSON and bytes from protobuf, and are converted
only when needed, because most are not.  Names and bounds are those of getBlock, so that JSON is
parsed directly into these structs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, Protocol

import msgspec

from mintscope.kit.primitives import Signature

Index = Annotated[int, msgspec.Meta(ge=0, le=255)]
Height = Annotated[int, msgspec.Meta(ge=1)]


class NodeRecord(msgspec.Struct, rename="camel", gc=False):
    """A record with the names of getBlock, outside of garbage collection: it has no cycles."""


class Instruction(NodeRecord):
    """A call of a program.

    accounts       indices into the keys of the transaction; one byte each in protobuf
    data           bytes, or base58 text
    stack_height   1 at the top level, 2 below it, and so on; None in data before 2023
    """

    accounts: Sequence[int]
    data: str | bytes
    program_id_index: Index
    stack_height: Height | None = None


class InnerInstructions(NodeRecord):
    """The instructions that top-level instruction *index* called, in order of execution."""

    index: Index
    instructions: Sequence[Instruction]


class TokenAmount(NodeRecord, kw_only=True):
    """The balance of a token account.

    amount   raw units, as decimal digits
    """

    amount: str = ""
    decimals: Index


class TokenBalance(NodeRecord):
    """A token account before or after the transaction."""

    account_index: Index
    mint: str
    owner: str | None = None
    ui_token_amount: TokenAmount | None = None


class Effects(NodeRecord):
    """The parts of the outcome that few transactions need.

    pre_balances, post_balances   lamports of each key before and after; empty if not recorded
    log_messages                  lines of the log; None or empty if not recorded
    """

    pre_balances: Sequence[int] = ()
    post_balances: Sequence[int] = ()
    log_messages: Sequence[str] | None = None


class Transaction(msgspec.Struct, gc=False):
    """One successful transaction.

    index          position in its block
    keys           addresses: static, then loaded writable, then loaded readonly
    signer_count   number of signers, which are the first keys; the very first paid the fee
    inner          None if the node did not record inner calls
    balances       of the token accounts that exist after the transaction
    read_earlier   returns the balances before; parsed on request, because few transactions need
                   them.  Raises ValueError if they cannot be read
    read_effects   returns lamports and log in the same way
    """

    index: int
    signature: Signature | bytes
    keys: Sequence[str] | Sequence[bytes]
    signer_count: int
    instructions: Sequence[Instruction]
    inner: Sequence[InnerInstructions] | None
    balances: Sequence[TokenBalance]
    read_earlier: Callable[[], Sequence[TokenBalance]]
    read_effects: Callable[[], Effects] = Effects


class UnreadableTransaction(msgspec.Struct, frozen=True):
    """A transaction that cannot be converted to `Transaction`.

    signature   None if not even that could be read
    reason      malformed; no_meta: its outcome was not recorded; unknown_version: newer than we
                know, so its parts may mean something else
    """

    index: int
    signature: Signature | None
    reason: Literal["malformed", "no_meta", "unknown_version"]


class Transactions(Protocol):
    """The transactions of one block, in order.

    Failed transactions are omitted, and a source may omit those that called no program, mostly
    votes: none of them has a swap.  Each iteration may parse them again.
    """

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]: ...

    def __len__(self) -> int:
        """Return the number of transactions delivered by the source, including omitted ones."""
