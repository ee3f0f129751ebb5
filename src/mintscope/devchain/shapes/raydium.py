"""Raydium: the v4 AMM with its ray_log, and concentrated liquidity."""

from base64 import b64encode

from mintscope.devchain.addresses import (
    MEMO,
    OPENBOOK,
    RAYDIUM_CLMM,
    RAYDIUM_V4,
    RAYDIUM_V4_AUTHORITY,
    SPL,
    SPL_2022,
)
from mintscope.devchain.market.pool import Fill
from mintscope.devchain.shapes import spl
from mintscope.devchain.shapes.bytes import event, i32, instruction, keys, u8, u64, u128
from mintscope.devchain.shapes.curve import liquidity, sqrt_price_x64, starts_with_base, tick
from mintscope.devchain.transaction import Call, logged

SWAP_BASE_IN = 9
LOG_SWAP_BASE_IN = 3
QUOTE_TO_BASE, BASE_TO_QUOTE = 1, 2


def swap_v4(fill: Fill) -> Call:
    """Return a SwapBaseIn of the v4 AMM."""
    pool = fill.pool
    minimum = fill.amount_out * 99 // 100
    ray_log = b"".join(
        (
            u8(LOG_SWAP_BASE_IN),
            u64(fill.amount_in, minimum, QUOTE_TO_BASE if fill.is_buy else BASE_TO_QUOTE),
            u64(fill.amount_in, *fill.reserves, fill.amount_out),
        )
    )
    return Call(
        RAYDIUM_V4,
        (
            *(SPL, pool.address, RAYDIUM_V4_AUTHORITY, *pool.parts[:2]),
            *(pool.base_vault, pool.quote_vault, OPENBOOK, *pool.parts[2:9]),
            *(fill.source, fill.target, fill.trader),
        ),
        u8(SWAP_BASE_IN) + u64(fill.amount_in, minimum),
        says=f"ray_log: {b64encode(ray_log).decode()}",
        inner=(
            spl.transfer(fill.source, fill.vault_in, fill.amount_in, fill.trader, fill.received),
            spl.transfer(
                fill.vault_out, fill.target, fill.amount_out, RAYDIUM_V4_AUTHORITY, fill.paid
            ),
        ),
        trade=fill.trade,
    )


def swap_clmm(fill: Fill) -> Call:
    """Return a swap_v2 of the concentrated AMM."""
    pool = fill.pool
    zero_for_one = starts_with_base(pool) is not fill.is_buy
    first, second = (
        (fill.amount_in, fill.amount_out) if zero_for_one else (fill.amount_out, fill.amount_in)
    )
    accounts = (fill.source, fill.target) if zero_for_one else (fill.target, fill.source)
    told = b"".join(
        (
            event("SwapEvent"),
            keys(pool.address, fill.trader, *accounts),
            u64(first, 0, second, 0),
            u8(zero_for_one),
            u128(sqrt_price_x64(pool, fill.after)),
            u128(liquidity(fill.after)),
            i32(tick(pool, fill.after)),
        )
    )
    return Call(
        RAYDIUM_CLMM,
        (
            *(fill.trader, pool.parts[0], pool.address, fill.source, fill.target),
            *(fill.vault_in, fill.vault_out, pool.parts[1], SPL, SPL_2022, MEMO),
            *(fill.received.mint, fill.paid.mint, *pool.parts[2:5]),
        ),
        instruction("swap_v2") + u64(fill.amount_in, fill.amount_out * 99 // 100) + u128(0) + u8(1),
        says="Instruction: SwapV2",
        inner=(
            spl.transfer_checked(
                fill.source, fill.vault_in, fill.amount_in, fill.trader, fill.received
            ),
            spl.transfer_checked(
                fill.vault_out, fill.target, fill.amount_out, pool.address, fill.paid
            ),
        ),
        log=(logged(told),),
        trade=fill.trade,
    )
