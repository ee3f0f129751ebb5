"""Swaps of the programs whose pools hold both tokens in vaults: Raydium, Orca and Meteora.

Events of concentrated pools have prices and liquidity; here these are computed from the reserves of
a constant product.
"""

from base64 import b64encode
from math import floor, isqrt, log
from typing import Final, TypeVar

from mintscope_devchain.addresses import (
    MEMO,
    METEORA_DLMM,
    METEORA_DLMM_EVENTS,
    OPENBOOK,
    RAYDIUM_CLMM,
    RAYDIUM_V4,
    RAYDIUM_V4_AUTHORITY,
    SPL,
    SPL_2022,
    WHIRLPOOL,
    raw,
)
from mintscope_devchain.market.pool import BASIS_POINTS, FEE_BPS, Fill, Pool, Reserves, Venue
from mintscope_devchain.shapes import spl
from mintscope_devchain.shapes.bytes import anchor, emit, event, i32, keys, u8, u64, u128
from mintscope_devchain.transaction import Invocation, logged

SWAP_BASE_IN: Final = 9
LOG_SWAP_BASE_IN: Final = 3
QUOTE_TO_BASE = 1
BASE_TO_QUOTE = 2
TICK_BASE: Final = 1.0001
BIN_STEP: Final = 1.001
DLMM_FEE_RATE: Final = FEE_BPS[Venue.METEORA_DLMM] * 10**9 // BASIS_POINTS

T = TypeVar("T")


def raydium_v4(fill: Fill) -> Invocation:
    """Return the instruction SwapBaseIn of Raydium's v4 AMM that makes the trade *fill*.

    Its log has the line `ray_log`.
    """
    pool = fill.pool
    amounts = u64(fill.amount_in, _minimum(fill))
    direction = QUOTE_TO_BASE if fill.is_buy else BASE_TO_QUOTE
    reported = u64(direction, fill.amount_in, *fill.reserves, fill.amount_out)
    ray_log = b64encode(u8(LOG_SWAP_BASE_IN) + amounts + reported).decode()
    authority = RAYDIUM_V4_AUTHORITY
    return Invocation(
        RAYDIUM_V4,
        (
            *(SPL, pool.address, authority, *pool.parts[:2], pool.base_vault, pool.quote_vault),
            *(OPENBOOK, *pool.parts[2:9], fill.source, fill.target, fill.trader),
        ),
        u8(SWAP_BASE_IN) + amounts,
        says=f"ray_log: {ray_log}",
        inner=(
            spl.transfer(fill.source, fill.vault_in, fill.amount_in, fill.trader, fill.received),
            spl.transfer(fill.vault_out, fill.target, fill.amount_out, authority, fill.paid),
        ),
        fill=fill,
    )


def raydium_clmm(fill: Fill) -> Invocation:
    """Return the instruction swap_v2 of Raydium's concentrated AMM that makes the trade *fill*."""
    pool = fill.pool
    first, second = _ordered(pool, *fill.amounts)
    zero, one = _ordered(pool, *fill.after)
    reported = b"".join(
        (
            event("SwapEvent") + keys(pool.address, fill.trader, *_ordered(pool, *fill.held)),
            u64(first, 0, second, 0) + u8(_is_from_first(fill)),
            u128(_sqrt_price_x64(pool, fill.after), isqrt(zero * one)),
            i32(floor(log(one / zero) / log(TICK_BASE))),
        )
    )
    accounts = (
        *(fill.trader, pool.parts[0], pool.address, fill.source, fill.target),
        *(fill.vault_in, fill.vault_out, pool.parts[1], SPL, SPL_2022, MEMO),
        *(fill.received.mint, fill.paid.mint, *pool.parts[2:5]),
    )
    data = u64(fill.amount_in, _minimum(fill)) + u128(0) + u8(1)
    inner = spl.exchange(fill)
    swap = anchor(RAYDIUM_CLMM, "swap_v2", accounts, data)
    return swap._replace(inner=inner, log=(logged(reported),), fill=fill)


def whirlpool(fill: Fill) -> Invocation:
    """Return the instruction swap_v2 of an Orca Whirlpool that makes the trade *fill*.

    Its event in the log has the form used since 2025.
    """
    pool = fill.pool
    is_from_first = u8(_is_from_first(fill))
    a, b = _ordered(pool, pool.base, pool.quote)
    vault_a, vault_b = _ordered(pool, pool.base_vault, pool.quote_vault)
    held_a, held_b = _ordered(pool, *fill.held)
    fee = fill.amount_in * FEE_BPS[Venue.WHIRLPOOL] // BASIS_POINTS
    prices = u128(_sqrt_price_x64(pool, fill.reserves), _sqrt_price_x64(pool, fill.after))
    amounts = u64(fill.amount_in, fill.amount_out, 0, 0, fee, 0)
    reported = event("Traded") + keys(pool.address) + is_from_first + prices + amounts
    accounts = (
        *(a.program, b.program, MEMO, fill.trader, pool.address, a.mint, b.mint),
        *(held_a, vault_a, held_b, vault_b, *pool.parts[:4]),
    )
    data = u64(fill.amount_in, _minimum(fill)) + u128(0) + u8(1) + is_from_first + u8(0)
    inner = spl.exchange(fill)
    swap = anchor(WHIRLPOOL, "swap_v2", accounts, data)
    return swap._replace(inner=inner, log=(logged(reported),), fill=fill)


def meteora_dlmm(fill: Fill) -> Invocation:
    """Return a swap in the bins of a Meteora DLMM pool; token X is the base, Y the quote."""
    pool = fill.pool
    fee = fill.amount_in * FEE_BPS[Venue.METEORA_DLMM] // BASIS_POINTS
    reported = b"".join(
        (
            event("Swap") + keys(pool.address, fill.trader),
            i32(_bin_id(fill.reserves), _bin_id(fill.after)),
            u64(fill.amount_in, fill.amount_out) + u8(not fill.is_buy),
            u64(fee, fee // 20) + u128(DLMM_FEE_RATE) + u64(0),
        )
    )
    accounts = (
        *(pool.address, METEORA_DLMM, pool.base_vault, pool.quote_vault),
        *(fill.source, fill.target, pool.base.mint, pool.quote.mint, pool.parts[0]),
        *(METEORA_DLMM, fill.trader, pool.base.program, pool.quote.program),
        *(METEORA_DLMM_EVENTS, METEORA_DLMM, *pool.parts[1:4]),
    )
    data = u64(fill.amount_in, _minimum(fill))
    inner = (*spl.exchange(fill), emit(METEORA_DLMM, METEORA_DLMM_EVENTS, reported))
    return anchor(METEORA_DLMM, "swap", accounts, data)._replace(inner=inner, fill=fill)


def starts_with_base(pool: Pool) -> bool:
    """Return whether the pool's base is its token 0 (or A): the mint whose bytes are lower."""
    return raw(pool.base.mint) < raw(pool.quote.mint)


def _ordered(pool: Pool, base: T, quote: T) -> tuple[T, T]:
    """Return *base* and *quote* in the order in which *pool* stores its tokens."""
    return (base, quote) if starts_with_base(pool) else (quote, base)


def _is_from_first(fill: Fill) -> bool:
    """Return whether the trader pays with the token that the pool stores as token 0 (or A)."""
    return starts_with_base(fill.pool) is not fill.is_buy


def _minimum(fill: Fill) -> int:
    return fill.amount_out * 99 // 100


def _sqrt_price_x64(pool: Pool, reserves: Reserves) -> int:
    """Return the square root of token 0's price in token 1, times 2**64, as pools store it."""
    zero, one = _ordered(pool, *reserves)
    return isqrt((one << 128) // zero)


def _bin_id(reserves: Reserves) -> int:
    """Return the number of Meteora's bin (a range of prices) for the price of these reserves."""
    return floor(log(reserves.quote / reserves.base) / log(BIN_STEP))
