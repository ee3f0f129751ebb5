"""A Jupiter v6 route: the swaps of several pools under one instruction."""

from collections.abc import Sequence

from mintscope.devchain.addresses import JUPITER, JUPITER_EVENTS, SPL
from mintscope.devchain.market.pool import Fill, Venue
from mintscope.devchain.shapes.bytes import (
    emit,
    event,
    instruction,
    keys,
    u8,
    u16,
    u32,
    u64,
)
from mintscope.devchain.shapes.curve import starts_with_base
from mintscope.devchain.shapes.venues import SWAP
from mintscope.devchain.transaction import Call

SLIPPAGE_BPS = 50
PERCENT = 100


def route(fills: Sequence[Fill]) -> Call:
    """Return the route that feeds what each of *fills* pays into the next."""
    first, last = fills[0], fills[-1]
    hops = [SWAP[fill.pool.venue](fill) for fill in fills]
    steps = b"".join(
        _variant(fill) + u8(PERCENT) + u8(number) + u8(number + 1)
        for number, fill in enumerate(fills)
    )
    inner: list[Call] = []
    for fill, hop in zip(fills, hops, strict=True):
        inner += (hop, emit(JUPITER, JUPITER_EVENTS, _told(fill, hop)))
    return Call(
        JUPITER,
        (
            *(SPL, first.trader, first.source, last.target, JUPITER, last.paid.mint),
            *(JUPITER, JUPITER_EVENTS, JUPITER),
            *(key for hop in hops for key in (hop.program, *hop.accounts)),
        ),
        instruction("route")
        + u32(len(fills))
        + steps
        + u64(first.amount_in, last.amount_out)
        + u16(SLIPPAGE_BPS)
        + u8(0),
        says="Instruction: Route",
        inner=tuple(inner),
    )


def _told(fill: Fill, hop: Call) -> bytes:
    return b"".join(
        (
            event("SwapEvent"),
            keys(hop.program, fill.received.mint),
            u64(fill.amount_in),
            keys(fill.paid.mint),
            u64(fill.amount_out),
        )
    )


def _variant(fill: Fill) -> bytes:
    """Return Jupiter's own name for the kind of swap, with its arguments."""
    if fill.pool.venue is Venue.WHIRLPOOL:
        return u8(0x2F) + u8(starts_with_base(fill.pool) is not fill.is_buy) + u8(0)
    return u8(VARIANT[fill.pool.venue])


VARIANT = {Venue.RAYDIUM_V4: 0x07, Venue.RAYDIUM_CLMM: 0x1A, Venue.METEORA_DLMM: 0x26}
ROUTED = frozenset({Venue.WHIRLPOOL, *VARIANT})
