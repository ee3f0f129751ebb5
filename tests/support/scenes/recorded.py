"""Converts decoded swaps to the form of the files of expected swaps."""

from typing import Any

from mintscope.dex.outcome import Swap
from mintscope.market.quotes import oriented


def facts(swap: Swap) -> dict[str, Any]:
    """Return *swap* in the form of the files of expected swaps."""
    seen = oriented(swap)
    if seen is None:
        base = quote = quote_kind = side = None
    else:
        base, quote, quote_kind = seen.base, seen.quote, seen.quote_kind
        side = "buy" if seen.is_buy else "sell"
    return {
        "signature": swap.signature,
        "ix": [swap.outer, swap.inner],
        "program": swap.program,
        "pool": swap.pool,
        "in_mint": swap.in_mint,
        "in_amount": str(swap.in_amount),
        "in_decimals": swap.in_decimals,
        "out_mint": swap.out_mint,
        "out_amount": str(swap.out_amount),
        "out_decimals": swap.out_decimals,
        "base": base,
        "quote": quote,
        "quote_kind": quote_kind,
        "side": side,
    }
