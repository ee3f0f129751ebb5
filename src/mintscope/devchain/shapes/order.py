"""What a wallet sends to get a trade done: fees, accounts, the swap, a tip."""

from mintscope.base.solana import WSOL
from mintscope.devchain.addresses import JITO_TIPS, address
from mintscope.devchain.market.pool import Fill, Venue
from mintscope.devchain.shapes import jupiter, pumpswap, spl
from mintscope.devchain.shapes.venues import SWAP
from mintscope.devchain.transaction import SIGNATURE_FEE, Call

UNITS = 300_000
ROUTE_POSITION = 2  # of the route among the instructions of `routed`


def fee(price: int) -> int:
    """Return what a transaction costs at *price* micro-lamports a compute unit."""
    return SIGNATURE_FEE + -(-price * UNITS // 1_000_000)


def direct(fill: Fill, *, wrapped: bool, tip: int, price: int) -> tuple[Call, ...]:
    """Return *fill* sent to its program, SOL through a temporary account where *wrapped*."""
    calls = [*spl.budget(UNITS, price)]
    if wrapped:
        calls += _wrapped(fill)
    else:
        if fill.target != fill.trader:  # a bonding curve pays lamports
            calls.append(spl.ensure_account(fill.target, fill.trader, fill.paid))
        calls.append(SWAP[fill.pool.venue](fill))
    if tip:
        calls.append(spl.pay(fill.trader, JITO_TIPS, tip))
    return tuple(calls)


def routed(fills: tuple[Fill, ...], *, price: int) -> tuple[Call, ...]:
    """Return *fills* as one route of Jupiter."""
    return (*spl.budget(UNITS, price), jupiter.route(fills))


def _wrapped(fill: Fill) -> tuple[Call, ...]:
    account = address("wrapped", fill.trader, fill.amount_in, *fill.reserves)
    if fill.received.mint == WSOL:
        lamports = fill.amount_in + _fees(fill)
        spent = fill._replace(source=account)
        return (
            *spl.wrap(account, fill.trader, lamports),
            SWAP[fill.pool.venue](spent),
            spl.unwrap(account, fill.trader, 0),
        )
    return (
        *spl.wrap(account, fill.trader, 0),
        SWAP[fill.pool.venue](fill._replace(target=account)),
        spl.unwrap(account, fill.trader, fill.amount_out - _fees(fill)),
    )


def _fees(fill: Fill) -> int:
    """Return what a swap takes of the quote beside what the pool moves."""
    return 2 * pumpswap.taken(fill) if fill.pool.venue is Venue.PUMP_SWAP else 0
