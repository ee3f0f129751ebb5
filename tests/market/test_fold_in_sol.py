"""Candles in SOL have the prices of their swaps, or no prices if some of these are unknown."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.fold import MintFold, merged
from mintscope.market.timeframe import Timeframe
from support.fakes.log import Kept, Timed
from support.oracles.definitions import WIDTHS
from support.scenes import made_swaps

seeds = st.integers(0, 2**32)
gaps = st.sampled_from((0.0, 2.0, 60.0, 3000.0))
Prices = tuple[float | None, ...]


def timed(seed: int, length: int, gap_s: float) -> list[Timed]:
    trades = made_swaps.stream(seed, length, gap_s)
    return [(UnixS(trade.time), made_swaps.swap(trade)) for trade in trades]


def expected(swaps: list[Timed], width: int) -> dict[int, Prices]:
    """Return the SOL candles of swaps with a price: open, high, low and close, by start."""
    found: dict[int, list[float]] = {}
    for time, swap in swaps:
        if swap.price_usd is not None and swap.price_sol is not None:
            found.setdefault(time - time % width, []).append(swap.price_sol)
    return {at: (of[0], max(of), min(of), of[-1]) for at, of in found.items()}


def in_sol(kept: Kept, timeframe: Timeframe) -> dict[int, Prices]:
    return {
        row.bucket: (row.open_sol, row.high_sol, row.low_sol, row.close_sol)
        for row in kept.rows[timeframe].values()
        if row.count
    }


@settings(max_examples=30, derandomize=True)
@given(seeds, st.integers(1, 300), gaps, st.integers(1, 40))
def test_candles_in_sol_agree_with_the_swaps_for_any_number_of_writes(
    seed: int, length: int, gap_s: float, step: int
) -> None:
    swaps, kept = timed(seed, length, gap_s), Kept()
    for at in range(0, length, step):
        kept.fold(swaps[at : at + step])

    for timeframe in Timeframe:
        assert in_sol(kept, timeframe) == expected(swaps, WIDTHS[timeframe])


def test_a_candle_has_no_prices_in_sol_if_some_of_them_are_unknown() -> None:
    kept, step = Kept(), 150
    swaps = timed(3, 300, 0.1)
    kept.fold(swaps[:step])
    kept.in_sol = None  # as an earlier version wrote it
    kept.fold(swaps[step:])

    for timeframe in Timeframe:
        width = WIDTHS[timeframe]
        [cut] = {at for at, prices in in_sol(kept, timeframe).items() if prices[0] is None}
        assert cut == max(expected(swaps[:step], width))
        known = expected(swaps, width)
        assert in_sol(kept, timeframe) == known | {cut: (None,) * 4}


def test_prices_in_sol_of_another_state_are_not_used() -> None:
    swaps, earlier, later = timed(4, 300, 1.0), Kept(), Kept()
    earlier.fold(swaps[:100])
    later.fold(swaps[:101])

    fold = MintFold.from_state(later.state, earlier.in_sol)

    assert all(frame.candle is not None for frame in fold.frames.values())
    for frame in fold.frames.values():
        assert frame.candle is None or frame.candle.open_sol != frame.candle.open_sol


@settings(max_examples=20, derandomize=True)
@given(seeds, st.integers(1, 200), gaps, st.floats(0, 1))
def test_rows_merged_with_the_tail_equal_the_rows_folded_later(
    seed: int, length: int, gap_s: float, part: float
) -> None:
    swaps, kept = timed(seed, length, gap_s), Kept()
    cut = round(length * part)
    kept.fold(swaps[:cut])
    ahead = {
        timeframe: merged(kept.state, kept.in_sol, timeframe, swaps[cut:])
        for timeframe in Timeframe
    }
    kept.fold(swaps[cut:])

    for timeframe, rows in ahead.items():
        assert rows == [kept.rows[timeframe][row.bucket] for row in rows]
