"""One getBlock entry, only the fields that decoding needs.

Everything else (logs, a third of the bytes, above all) is skipped by the
parser without being built.  The wire's limits are checked here, so that an
index can be used as it stands: never negative, never above 255.
"""

from typing import Annotated, Final

import msgspec

from mintscope.base.primitives import Signature

Index = Annotated[int, msgspec.Meta(ge=0, le=255)]
Height = Annotated[int, msgspec.Meta(ge=1)]


class Wire(msgspec.Struct, rename="camel", gc=False):
    """A record as the RPC spells it; no cycles, so the collector need not look."""


class Instruction(Wire):
    """A call of a program.

    stack_height   1 at the top, one more a level; None in data before 2023
    """

    program_id_index: Index
    accounts: list[Index]
    data: str
    stack_height: Height | None = None


class InnerInstructions(Wire):
    """What the top-level instruction *index* called, in order of execution."""

    index: Index
    instructions: list[Instruction]


class TokenAmount(Wire):
    """Of a balance; the amount itself is seldom needed and read by `Amounts`."""

    decimals: Index


class TokenBalance(Wire):
    """A token account, before or after the transaction."""

    account_index: Index
    mint: str
    owner: str | None = None
    ui_token_amount: TokenAmount | None = None


class LoadedAddresses(Wire):
    """What the lookup tables added to the accounts."""

    writable: list[str] = []
    readonly: list[str] = []


class Meta(Wire):
    """What the transaction did; the earlier balances stay unread until somebody asks."""

    err: None = None
    inner_instructions: list[InnerInstructions] | None = None
    pre_token_balances: msgspec.Raw = msgspec.Raw(b"null")
    post_token_balances: list[TokenBalance] | None = None
    loaded_addresses: LoadedAddresses | None = None


class Header(Wire):
    """The first accounts sign, the very first pays."""

    num_required_signatures: Index = 1


class Message(Wire):
    """What was signed."""

    account_keys: list[str]
    instructions: list[Instruction]
    header: Header | None = None


class Transaction(Wire):
    """A signed message."""

    message: Message
    signatures: Annotated[list[Signature], msgspec.Meta(min_length=1)]


class Entry(Wire):
    """A transaction and its outcome, from getBlock or getTransaction."""

    transaction: Transaction
    meta: Meta | None = None


class Amount(Wire):
    """The raw amount of a balance; decimal digits in a string on the wire."""

    amount: int


class AmountOf(Wire):
    """The balance of one token account."""

    account_index: Index
    ui_token_amount: Amount


class AmountsMeta(Wire):
    """The balances alone."""

    pre_token_balances: list[AmountOf] | None = None
    post_token_balances: list[AmountOf] | None = None


class Amounts(Wire):
    """The same entry, read for its balances."""

    meta: AmountsMeta


# What parsing can raise: bad JSON or shape, bad UTF-8, nesting without end.
UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
ENTRY: Final = msgspec.json.Decoder(Entry)
BALANCES: Final = msgspec.json.Decoder(list[TokenBalance] | None)
AMOUNTS: Final = msgspec.json.Decoder(Amounts, strict=False)
