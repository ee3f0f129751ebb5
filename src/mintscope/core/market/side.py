"""Which side of a swap is the base and which the quote, and who bought.

Quote    a dollar stable where there is one, else wrapped SOL
Base     the other mint: the one a price is about
Buy      the base left the pool
"""

from enum import StrEnum
from typing import Final, NamedTuple

from mintscope.base.primitives import Mint
from mintscope.base.solana import STABLES, WSOL
from mintscope.core.market.swap import Swap


class QuoteKind(StrEnum):
    """What the quote is worth: one dollar, or one SOL."""

    USD = "USD"
    SOL = "SOL"


QUOTE_KIND: Final = {WSOL: QuoteKind.SOL} | dict.fromkeys(STABLES, QuoteKind.USD)


class Oriented(NamedTuple):
    """A swap seen from its base: raw amounts and decimals of both mints."""

    base: Mint
    quote: Mint
    quote_kind: QuoteKind
    is_buy: bool
    base_amount: int
    base_decimals: int | None
    quote_amount: int
    quote_decimals: int | None


def oriented(swap: Swap) -> Oriented | None:
    """Return *swap* seen from its base; None where neither mint can be a quote.

    Between two stables the one the pool paid is the quote.
    """
    paid = QUOTE_KIND.get(swap.out_mint)
    received = QUOTE_KIND.get(swap.in_mint)
    if paid is not None and (paid is QuoteKind.USD or received is None):
        return Oriented(
            base=swap.in_mint,
            quote=swap.out_mint,
            quote_kind=paid,
            is_buy=False,
            base_amount=swap.in_amount,
            base_decimals=swap.in_decimals,
            quote_amount=swap.out_amount,
            quote_decimals=swap.out_decimals,
        )
    if received is None:
        return None
    return Oriented(
        base=swap.out_mint,
        quote=swap.in_mint,
        quote_kind=received,
        is_buy=True,
        base_amount=swap.out_amount,
        base_decimals=swap.out_decimals,
        quote_amount=swap.in_amount,
        quote_decimals=swap.in_decimals,
    )
