"""Which program has which shape of swap."""

from collections.abc import Callable, Mapping
from typing import Final

from mintscope.devchain.market.pool import Fill, Venue
from mintscope.devchain.shapes import dlmm, pumpfun, pumpswap, raydium, whirlpool
from mintscope.devchain.transaction import Call

SWAP: Final[Mapping[Venue, Callable[[Fill], Call]]] = {
    Venue.PUMP_FUN: pumpfun.swap,
    Venue.PUMP_SWAP: pumpswap.swap,
    Venue.RAYDIUM_V4: raydium.swap_v4,
    Venue.RAYDIUM_CLMM: raydium.swap_clmm,
    Venue.WHIRLPOOL: whirlpool.swap,
    Venue.METEORA_DLMM: dlmm.swap,
}
