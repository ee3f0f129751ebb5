"""Orca Whirlpool: swaps told in the log since 2025, and positions."""

from mintscope.devchain.addresses import MEMO, WHIRLPOOL
from mintscope.devchain.market.pool import BASIS_POINTS, FEE_BPS, Fill, Venue
from mintscope.devchain.shapes import spl
from mintscope.devchain.shapes.bytes import event, instruction, keys, u8, u64, u128
from mintscope.devchain.shapes.curve import sqrt_price_x64, starts_with_base
from mintscope.devchain.transaction import Call, logged


def swap(fill: Fill) -> Call:
    """Return a swap_v2."""
    pool = fill.pool
    sides = [(pool.base, pool.base_vault), (pool.quote, pool.quote_vault)]
    held = [fill.target, fill.source] if fill.is_buy else [fill.source, fill.target]
    if not starts_with_base(pool):
        sides.reverse()
        held.reverse()
    (a, vault_a), (b, vault_b) = sides
    a_to_b = starts_with_base(pool) is not fill.is_buy
    fee = fill.amount_in * FEE_BPS[Venue.WHIRLPOOL] // BASIS_POINTS
    told = b"".join(
        (
            event("Traded"),
            keys(pool.address),
            u8(a_to_b),
            u128(sqrt_price_x64(pool, fill.reserves)),
            u128(sqrt_price_x64(pool, fill.after)),
            u64(fill.amount_in, fill.amount_out, 0, 0, fee, 0),
        )
    )
    return Call(
        WHIRLPOOL,
        (
            *(a.program, b.program, MEMO, fill.trader, pool.address, a.mint, b.mint),
            *(held[0], vault_a, held[1], vault_b, *pool.parts[:4]),
        ),
        instruction("swap_v2")
        + u64(fill.amount_in, fill.amount_out * 99 // 100)
        + u128(0)
        + u8(1)
        + u8(a_to_b)
        + u8(0),
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
