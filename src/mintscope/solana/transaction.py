"""A transaction in the form that the decoder reads, whatever its source.

A field holds what the source has: JSON gives addresses, signatures and data as base58 text, and
protobuf gives their bytes.  Neither is converted before it is needed, because most never are.
Names and bounds are those of getBlock, so that JSON is parsed straight into these structs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, Protocol

import msgspec

from mintscope.kit.primitives import Signature

Index = Annotated[int, msgspec.Meta(ge=0, le=255)]
Height = Annotated[int, msgspec.Meta(ge=1)]


class NodeRecord(msgspec.Struct, rename="camel", gc=False):
    """A record in the node's spelling; it can form no cycle, so the collector skips it."""


class Instruction(NodeRecord):
    """A call of a program.

    accounts       indices into the keys of the transaction; one byte each in protobuf
    data           bytes, or base58 text
    stack_height   1 at the top, one more a level; None in data before 2023
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

    amount   raw units, decimal digits in a string as JSON and protobuf have it
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
    """The parts of an outcome that only a few transactions need.

    pre_balances, post_balances   lamports of each key before and after; empty if not recorded
    log_messages                  lines of the log; None or empty if not recorded
    """

    pre_balances: Sequence[int] = ()
    post_balances: Sequence[int] = ()
    log_messages: Sequence[str] | None = None


class Transaction(msgspec.Struct, gc=False):
    """One transaction that succeeded.

    index          position in its block
    keys           addresses: static, then loaded writable, then loaded readonly
    signer_count   that many of the first keys signed; the very first paid the fee
    inner          None if the node did not record inner calls
    balances       of the token accounts that are alive at the end
    read_earlier   returns the balances before; few transactions need them, so a source may leave
                   them unparsed until then.  Raises ValueError if they cannot be read
    read_effects   returns lamports and log, as those
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
    """A transaction that the source cannot convert into that form.

    signature   None if not even that could be read
    reason      malformed; no_meta: its outcome was not recorded; unknown_version: newer than we
                know, so its parts may mean something else
    """

    index: int
    signature: Signature | None
    reason: Literal["malformed", "no_meta", "unknown_version"]


class Transactions(Protocol):
    """The transactions of one block, in order.

    Left out are those that failed, and a source may leave out those that called nothing
    (votes above all): neither can hold a swap.  They may be read again on each iteration.
    """

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]: ...

    def __len__(self) -> int:
        """Return the number of transactions delivered by the source, including omitted ones."""
