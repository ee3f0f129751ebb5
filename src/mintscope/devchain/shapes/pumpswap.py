"""PumpSwap: base and quote vaults, fees of protocol and creator beside them."""

from typing import NamedTuple

from mintscope.base.primitives import UnixS
from mintscope.devchain.addresses import (
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
from mintscope.devchain.market.pool import BASIS_POINTS, FEE_BPS, Fill, Pool, Reserves, Venue
from mintscope.devchain.shapes import spl
from mintscope.devchain.shapes.bytes import emit, event, instruction, keys, string, u8, u64, u128
from mintscope.devchain.transaction import Call, logged

LP_FEE_BPS = FEE_BPS[Venue.PUMP_SWAP]
OTHER_FEE_BPS = 5  # the protocol's, and the creator's
FEE_VAULT, CREATOR_VAULT, CREATOR_AUTHORITY, CREATOR = range(4)  # in Pool.parts
FEE_CONFIG, VOLUME, USER_VOLUME, LP_MINT = range(4, 8)

_move = spl.transfer_checked


def swap(fill: Fill) -> Call:
    """Return a buy or a sell."""
    return _buy(fill) if fill.is_buy else _sell(fill)


def taken(fill: Fill) -> int:
    """Return what protocol and creator each take of the quote."""
    return -(-_quote(fill) * OTHER_FEE_BPS // BASIS_POINTS)


def _quote(fill: Fill) -> int:
    """Return the quote before any fee."""
    if fill.is_buy:
        return fill.amount_in * BASIS_POINTS // (BASIS_POINTS + LP_FEE_BPS)
    return fill.amount_out * BASIS_POINTS // (BASIS_POINTS - LP_FEE_BPS)


def _buy(fill: Fill) -> Call:
    pool = fill.pool
    net, cut = _quote(fill), taken(fill)
    told = b"".join(
        (
            event("BuyEvent"),
            u64(fill.at, fill.amount_out, fill.amount_in * 11 // 10, 0, fill.amount_in),
            u64(*fill.reserves, net, LP_FEE_BPS, fill.amount_in - net),
            u64(OTHER_FEE_BPS, cut, fill.amount_in, fill.amount_in + cut),
            _parties(fill),
            u64(OTHER_FEE_BPS, cut),
            u8(0) + u64(0, 0, 0, 0, fill.amount_out * 9 // 10) + string("buy"),
        )
    )
    return Call(
        PUMP_SWAP,
        (
            *_accounts(fill),
            *(pool.parts[VOLUME], pool.parts[USER_VOLUME]),
            *(pool.parts[FEE_CONFIG], PUMP_FEE_PROGRAM),
        ),
        instruction("buy") + u64(fill.amount_out, fill.amount_in * 11 // 10),
        says="Instruction: Buy",
        inner=(
            _get_fees(fill),
            _move(pool.base_vault, fill.target, fill.amount_out, pool.address, pool.base),
            _move(fill.source, pool.quote_vault, fill.amount_in, fill.trader, pool.quote),
            _move(fill.source, pool.parts[FEE_VAULT], cut, fill.trader, pool.quote),
            _move(fill.source, pool.parts[CREATOR_VAULT], cut, fill.trader, pool.quote),
            emit(PUMP_SWAP, PUMP_SWAP_EVENTS, told),
        ),
        log=(logged(told),),
        trade=fill.trade,
    )


def _sell(fill: Fill) -> Call:
    pool = fill.pool
    gross, cut = _quote(fill), taken(fill)
    received = fill.amount_out - 2 * cut
    told = b"".join(
        (
            event("SellEvent"),
            u64(fill.at, fill.amount_in, received * 9 // 10, fill.amount_in, 0),
            u64(*fill.reserves, gross, LP_FEE_BPS, gross - fill.amount_out),
            u64(OTHER_FEE_BPS, cut, fill.amount_out, received),
            _parties(fill),
            u64(OTHER_FEE_BPS, cut),
        )
    )
    return Call(
        PUMP_SWAP,
        _accounts(fill),
        instruction("sell") + u64(fill.amount_in, received * 9 // 10),
        says="Instruction: Sell",
        inner=(
            _move(fill.source, pool.base_vault, fill.amount_in, fill.trader, pool.base),
            _move(pool.quote_vault, fill.target, received, pool.address, pool.quote),
            _move(pool.quote_vault, pool.parts[FEE_VAULT], cut, pool.address, pool.quote),
            _move(pool.quote_vault, pool.parts[CREATOR_VAULT], cut, pool.address, pool.quote),
            emit(PUMP_SWAP, PUMP_SWAP_EVENTS, told),
        ),
        log=(logged(told),),
        trade=fill.trade,
    )


def _get_fees(fill: Fill) -> Call:
    """Return the question what this trade costs, asked of the fee program."""
    return Call(
        PUMP_FEE_PROGRAM,
        (fill.pool.parts[FEE_CONFIG], PUMP_SWAP),
        instruction("get_fees") + u8(1) + u128(fill.reserves.quote) + u64(fill.amount_in),
        says="Instruction: GetFees",
    )


def _accounts(fill: Fill) -> tuple[str, ...]:
    pool = fill.pool
    held_base, held_quote = (
        (fill.target, fill.source) if fill.is_buy else (fill.source, fill.target)
    )
    return (
        *(pool.address, fill.trader, PUMP_SWAP_GLOBAL, pool.base.mint, pool.quote.mint),
        *(held_base, held_quote, pool.base_vault, pool.quote_vault),
        *(PUMP_SWAP_FEES, pool.parts[FEE_VAULT]),
        *(pool.base.program, pool.quote.program, SYSTEM, ASSOCIATED),
        *(PUMP_SWAP_EVENTS, PUMP_SWAP),
        *(pool.parts[CREATOR_VAULT], pool.parts[CREATOR_AUTHORITY]),
    )


def _parties(fill: Fill) -> bytes:
    pool = fill.pool
    held_base, held_quote = (
        (fill.target, fill.source) if fill.is_buy else (fill.source, fill.target)
    )
    return keys(
        *(pool.address, fill.trader, held_base, held_quote),
        *(PUMP_SWAP_FEES, pool.parts[FEE_VAULT], pool.parts[CREATOR]),
    )


class LiquidityChange(NamedTuple):
    """A deposit of all three amounts, or a withdrawal where not *adds*.

    held_...   the accounts of the owner
    lp         amount of the pool's own token
    reserves   before it
    """

    pool: Pool
    owner: str
    held_base: str
    held_quote: str
    held_lp: str
    base: int
    quote: int
    lp: int
    reserves: Reserves
    at: UnixS
    adds: bool


def change_liquidity(change: LiquidityChange) -> Call:
    """Return a deposit or a withdrawal."""
    pool, owner = change.pool, change.owner
    name = "Deposit" if change.adds else "Withdraw"
    lp_mint = pool.parts[LP_MINT]
    told = b"".join(
        (
            event(f"{name}Event"),
            u64(change.at, change.lp, change.base, change.quote, 0, 0, *change.reserves),
            u64(change.base, change.quote, change.reserves.base),
            keys(pool.address, owner, change.held_base, change.held_quote, change.held_lp),
        )
    )
    return Call(
        PUMP_SWAP,
        (
            *(pool.address, PUMP_SWAP_GLOBAL, owner, pool.base.mint, pool.quote.mint),
            *(lp_mint, change.held_base, change.held_quote, change.held_lp),
            *(pool.base_vault, pool.quote_vault, SPL, SPL_2022),
            *(PUMP_SWAP_EVENTS, PUMP_SWAP),
        ),
        instruction(name.lower()) + u64(change.lp, change.base, change.quote),
        says=f"Instruction: {name}",
        inner=(
            *(_deposited(change) if change.adds else _withdrawn(change)),
            emit(PUMP_SWAP, PUMP_SWAP_EVENTS, told),
        ),
        log=(logged(told),),
    )


def _deposited(change: LiquidityChange) -> tuple[Call, ...]:
    pool, owner = change.pool, change.owner
    return (
        _move(change.held_base, pool.base_vault, change.base, owner, pool.base),
        _move(change.held_quote, pool.quote_vault, change.quote, owner, pool.quote),
        spl.mint_to(pool.parts[LP_MINT], change.held_lp, change.lp, pool.address),
    )


def _withdrawn(change: LiquidityChange) -> tuple[Call, ...]:
    pool, owner = change.pool, change.owner
    return (
        _move(pool.base_vault, change.held_base, change.base, pool.address, pool.base),
        _move(pool.quote_vault, change.held_quote, change.quote, pool.address, pool.quote),
        spl.burn(pool.parts[LP_MINT], change.held_lp, change.lp, owner),
    )
