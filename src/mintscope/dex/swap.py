"""A swap: one trade against one pool, as recorded on chain.

A route over three pools is three swaps; amounts are what the pool's vaults received and paid.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Signature


class RecognisedBy(StrEnum):
    """The method by which a swap was found.

    TABLE       by an instruction of a program that the decoder knows
    TRANSFERS   by what moved under a program that it does not know
    """

    TABLE = "table"
    TRANSFERS = "transfers"


class Swap(NamedTuple):
    """An exchange in one pool, in raw integer units of the two mints.

    Order   (transaction_index, outer, inner, leg) within a block; inner is -1
            for a top-level instruction, leg counts pools under one instruction
    Side    in_ is what the pool received, out_ what it paid
    program the short name of the table; the address of a program that is not in it
    pool    the address that names the pool, or its two vaults, sorted, with `+` between
    in_left, out_left   raw units of either mint in the vaults of the pool after the transaction;
            None if no balance shows them
    succeeds   the curve that *pool* takes the place of; None for a swap.  Nothing was exchanged:
            in_mint is the mint of the curve
    """

    signature: Signature
    transaction_index: int
    outer: int
    inner: int
    leg: int
    program: str
    pool: str
    in_mint: Mint
    in_amount: int
    in_decimals: int | None
    out_mint: Mint
    out_amount: int
    out_decimals: int | None
    signer: str
    recognised_by: RecognisedBy = RecognisedBy.TABLE
    in_left: int | None = None
    out_left: int | None = None
    succeeds: str | None = None


class QuoteKind(StrEnum):
    """The value of a unit of the quote: one dollar, one SOL, or the price of another token."""

    USD = "USD"
    SOL = "SOL"
    TOKEN = "TOKEN"  # noqa: S105 - a kind of quote


class Oriented(msgspec.Struct, frozen=True, gc=False):
    """A swap seen from its base, the mint that a price is about: raw amounts and decimals.

    quote     a dollar if there is one, else wrapped SOL, else another token
    is_buy    the base left the pool
    quote_left   raw units of the quote in the vaults of the pool after it; None: not known
    """

    quote_kind: QuoteKind
    base: Mint
    base_amount: int
    base_decimals: int | None
    quote: Mint
    quote_amount: int
    quote_decimals: int | None
    is_buy: bool
    quote_left: int | None = None
