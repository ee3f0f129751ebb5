"""Makes traders' transactions: budget, one swap or a route through Jupiter, and a tip."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mintscope.solana.blocks import WSOL
from mintscope_devchain.addresses import JITO_TIPS, JUPITER, JUPITER_EVENTS, SPL, address
from mintscope_devchain.market.pool import Fill, Venue
from mintscope_devchain.shapes import pumpfun, pumpswap, spl, vaults
from mintscope_devchain.shapes.bytes import anchor, emit, event, keys, u8, u16, u32, u64
from mintscope_devchain.transaction import SIGNATURE_FEE, Invocation

SWAP: Final[Mapping[Venue, Callable[[Fill], Invocation]]] = {
    Venue.PUMP_FUN: pumpfun.swap,
    Venue.PUMP_SWAP: pumpswap.swap,
    Venue.RAYDIUM_V4: vaults.raydium_v4,
    Venue.RAYDIUM_CLMM: vaults.raydium_clmm,
    Venue.WHIRLPOOL: vaults.whirlpool,
    Venue.METEORA_DLMM: vaults.meteora_dlmm,
}
ROUTED: Final = {  # Jupiter's number for a swap on each venue
    Venue.RAYDIUM_V4: 0x07,
    Venue.RAYDIUM_CLMM: 0x1A,
    Venue.METEORA_DLMM: 0x26,
    Venue.WHIRLPOOL: 0x2F,
}
UNITS: Final = 300_000
ROUTE_POSITION: Final = 2  # the index of the route among the instructions of `routed`
SLIPPAGE_BPS: Final = 50
PERCENT: Final = 100


def fee(price: int) -> int:
    """Return the fee of a transaction in lamports, at *price* micro-lamports per compute unit."""
    # The chain rounds priority fees up.
    return SIGNATURE_FEE + -(-price * UNITS // 1_000_000)


def direct(fill: Fill, *, wrapped: bool, tip: int, price: int) -> tuple[Invocation, ...]:
    """Return the instructions of a transaction with the single swap *fill*.

    wrapped   whether a temporary account holds the SOL of the swap
    tip       the lamports of a tip to Jito; 0: no tip
    price     the price of a compute unit, in micro-lamports
    """
    calls = [*spl.budget(UNITS, price)]
    if wrapped:
        calls += _wrapped(fill)
    else:
        # A bonding curve pays lamports to the wallet itself, which needs no token account
        if fill.target != fill.trader:
            calls.append(spl.ensure_account(fill.target, fill.trader, fill.paid))
        calls.append(SWAP[fill.pool.venue](fill))
    if tip:
        calls.append(spl.pay(fill.trader, JITO_TIPS, tip))
    return tuple(calls)


def routed(fills: Sequence[Fill], *, price: int) -> tuple[Invocation, ...]:
    """Return one Jupiter route through the trades *fills*: the output of each pays for the next."""
    first = fills[0]
    last = fills[-1]
    hops = [SWAP[fill.pool.venue](fill) for fill in fills]
    steps = b"".join(
        _variant(fill) + u8(PERCENT, number, number + 1) for number, fill in enumerate(fills)
    )
    inner: list[Invocation] = []
    for fill, hop in zip(fills, hops, strict=True):
        inner += (hop, emit(JUPITER, JUPITER_EVENTS, _reported(fill, hop)))
    accounts = (
        *(SPL, first.trader, first.source, last.target, JUPITER, last.paid.mint),
        *(JUPITER, JUPITER_EVENTS, JUPITER),
        *(key for hop in hops for key in (hop.program, *hop.accounts)),
    )
    amounts = u64(first.amount_in, last.amount_out)
    data = u32(len(fills)) + steps + amounts + u16(SLIPPAGE_BPS) + u8(0)
    route = anchor(JUPITER, "route", accounts, data)._replace(inner=tuple(inner))
    return (*spl.budget(UNITS, price), route)


def _reported(fill: Fill, hop: Invocation) -> bytes:
    paid_in = keys(hop.program, fill.received.mint) + u64(fill.amount_in)
    return event("SwapEvent") + paid_in + keys(fill.paid.mint) + u64(fill.amount_out)


def _variant(fill: Fill) -> bytes:
    """Return the number, and the arguments, by which Jupiter names the program of *fill*."""
    number = u8(ROUTED[fill.pool.venue])
    if fill.pool.venue is Venue.WHIRLPOOL:
        return number + u8(vaults.starts_with_base(fill.pool) is not fill.is_buy, 0)
    return number


def _wrapped(fill: Fill) -> tuple[Invocation, ...]:
    account = address("wrapped", fill.trader, fill.amount_in, *fill.reserves)
    # PumpSwap charges two fees in the quote: a buyer pays them on top, a seller receives less.
    fees = 2 * pumpswap.taken(fill) if fill.pool.venue is Venue.PUMP_SWAP else 0
    if fill.received.mint == WSOL:
        opened = fill.amount_in + fees
        closed = 0
        fill = fill._replace(source=account)
    else:
        opened = 0
        closed = fill.amount_out - fees
        fill = fill._replace(target=account)
    return (
        *spl.wrap(account, fill.trader, opened),
        SWAP[fill.pool.venue](fill),
        spl.unwrap(account, fill.trader, closed),
    )
