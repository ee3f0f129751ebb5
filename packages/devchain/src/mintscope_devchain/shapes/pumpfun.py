"""The bonding curve of Pump.fun, which in a sell moves lamports without an instruction."""

from mintscope_devchain.addresses import (
    PUMP_FEE_PROGRAM,
    PUMP_FUN,
    PUMP_FUN_EVENTS,
    PUMP_FUN_FEES,
    PUMP_FUN_GLOBAL,
    PUMP_SWAP,
    SYSTEM,
)
from mintscope_devchain.market.pool import (
    BASIS_POINTS,
    VIRTUAL_BASE,
    VIRTUAL_QUOTE,
    Fill,
    Pool,
    Venue,
)
from mintscope_devchain.shapes import spl
from mintscope_devchain.shapes.bytes import anchor, emit, event, keys, u8, u64
from mintscope_devchain.transaction import Invocation, Move, logged

PROTOCOL_FEE_BPS = 95
CREATOR_FEE_BPS = 30
RESERVED_BASE = 206_900_000_000_000  # raw units of the base that the curve holds but does not sell


def swap(fill: Fill) -> Invocation:
    """Return the instruction of Pump.fun that makes the trade *fill*: a buy or a sell."""
    curve = fill.pool
    trader = fill.trader
    reported = _trade_event(fill)
    held, _ = fill.held
    tokens, sol = fill.amounts
    protocol_fee, creator_fee = _fees(sol)
    creator_vault, *volumes, fee_config = curve.parts[:4]
    programs = (PUMP_FUN_EVENTS, PUMP_FUN)
    inner: tuple[Invocation, ...]
    moves: tuple[Move, ...] = ()
    if fill.is_buy:
        middle = (SYSTEM, curve.base.program, creator_vault, *programs, *volumes)
        inner = (
            spl.transfer(curve.base_vault, held, tokens, curve.address, curve.base),
            spl.pay(trader, creator_vault, creator_fee),
            spl.pay(trader, curve.address, sol),
            spl.pay(trader, PUMP_FUN_FEES, protocol_fee),
        )
    else:
        middle = (SYSTEM, creator_vault, curve.base.program, *programs)
        inner = (spl.transfer(held, curve.base_vault, tokens, trader, curve.base),)
        moves = (
            Move(curve.address, trader, sol - protocol_fee - creator_fee),
            Move(curve.address, PUMP_FUN_FEES, protocol_fee),
            Move(curve.address, creator_vault, creator_fee),
        )
    accounts = (
        *(PUMP_FUN_GLOBAL, PUMP_FUN_FEES, curve.base.mint, curve.address, curve.base_vault),
        *(held, trader, *middle, fee_config, PUMP_FEE_PROGRAM),
    )
    name, limit = ("buy", sol * 11 // 10) if fill.is_buy else ("sell", sol * 9 // 10)
    return anchor(PUMP_FUN, name, accounts, u64(tokens, limit))._replace(
        inner=(*inner, emit(PUMP_FUN, PUMP_FUN_EVENTS, reported)),
        moves=moves,
        log=(logged(reported),),
        fill=fill,
    )


def migrate(curve: Pool, pool: Pool, payer: str, amounts: tuple[int, int]) -> Invocation:
    """Return the instruction with which Pump.fun moves liquidity from *curve* to *pool*.

    amounts   the tokens in atoms, and the lamports
    """
    tokens, lamports = amounts
    accounts = (
        *(PUMP_FUN_GLOBAL, PUMP_FUN_FEES, curve.base.mint, curve.address, curve.base_vault),
        *(payer, SYSTEM, curve.base.program, PUMP_SWAP, pool.address, pool.base_vault),
        *(pool.quote_vault, PUMP_FUN_EVENTS, PUMP_FUN),
    )
    moved = spl.transfer(curve.base_vault, pool.base_vault, tokens, curve.address, curve.base)
    return anchor(PUMP_FUN, "migrate", accounts, b"")._replace(
        inner=(moved,), moves=(Move(curve.address, pool.quote_vault, lamports),)
    )


def _fees(sol: int) -> tuple[int, int]:
    # The program rounds each of its fees up.
    return -(-sol * PROTOCOL_FEE_BPS // BASIS_POINTS), -(-sol * CREATOR_FEE_BPS // BASIS_POINTS)


def _trade_event(fill: Fill) -> bytes:
    tokens, sol = fill.amounts
    base, quote = fill.after
    protocol_fee, creator_fee = _fees(sol)
    real_base = base - VIRTUAL_BASE[Venue.PUMP_FUN] - RESERVED_BASE
    return b"".join(
        (
            event("TradeEvent") + keys(fill.pool.base.mint),
            u64(sol, tokens) + u8(fill.is_buy) + keys(fill.trader),
            u64(fill.at, quote, base, quote - VIRTUAL_QUOTE[Venue.PUMP_FUN], real_base),
            keys(PUMP_FUN_FEES) + u64(PROTOCOL_FEE_BPS, protocol_fee),
            keys(fill.pool.parts[4]) + u64(CREATOR_FEE_BPS, creator_fee),
            u8(0) + u64(0, 0, 0, 0),
        )
    )
