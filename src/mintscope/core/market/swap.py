"""A swap: one trade against one pool, as the chain moved it.

A route over three pools is three swaps; amounts are what the pool's vaults received and paid.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from mintscope.base.primitives import Mint, Signature
from mintscope.base.solana import STABLES, WSOL


class Swap(NamedTuple):
    """What moved in one pool, in raw integer units of the two mints.

    Order   (transaction_index, outer, inner, leg) within a block; inner is -1
            for a top-level instruction, leg counts pools under one instruction
    Side    in_ is what the pool received, out_ what it paid
    """

    signature: Signature
    transaction_index: int
    outer: int
    inner: int
    leg: int
    program: str
    pool: str | None
    in_mint: Mint
    in_amount: int
    in_decimals: int | None
    out_mint: Mint
    out_amount: int
    out_decimals: int | None
    signer: str


class QuoteKind(StrEnum):
    """What the quote is worth: one dollar, or one SOL."""

    USD = "USD"
    SOL = "SOL"


QUOTE_KIND: Final = {WSOL: QuoteKind.SOL} | dict.fromkeys(STABLES, QuoteKind.USD)


class Oriented(NamedTuple):
    """A swap seen from its base, the mint that a price is about: raw amounts and decimals.

    quote     a dollar stable where there is one, else wrapped SOL
    is_buy    the base left the pool
    """

    quote_kind: QuoteKind
    base: Mint
    base_amount: int
    base_decimals: int | None
    quote: Mint
    quote_amount: int
    quote_decimals: int | None
    is_buy: bool


def oriented(swap: Swap) -> Oriented | None:
    """Return *swap* seen from its base; None where neither mint can be a quote.

    Between two stables the one the pool paid is the quote.
    """
    into = (swap.in_mint, swap.in_amount, swap.in_decimals)
    out = (swap.out_mint, swap.out_amount, swap.out_decimals)
    paid, received = QUOTE_KIND.get(swap.out_mint), QUOTE_KIND.get(swap.in_mint)
    if paid is not None and (paid is QuoteKind.USD or received is None):
        return Oriented(paid, *into, *out, is_buy=False)
    return None if received is None else Oriented(received, *out, *into, is_buy=True)
