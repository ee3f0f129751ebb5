"""Instructions of PumpSwap; its protocol and the token's creator take fees in the quote."""

from typing import NamedTuple

from mintscope.kit.primitives import UnixS
from mintscope_devchain.addresses import (
    ASSOCIATED,
    PUMP_FEE_PROGRAM,
    PUMP_SWAP,
    PUMP_SWAP_EVENTS,
    PUMP_SWAP_FEES,
    PUMP_SWAP_GLOBAL,
    SPL,
    SPL_2022,
    SYSTEM,
)
from mintscope_devchain.market.pool import BASIS_POINTS, FEE_BPS, Fill, Pool, Reserves, Venue
from mintscope_devchain.shapes import spl
from mintscope_devchain.shapes.bytes import anchor, emit, event, keys, string, u8, u64, u128
from mintscope_devchain.transaction import Invocation, logged

LP_FEE_BPS = FEE_BPS[Venue.PUMP_SWAP]
OTHER_FEE_BPS = 5  # the fee of the protocol, and also the fee of the creator
FEE_VAULT, CREATOR_VAULT, CREATOR_AUTHORITY, CREATOR = range(4)  # indexes of Pool.parts
FEE_CONFIG, VOLUME, USER_VOLUME, LP_MINT = range(4, 8)

_move = spl.transfer_checked


def swap(fill: Fill) -> Invocation:
    """Return the instruction of PumpSwap that makes the trade *fill*: a buy or a sell."""
    return _buy(fill) if fill.is_buy else _sell(fill)


def taken(fill: Fill) -> int:
    """Return the protocol's fee for *fill*, in raw quote units; the creator's fee is the same."""
    return -(-_quote(fill) * OTHER_FEE_BPS // BASIS_POINTS)


def _quote(fill: Fill) -> int:
    """Return the amount of the quote token that *fill* exchanges, without fees."""
    if fill.is_buy:
        return fill.amount_in * BASIS_POINTS // (BASIS_POINTS + LP_FEE_BPS)
    return fill.amount_out * BASIS_POINTS // (BASIS_POINTS - LP_FEE_BPS)


def _buy(fill: Fill) -> Invocation:
    pool = fill.pool
    parts = fill.pool.parts
    net = _quote(fill)
    cut = taken(fill)
    reported = b"".join(
        (
            event("BuyEvent"),
            u64(fill.at, fill.amount_out, fill.amount_in * 11 // 10, 0, fill.amount_in),
            u64(*fill.reserves, net, LP_FEE_BPS, fill.amount_in - net),
            u64(OTHER_FEE_BPS, cut, fill.amount_in, fill.amount_in + cut),
            _parties(fill) + u64(OTHER_FEE_BPS, cut),
            u8(0) + u64(0, 0, 0, 0, fill.amount_out * 9 // 10) + string("buy"),
        )
    )
    volumes = (parts[VOLUME], parts[USER_VOLUME])
    accounts = (*_accounts(fill), *volumes, parts[FEE_CONFIG], PUMP_FEE_PROGRAM)
    data = u64(fill.amount_out, fill.amount_in * 11 // 10)
    asked = u8(1) + u128(fill.reserves.quote) + u64(fill.amount_in)
    inner = (
        anchor(PUMP_FEE_PROGRAM, "get_fees", (parts[FEE_CONFIG], PUMP_SWAP), asked),
        _move(pool.base_vault, fill.target, fill.amount_out, pool.address, pool.base),
        _move(fill.source, pool.quote_vault, fill.amount_in, fill.trader, pool.quote),
        _move(fill.source, parts[FEE_VAULT], cut, fill.trader, pool.quote),
        _move(fill.source, parts[CREATOR_VAULT], cut, fill.trader, pool.quote),
    )
    return _telling("buy", accounts, data, inner, reported)._replace(fill=fill)


def _sell(fill: Fill) -> Invocation:
    pool = fill.pool
    parts = fill.pool.parts
    gross = _quote(fill)
    cut = taken(fill)
    received = fill.amount_out - 2 * cut
    reported = b"".join(
        (
            event("SellEvent"),
            u64(fill.at, fill.amount_in, received * 9 // 10, fill.amount_in, 0),
            u64(*fill.reserves, gross, LP_FEE_BPS, gross - fill.amount_out),
            u64(OTHER_FEE_BPS, cut, fill.amount_out, received),
            _parties(fill) + u64(OTHER_FEE_BPS, cut),
        )
    )
    inner = (
        _move(fill.source, pool.base_vault, fill.amount_in, fill.trader, pool.base),
        _move(pool.quote_vault, fill.target, received, pool.address, pool.quote),
        _move(pool.quote_vault, parts[FEE_VAULT], cut, pool.address, pool.quote),
        _move(pool.quote_vault, parts[CREATOR_VAULT], cut, pool.address, pool.quote),
    )
    data = u64(fill.amount_in, received * 9 // 10)
    return _telling("sell", _accounts(fill), data, inner, reported)._replace(fill=fill)


def _accounts(fill: Fill) -> tuple[str, ...]:
    pool = fill.pool
    parts = fill.pool.parts
    return (
        *(pool.address, fill.trader, PUMP_SWAP_GLOBAL, pool.base.mint, pool.quote.mint),
        *(*fill.held, pool.base_vault, pool.quote_vault, PUMP_SWAP_FEES, parts[FEE_VAULT]),
        *(pool.base.program, pool.quote.program, SYSTEM, ASSOCIATED, PUMP_SWAP_EVENTS, PUMP_SWAP),
        *(parts[CREATOR_VAULT], parts[CREATOR_AUTHORITY]),
    )


def _parties(fill: Fill) -> bytes:
    who = (fill.pool.address, fill.trader, *fill.held, PUMP_SWAP_FEES)
    return keys(*who, fill.pool.parts[FEE_VAULT], fill.pool.parts[CREATOR])


class LiquidityChange(NamedTuple):
    """A change of a pool's liquidity: a deposit if *adds*, otherwise a withdrawal.

    held       the accounts of the owner for the base, the quote and the LP token of the pool
    amounts    the amounts in the same order, in raw units
    reserves   the reserves before the change
    """

    pool: Pool
    owner: str
    held: tuple[str, str, str]
    amounts: tuple[int, int, int]
    reserves: Reserves
    at: UnixS
    adds: bool


def change_liquidity(change: LiquidityChange) -> Invocation:
    """Return PumpSwap's instruction for *change*: a deposit or a withdrawal of liquidity."""
    pool = change.pool
    owner = change.owner
    reserves = change.reserves
    base, quote, lp = change.amounts
    held_base, held_quote, held_lp = change.held
    lp_mint = pool.parts[LP_MINT]
    reported = b"".join(
        (
            event("DepositEvent" if change.adds else "WithdrawEvent"),
            u64(change.at, lp, base, quote, 0, 0, *reserves, base, quote, reserves.base),
            keys(pool.address, owner, *change.held),
        )
    )
    if change.adds:
        moved = (
            _move(held_base, pool.base_vault, base, owner, pool.base),
            _move(held_quote, pool.quote_vault, quote, owner, pool.quote),
            spl.mint_to(lp_mint, held_lp, lp, pool.address),
        )
    else:
        moved = (
            _move(pool.base_vault, held_base, base, pool.address, pool.base),
            _move(pool.quote_vault, held_quote, quote, pool.address, pool.quote),
            spl.burn(lp_mint, held_lp, lp, owner),
        )
    accounts = (
        *(pool.address, PUMP_SWAP_GLOBAL, owner, pool.base.mint, pool.quote.mint, lp_mint),
        *(*change.held, pool.base_vault, pool.quote_vault, SPL, SPL_2022),
        *(PUMP_SWAP_EVENTS, PUMP_SWAP),
    )
    name = "deposit" if change.adds else "withdraw"
    return _telling(name, accounts, u64(lp, base, quote), moved, reported)


def _telling(
    name: str,
    accounts: tuple[str, ...],
    data: bytes,
    inner: tuple[Invocation, ...],
    reported: bytes,
) -> Invocation:
    """Return PumpSwap's instruction *name*, which publishes the event *reported*.

    The event is in an inner call and in the log.
    """
    inner = (*inner, emit(PUMP_SWAP, PUMP_SWAP_EVENTS, reported))
    return anchor(PUMP_SWAP, name, accounts, data)._replace(inner=inner, log=(logged(reported),))
