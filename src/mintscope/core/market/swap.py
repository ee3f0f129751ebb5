"""A swap: one trade against one pool, as the chain moved it.

One row a pool touched (a "hop"): a route over three pools is three swaps.
Amounts are those of the pool's side: what its vaults received and paid.
"""

from typing import NamedTuple

from mintscope.base.primitives import Mint, Signature


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
