"""The pump.fun bonding curve: SOL moves as lamports, and in a sell without any instruction."""

from mintscope.devchain.addresses import (
    PUMP_FEE_PROGRAM,
    PUMP_FUN,
    PUMP_FUN_EVENTS,
    PUMP_FUN_FEES,
    PUMP_FUN_GLOBAL,
    SYSTEM,
)
from mintscope.devchain.market.pool import BASIS_POINTS, VIRTUAL_BASE, VIRTUAL_QUOTE, Fill, Venue
from mintscope.devchain.shapes import spl
from mintscope.devchain.shapes.bytes import emit, event, instruction, keys, u8, u64
from mintscope.devchain.transaction import Call, Move, logged

PROTOCOL_FEE_BPS = 95
CREATOR_FEE_BPS = 30
RESERVED_BASE = 206_900_000_000_000  # held by the curve, not for sale


def swap(fill: Fill) -> Call:
    """Return a buy or a sell."""
    return _buy(fill) if fill.is_buy else _sell(fill)


def _buy(fill: Fill) -> Call:
    protocol_fee, creator_fee = _fees(fill.amount_in)
    curve = fill.pool
    told = _trade_event(fill)
    return Call(
        PUMP_FUN,
        (
            *_head(fill),
            SYSTEM,
            curve.base.program,
            _creator_vault(fill),
            *(PUMP_FUN_EVENTS, PUMP_FUN),
            *curve.parts[1:3],
            *_tail(fill),
        ),
        instruction("buy") + u64(fill.amount_out, fill.amount_in * 11 // 10),
        says="Instruction: Buy",
        inner=(
            spl.transfer(curve.base_vault, fill.target, fill.amount_out, curve.address, curve.base),
            spl.pay(fill.trader, _creator_vault(fill), creator_fee),
            spl.pay(fill.trader, curve.address, fill.amount_in),
            spl.pay(fill.trader, PUMP_FUN_FEES, protocol_fee),
            emit(PUMP_FUN, PUMP_FUN_EVENTS, told),
        ),
        log=(logged(told),),
        trade=fill.trade,
    )


def _sell(fill: Fill) -> Call:
    protocol_fee, creator_fee = _fees(fill.amount_out)
    curve = fill.pool
    told = _trade_event(fill)
    return Call(
        PUMP_FUN,
        (
            *_head(fill),
            SYSTEM,
            _creator_vault(fill),
            curve.base.program,
            *(PUMP_FUN_EVENTS, PUMP_FUN),
            *_tail(fill),
        ),
        instruction("sell") + u64(fill.amount_in, fill.amount_out * 9 // 10),
        says="Instruction: Sell",
        inner=(
            spl.transfer(fill.source, curve.base_vault, fill.amount_in, fill.trader, curve.base),
            emit(PUMP_FUN, PUMP_FUN_EVENTS, told),
        ),
        moves=(
            Move(curve.address, fill.trader, fill.amount_out - protocol_fee - creator_fee),
            Move(curve.address, PUMP_FUN_FEES, protocol_fee),
            Move(curve.address, _creator_vault(fill), creator_fee),
        ),
        log=(logged(told),),
        trade=fill.trade,
    )


def _head(fill: Fill) -> tuple[str, ...]:
    curve = fill.pool
    held = fill.target if fill.is_buy else fill.source
    return (
        *(PUMP_FUN_GLOBAL, PUMP_FUN_FEES, curve.base.mint),
        *(curve.address, curve.base_vault, held, fill.trader),
    )


def _tail(fill: Fill) -> tuple[str, str]:
    return fill.pool.parts[3], PUMP_FEE_PROGRAM


def _creator_vault(fill: Fill) -> str:
    return fill.pool.parts[0]


def _fees(sol: int) -> tuple[int, int]:
    return -(-sol * PROTOCOL_FEE_BPS // BASIS_POINTS), -(-sol * CREATOR_FEE_BPS // BASIS_POINTS)


def _trade_event(fill: Fill) -> bytes:
    sol, tokens = (
        (fill.amount_in, fill.amount_out) if fill.is_buy else (fill.amount_out, fill.amount_in)
    )
    base, quote = fill.after
    protocol_fee, creator_fee = _fees(sol)
    real_base = base - VIRTUAL_BASE[Venue.PUMP_FUN] - RESERVED_BASE
    return b"".join(
        (
            event("TradeEvent"),
            keys(fill.pool.base.mint),
            u64(sol, tokens),
            u8(fill.is_buy),
            keys(fill.trader),
            u64(fill.at, quote, base, quote - VIRTUAL_QUOTE[Venue.PUMP_FUN], real_base),
            keys(PUMP_FUN_FEES),
            u64(PROTOCOL_FEE_BPS, protocol_fee),
            keys(fill.pool.parts[4]),
            u64(CREATOR_FEE_BPS, creator_fee),
            u8(0),
            u64(0, 0, 0, 0),
        )
    )
