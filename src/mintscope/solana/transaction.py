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
    """A record with field names of getBlock; the garbage collector skips it: it has no cycles."""


class Instruction(NodeRecord):
    """A call of a program.

    accounts       indices into the keys of the transaction; in protobuf, each index is one byte
    data           bytes, or base58 text
    stack_height   1 at the top level, 2 below it, and so on; None in data before 2023
    """

    accounts: Sequence[int]
    data: str | bytes
    program_id_index: Index
    stack_height: Height | None = None


class InnerInstructions(NodeRecord):
    """The instructions called by the top-level instruction *index*, in order of execution."""

    index: Index
    instructions: Sequence[Instruction]


class TokenAmount(NodeRecord, kw_only=True):
    """The balance of a token account.

    amount   the balance in raw units, in decimal digits
    """

    amount: str = ""
    decimals: Index


class TokenBalance(NodeRecord):
    """The balance of a token account before or after a transaction."""

    account_index: Index
    mint: str
    owner: str | None = None
    ui_token_amount: TokenAmount | None = None


class Effects(NodeRecord):
    """The parts of a transaction's outcome that are needed only for few transactions.

    pre_balances, post_balances   lamports of each key before and after the transaction; empty if
                                  not recorded
    log_messages                  lines of the log; None or empty if not recorded
    """

    pre_balances: Sequence[int] = ()
    post_balances: Sequence[int] = ()
    log_messages: Sequence[str] | None = None


class Transaction(msgspec.Struct, gc=False):
    """One successful transaction.

    index          position in its block, from 0
    keys           addresses: first the static ones, then loaded writable, then loaded readonly ones
    signer_count   number of signers: they are the first keys, and the very first key paid the fee
    inner          the inner instructions; None if the node did not record them
    balances       balances of token accounts after the transaction, as the node recorded them
    read_earlier   returns the balances before the transaction.  They are parsed by the call,
                   because few transactions need them.  Raises ValueError if they cannot be read
    read_effects   returns the lamports and the log; parses and raises like `read_earlier`
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

    signature   None if the signature could not be read either
    reason      malformed; no_meta: the outcome was not recorded; unknown_version: the version is
                newer than the known ones, so fields may have another meaning
    """

    index: int
    signature: Signature | None
    reason: Literal["malformed", "no_meta", "unknown_version"]


class Transactions(Protocol):
    """The transactions of one block, in order.

    Failed transactions are omitted, and a source may omit those that called no program, mostly
    votes: none of these has a swap.  Each iteration may parse the transactions again.
    """

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]: ...

    def __len__(self) -> int:
        """Return the number of transactions that the source delivered, including omitted ones."""
