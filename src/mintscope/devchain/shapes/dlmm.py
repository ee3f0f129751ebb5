"""Meteora DLMM: liquidity in bins, swaps told by a call to itself."""

from mintscope.devchain.addresses import METEORA_DLMM, METEORA_DLMM_EVENTS
from mintscope.devchain.market.pool import BASIS_POINTS, FEE_BPS, Fill, Venue
from mintscope.devchain.shapes import spl
from mintscope.devchain.shapes.bytes import emit, event, i32, instruction, keys, u8, u64, u128
from mintscope.devchain.shapes.curve import bin_id
from mintscope.devchain.transaction import Call

BIN_STEP_BPS = 10
FEE_RATE = FEE_BPS[Venue.METEORA_DLMM] * 10**9 // BASIS_POINTS


def swap(fill: Fill) -> Call:
    """Return a swap; token X is the base, Y the quote."""
    pool = fill.pool
    fee = fill.amount_in * FEE_BPS[Venue.METEORA_DLMM] // BASIS_POINTS
    told = b"".join(
        (
            event("Swap"),
            keys(pool.address, fill.trader),
            i32(bin_id(fill.reserves, BIN_STEP_BPS)) + i32(bin_id(fill.after, BIN_STEP_BPS)),
            u64(fill.amount_in, fill.amount_out),
            u8(not fill.is_buy),
            u64(fee, fee // 20) + u128(FEE_RATE) + u64(0),
        )
    )
    return Call(
        METEORA_DLMM,
        (
            *(pool.address, METEORA_DLMM, pool.base_vault, pool.quote_vault),
            *(fill.source, fill.target, pool.base.mint, pool.quote.mint, pool.parts[0]),
            *(METEORA_DLMM, fill.trader, pool.base.program, pool.quote.program),
            *(METEORA_DLMM_EVENTS, METEORA_DLMM, *pool.parts[1:4]),
        ),
        instruction("swap") + u64(fill.amount_in, fill.amount_out * 99 // 100),
        says="Instruction: Swap",
        inner=(
            spl.transfer_checked(
                fill.source, fill.vault_in, fill.amount_in, fill.trader, fill.received
            ),
            spl.transfer_checked(
                fill.vault_out, fill.target, fill.amount_out, pool.address, fill.paid
            ),
            emit(METEORA_DLMM, METEORA_DLMM_EVENTS, told),
        ),
        trade=fill.trade,
    )
