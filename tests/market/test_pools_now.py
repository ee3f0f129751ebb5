"""The pools of a token: the volume of each, and the price move of a possible trade."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.log import Evidence, LogTip, PricedSwap, SwapDetail
from mintscope.market.series.pools import (
    KeptPools,
    LoggedSwap,
    PoolFlow,
    SwapPlace,
    move_of,
    pools_of,
)
from mintscope.market.standing import Offer, Standing, stand
from mintscope.solana.blocks import JITOSOL, USDC, WSOL

NOW = UnixS(1_760_000_040)
MINT = Mint("mint")


def offered(*offers: Offer) -> Standing:
    standing: Standing | None = None
    for offer in offers:
        standing, _ = stand(standing, offer)
    assert standing is not None
    return standing


def offer(pool: str, at: int, usd: float, depth: int | None, signer: str) -> Offer:
    return Offer(pool, signer * 8, usd, usd / 100, 10**7, depth, UnixS(at))


def logged(  # noqa: PLR0913 - what differs
    pool: str, at: int, micro_usd: int, venue: str, signer: str, *, is_buy: bool, quote: Mint = USDC
) -> LoggedSwap:
    detail = SwapDetail(Signature("s"), venue, 1, 0, quote, 1, 0)
    swap = PricedSwap(
        MINT, 0, 0, -1, 0, is_buy=is_buy, volume=micro_usd, price_usd=1.0, price_sol=0.01,
        pool=pool, detail=detail, evidence=Evidence(None, micro_usd, signer),
    )  # fmt: skip
    return LoggedSwap(SwapPlace(Slot(at), 0, 0, -1, 0), UnixS(at), swap)


def test_each_pool_has_its_liquidity_and_its_traded_volume() -> None:
    begin = NOW - 1_000
    deep = [offer("deep", begin + 10 * n, 1.0, 900 * 10**9, "pqr"[n % 3]) for n in range(95)]
    thin = [offer("thin", begin + 10 * n, 1.5, 10**9, "pqr"[n % 3]) for n in range(95)]
    blind = [offer("blind", begin, 1.0, None, "p")]
    standing = offered(*sorted(deep + thin + blind, key=lambda one: one.time))
    swaps = [
        logged("deep", NOW - 1, 5_000_000, "pumpswap", "one", is_buy=True),
        logged("deep", NOW - 299, 3_000_000, "pumpswap", "one", is_buy=False),
        logged("thin", NOW - 300, 2_000_000, "meteora_dlmm", "two", is_buy=True),
        logged("deep", NOW - 301, 1_000_000, "pumpswap", "three", is_buy=False),
    ]

    first, *others = pools_of(standing, swaps, NOW)

    assert (first.pool, first.venue, first.quote) == ("deep", "pumpswap", USDC)
    assert (first.weight, first.agrees, first.quote_usd, first.token_usd) == (1.0, True, 9e5, 9e5)
    assert first.newest == PoolFlow(8_000_000, 5_000_000, 2, 1)
    assert first.kept == PoolFlow(9_000_000, 5_000_000, 3, 2)
    assert not first.is_estimate
    thin_now, blind_now = others
    assert (thin_now.pool, thin_now.weight, thin_now.agrees) == ("thin", 0.0, False)
    assert (thin_now.quote_usd, thin_now.token_usd, thin_now.is_estimate) == (1e3, None, True)
    assert thin_now.newest == PoolFlow()
    assert (blind_now.venue, blind_now.quote_usd, blind_now.moves) == (None, None, [])


@pytest.mark.parametrize(
    ("quote", "is_exact"), [(WSOL, True), (USDC, True), (JITOSOL, True), (Mint("other"), False)]
)
def test_a_pool_that_is_quoted_in_another_token_has_no_exact_moves(
    quote: Mint, *, is_exact: bool
) -> None:
    """The log limits its reserve by the liquidity of that token, so the moves can be smaller."""
    standing = offered(offer("deep", NOW - 10, 1.0, 10**9, "p"))
    swaps = [logged("deep", NOW - 1, 5_000_000, "pumpswap", "one", is_buy=True, quote=quote)]

    (pool,) = pools_of(standing, swaps, NOW)

    assert pool.quote_usd == 1e3
    assert pool.token_usd == (1e3 if is_exact else None)
    assert pool.moves[0] == move_of(1e3, 100)
    assert pool.is_estimate is not is_exact


def test_swaps_without_a_logged_signer_count_as_no_trader() -> None:
    standing = offered(offer("deep", NOW - 10, 1.0, 10**9, "p"))
    swaps = [
        logged("deep", NOW - 1, 5_000_000, "pumpswap", "one", is_buy=True),
        logged("deep", NOW - 2, 3_000_000, "pumpswap", "", is_buy=True),
    ]

    (pool,) = pools_of(standing, swaps, NOW)

    assert pool.newest == PoolFlow(8_000_000, 8_000_000, swaps=2, traders=1)


def test_the_fee_is_from_the_newest_swap_or_else_from_the_venue() -> None:
    standing = offered(*(offer(pool, NOW - 9, 1.0, 10**9, pool) for pool in "abcd"))
    kept = KeptPools(
        tip=LogTip(seq=1, slot=Slot(9), time=NOW, follows_files=False),
        time=NOW,
        standing=None,
        booked=[
            BookedPool("a", NOW, 0, venue="pumpswap", fee_bps=115),
            BookedPool("b", NOW, 0, venue="pumpfun", fee_bps=0),
            BookedPool("c", NOW, 0, venue="raydium_v4"),
            BookedPool("d", NOW, 0, venue="pumpswap"),
        ],
        rows=[],
    )

    fees = {one.pool: one.fee for one in pools_of(standing, [], NOW, kept)}

    assert fees == {"a": 0.0115, "b": 0.0, "c": 0.0025, "d": None}


@given(st.integers(1, 10**9), st.sampled_from((100, 1_000, 10_000)))
def test_a_trade_moves_a_constant_product_exactly(quote_usd: int, usd: int) -> None:
    """The expected move is computed exactly, from reserves x and y whose product stays the same."""
    x, y = Fraction(quote_usd), Fraction(quote_usd, 2)  # at two dollars a token
    before = x / y
    bought = (x + usd) / (x * y / (x + usd))
    sold_y = y + usd / before
    sold = (x * y / sold_y) / sold_y

    move = move_of(float(quote_usd), usd)

    assert move.buy == pytest.approx(float(bought / before - 1), rel=1e-9)
    assert move.sell == pytest.approx(float(1 - sold / before), rel=1e-9)
