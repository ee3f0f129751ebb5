"""The payment token's market: its candles, its swaps that are in no candle yet, and its pools."""

from collections.abc import Sequence

import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import CandleRow, LoadedMint, PricedSwap, TailSwap
from mintscope.market.timeframe import Timeframe
from mintscope.payments.price_cache import TokenReserves, market_of, minutes_of
from mintscope.payments.pricing import Minute
from mintscope.solana.blocks import PYUSD, USDC, WSOL
from support.fakes.made_chain import swap as made_swap
from support.scenes.sol_pools import SolMarket, sale

TOKEN = Mint("7" * 32)
START = 1_800_000_000


def candle(minute: int, close: float | None, buy: int = 0, sell: int = 0) -> CandleRow:
    count = 0 if close is None else 1
    at = UnixS(START + 60 * minute)
    return CandleRow(at, close, close, close, close, buy, sell, count)


def swap(second: int, price: float | None, volume: int, *, folded: bool = False) -> TailSwap:
    priced = PricedSwap(TOKEN, 0, 0, 0, 0, True, volume, price, None if price is None else 1.0)  # noqa: FBT003
    return TailSwap(Slot(second), UnixS(START + second), folded, priced)


def loaded(candles: list[CandleRow], tail: list[TailSwap]) -> LoadedMint:
    frames: dict[Timeframe, Sequence[CandleRow]] = {timeframe: [] for timeframe in Timeframe} | {
        Timeframe.M1: candles
    }
    return LoadedMint(mint=TOKEN, seq=1, state=None, candles=frames, minutes=[], tail=tail)


def test_minutes_combine_stored_candles_and_unfolded_swaps() -> None:
    kept = [candle(0, 0.2, 5, 6), candle(2, 0.3, 7, 0)]
    tail = [
        swap(10, 9.9, 99, folded=True),
        swap(150, 0.4, 3),
        swap(170, None, 50),
        swap(190, 0.5, 4),
    ]

    assert minutes_of(loaded(kept, tail)) == [
        Minute(start=UnixS(START), close=0.2, volume=11),
        Minute(start=UnixS(START + 120), close=0.4, volume=10),
        Minute(start=UnixS(START + 180), close=0.5, volume=4),
    ]


def test_both_sides_of_the_pools_are_valued_in_usd() -> None:
    token = loaded([candle(0, 0.25)], [])
    sol = loaded([candle(0, 160.0)], [])
    reserves = TokenReserves(
        base=4_000_000_000, quotes={WSOL: 5 * 10**9, USDC: 200_000_000, TOKEN: 7}
    )

    market = market_of(token, sol, reserves, decimals=6, lag_s=3.0)

    assert (market.base_usd, market.quote_usd) == (1_000.0, 1_000.0)
    assert market.lag_s == 3.0


def test_each_dollar_token_is_worth_one_dollar() -> None:
    nothing = loaded([], [])
    reserves = TokenReserves(base=1, quotes={PYUSD: 7_000_000, USDC: 1_000_000, TOKEN: 5_000_000})

    market = market_of(nothing, nothing, reserves, decimals=6, lag_s=0)
    assert market.quote_usd == 8.0
    chosen = market_of(
        nothing, nothing, reserves, decimals=6, lag_s=0, dollars=frozenset({USDC, TOKEN})
    )
    assert chosen.quote_usd == 6.0


def test_a_single_trade_does_not_set_the_value_of_sol() -> None:
    sol = loaded([*(candle(minute, 160.0) for minute in range(5)), candle(5, 16_000.0)], [])
    reserves = TokenReserves(base=1, quotes={WSOL: 10**9})

    assert market_of(loaded([], []), sol, reserves, decimals=6, lag_s=0).quote_usd == 160.0


def test_both_sides_are_worth_zero_without_a_price() -> None:
    nothing = loaded([candle(0, None, 4, 5)], [])
    reserves = TokenReserves(base=10**12, quotes={WSOL: 10**12})

    market = market_of(nothing, nothing, reserves, decimals=6, lag_s=0)

    assert (market.minutes, market.base_usd, market.quote_usd) == ([], 0.0, 0.0)


@pytest.mark.parametrize("depth", [1_000_000, 100_000_000])
def test_a_manipulated_sol_pool_does_not_move_the_payment_token_price(depth: int) -> None:
    """Neither the token's price, paid in SOL, nor the value of the SOL in its pools changes."""
    market = SolMarket(has_standing=True)
    tails: dict[str, list[TailSwap]] = {TOKEN: [], WSOL: []}
    for second in range(300):
        own = [
            sale("own", 156.0, signer=f"{second % 9}", depth=depth, sol=10_000.0, at=10 + at)
            for at in range(3 if second >= 60 else 0)
        ]
        bought = made_swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, index=30)
        market.slot(START + second, [*market.honest(), *own, bought._replace(pool="token")])
        for one in market.priced:
            tails[one.mint].append(TailSwap(Slot(second), UnixS(START + second), False, one))  # noqa: FBT003

    token, sol = loaded([], tails[TOKEN]), loaded([], tails[WSOL])
    reserves = TokenReserves(base=10**9, quotes={WSOL: 10**9})
    sides = market_of(token, sol, reserves, decimals=6, lag_s=0)
    closes = [minute.close for minute in sides.minutes]
    assert closes == pytest.approx([0.15] * 5, rel=0.001)
    assert sides.quote_usd == pytest.approx(150.0, rel=0.001)
    assert sides.base_usd == pytest.approx(150.0, rel=0.001)
