"""The fold of final slots writes the rows that slow definitions give, and loses none."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.fold import MintFold, read_state
from mintscope.market.log import CandleRow, LoadedMint, PricedSwap
from mintscope.market.timeframe import Timeframe
from support.fakes.log import Kept, Timed
from support.oracles import definitions
from support.oracles.definitions import WIDTHS, Trade
from support.scenes import made_swaps

ENGINE = Engine(2)
WHOLE, LOADED = 0, 1

seeds = st.integers(0, 2**32)
gaps = st.sampled_from((0.0, 2.0, 20.0, 60.0, 400.0, 3000.0))
fractions = st.floats(0, 1)
cuts = st.tuples(fractions, fractions)


def timed(trades: list[Trade]) -> list[Timed]:
    return [(UnixS(trade.time), made_swaps.swap(trade)) for trade in trades]


def folded(trades: list[Trade], writes: int, seed: int) -> Kept:
    """Return the stored data after *trades*, folded in about *writes* batches of random size."""
    kept, rng, at = Kept(), random.Random(seed), 0
    while at < len(trades):
        size = 1 + rng.randrange(2 * len(trades) // writes + 1)
        kept.fold(timed(trades[at : at + size]))
        at += size
    return kept


@settings(max_examples=30, derandomize=True)
@given(seeds, st.integers(1, 500), gaps, st.integers(1, 60))
def test_rows_are_the_candles_of_the_definition(
    seed: int, length: int, gap_s: float, writes: int
) -> None:
    trades = made_swaps.stream(seed, length, gap_s)
    kept = folded(trades, writes, seed)

    for timeframe in Timeframe:
        rows = kept.rows[timeframe].values()
        expected = definitions.candles(trades, WIDTHS[timeframe])
        assert [tuple(row) for row in map(as_tuple, rows) if row[-1]] == expected


def as_tuple(row: CandleRow) -> tuple[object, ...]:
    return (
        row.bucket, row.open, row.high, row.low, row.close,
        row.buy_volume, row.sell_volume, row.count,
    )  # fmt: skip


@pytest.mark.storm
@settings(max_examples=30, derandomize=True)
@given(seeds, st.integers(1, 500), gaps, st.integers(1, 60))
def test_rows_hold_every_unit_of_volume(seed: int, length: int, gap_s: float, writes: int) -> None:
    trades = made_swaps.stream(seed, length, gap_s)
    kept = folded(trades, writes, seed)

    for timeframe in Timeframe:
        expected: dict[int, list[int]] = {}
        for trade in trades:
            sums = expected.setdefault(trade.time - trade.time % WIDTHS[timeframe], [0, 0])
            sums[0 if trade.is_buy else 1] += trade.volume
        found = {row.bucket: row for row in kept.rows[timeframe].values()}
        assert {
            bucket: [row.buy_volume, row.sell_volume]
            for bucket, row in found.items()
            if row.buy_volume + row.sell_volume
        } == {bucket: sums for bucket, sums in expected.items() if any(sums)}
        unpriced = [row for row in found.values() if row.count == 0]
        assert all(row.open is row.high is row.low is row.close is None for row in unpriced)


@settings(max_examples=30, derandomize=True)
@given(seeds, st.integers(1, 500), gaps, st.integers(2, 60))
def test_the_number_of_writes_does_not_change_rows_and_state(
    seed: int, length: int, gap_s: float, writes: int
) -> None:
    trades = made_swaps.stream(seed, length, gap_s)
    often, once = folded(trades, writes, seed), Kept()
    once.fold(timed(trades))

    assert often.rows == once.rows
    assert often.state == once.state


def test_a_fold_kept_across_writes_equals_a_fold_made_from_its_state() -> None:
    trades = made_swaps.stream(5, 400, 30.0)
    fold, rows = MintFold.from_state(None), Kept().rows
    for n, (time, swap) in enumerate(timed(trades)):
        fold.apply(time, swap)
        if n % 7 == 0 or n == len(trades) - 1:
            for timeframe, touched in fold.changed().items():
                rows[timeframe].update((row.bucket, row) for row in touched)
    again = folded(trades, 50, 5)

    assert (rows, fold.state()) == (again.rows, again.state)
    assert not any(fold.changed().values())


def test_a_state_is_small_and_other_bytes_are_refused() -> None:
    state = folded(made_swaps.stream(6, 300, 60.0), 3, 6).state
    assert state is not None

    assert len(state) <= 700
    with pytest.raises(ValueError, match="expected a state of 664 bytes, was 663"):
        read_state(state[:-1])
    with pytest.raises(ValueError, match="expected state version 2, was 1"):
        read_state(b"\x01" + state[1:])
    with pytest.raises(ValueError, match="expected a state of 664 bytes, was 663"):
        MintFold.from_state(state[:-1])
    with pytest.raises(ValueError, match="expected state version 2, was 1"):
        MintFold.from_state(b"\x01" + state[1:])


def test_candles_that_contradict_the_state_are_not_loaded() -> None:
    trades = made_swaps.stream(7, 300, 60.0)
    loaded = folded(trades, 3, 7).load(made_swaps.MINT, 1, timed(trades), len(trades))
    lost = {t: rows[2:] for t, rows in loaded.candles.items()}

    with pytest.raises(ValueError, match="expected 101 m1 candles"):
        ENGINE.load(0, LoadedMint(mint=loaded.mint, seq=1, state=loaded.state, candles=lost,
                                  minutes=(), tail=()))  # fmt: skip


def test_a_hundred_candles_of_an_earlier_version_are_enough() -> None:
    trades = made_swaps.stream(7, 300, 60.0)
    now = trades[-1].time
    loaded = folded(trades, 3, 7).load(made_swaps.MINT, 1, timed(trades), len(trades))
    kept = {t: rows[-100:] for t, rows in loaded.candles.items()}
    assert len(loaded.candles[Timeframe.M1]) == 101
    ENGINE.load(LOADED, msgspec.structs.replace(loaded, candles=kept))
    ENGINE.clear(WHOLE)
    made_swaps.apply(ENGINE, WHOLE, trades)

    whole = ENGINE.snapshot(WHOLE, UnixS(now)).copy()
    assert ENGINE.snapshot(LOADED, UnixS(now)).tobytes() == whole.tobytes()
    swing = ENGINE.snapshot(LOADED, UnixS(now), leaves_out_open=True)[8:10]
    closed = kept[Timeframe.M1][:-1]
    assert swing.tolist() == [max(c.high or 0 for c in closed), min(c.low or 0 for c in closed)]


@pytest.mark.storm
@settings(max_examples=200, derandomize=True)
@given(seeds, st.one_of(st.integers(1, 60), st.integers(300, 900)), gaps, cuts, fractions)
def test_a_loaded_mint_is_bit_identical_to_a_mint_with_all_trades(
    seed: int, length: int, gap_s: float, cut_at: tuple[float, float], pause: float
) -> None:
    """The trades are folded up to one random point, loaded up to another, and then applied."""
    trades = made_swaps.stream(seed, length, gap_s)
    cut = round(length * max(cut_at))
    done = round(length * min(cut_at))
    tip = trades[max(cut - 1, 0)].time + round(pause * 2000)
    later = [t._replace(time=max(t.time, tip)) for t in trades[cut:]]
    kept = folded(trades[:done], 4, seed)
    loaded = kept.load(made_swaps.MINT, 1, timed(trades[:cut]), done)
    ENGINE.clear(WHOLE)
    ENGINE.load(LOADED, loaded)
    made_swaps.apply(ENGINE, WHOLE, trades[:cut])
    same_bits(tip)
    for trade in later:
        for row in (WHOLE, LOADED):
            made_swaps.apply(ENGINE, row, [trade])
        same_bits(trade.time)
    same_bits((later[-1].time if later else tip) + 5000)


def same_bits(now: int) -> None:
    for is_closed in (False, True):
        whole = ENGINE.snapshot(WHOLE, UnixS(now), leaves_out_open=is_closed).copy()
        loaded = ENGINE.snapshot(LOADED, UnixS(now), leaves_out_open=is_closed)
        assert loaded.tobytes() == whole.tobytes()


def test_volume_before_the_first_price_is_in_its_candle() -> None:
    fold = MintFold.from_state(None)
    unpriced = PricedSwap(made_swaps.MINT, 0, 0, -1, 0, is_buy=True, volume=7, price_usd=None,
                          price_sol=None)  # fmt: skip
    priced = PricedSwap(made_swaps.MINT, 1, 0, -1, 0, is_buy=False, volume=5, price_usd=2.0,
                        price_sol=0.01)  # fmt: skip
    fold.apply(UnixS(3600), unpriced)
    alone = CandleRow(UnixS(3600), None, None, None, None, 7, 0, 0)
    assert fold.changed() == {timeframe: [alone] for timeframe in Timeframe}
    # The state is written and read in between: volume without a row must not be lost.
    fold = MintFold.from_state(fold.state())
    fold.apply(UnixS(3630), priced)

    row = CandleRow(UnixS(3600), 2.0, 2.0, 2.0, 2.0, 7, 5, 1, *[0.01] * 4)
    assert fold.changed() == {timeframe: [row] for timeframe in Timeframe}


def test_a_mint_without_a_price_has_zeros_in_the_place_of_its_candles() -> None:
    fold = MintFold.from_state(None)
    fold.apply(UnixS(3600), PricedSwap(made_swaps.MINT, 0, 0, -1, 0, is_buy=True, volume=7,
                                       price_usd=None, price_sol=None))  # fmt: skip
    (record,) = read_state(fold.state())
    for frame in record["frames"]:
        assert frame["open_bucket"] == -1
        assert (frame["prices"].tolist(), frame["trades"]) == ([0.0] * 4, 0)


def test_a_loaded_fold_without_new_swaps_has_no_rows_to_write() -> None:
    fold = MintFold()
    fold.apply(UnixS(60), made_swaps.swap(Trade(60, 2.0, 0.01, 5, is_buy=True)))
    loaded = MintFold.from_state(fold.state())
    assert loaded.changed() == {timeframe: [] for timeframe in Timeframe}


def test_a_new_row_is_reported_once() -> None:
    """The store looks for candles to delete only if a row is new."""
    fold = MintFold()
    for time, opened in [
        (60, list(Timeframe)),
        (90, []),
        (120, [Timeframe.M1]),
        (300, [Timeframe.M1, Timeframe.M5]),
        (3_600, list(Timeframe)),
    ]:
        fold.apply(UnixS(time), made_swaps.swap(Trade(time, 2.0, 0.01, 5, is_buy=True)))
        fold.changed()
        assert fold.opened() == opened
        assert fold.opened() == []
        again = MintFold.from_state(fold.state())
        again.apply(UnixS(time), made_swaps.swap(Trade(time, 3.0, 0.01, 5, is_buy=True)))
        again.changed()
        assert again.opened() == []


def test_a_swap_without_volume_and_price_makes_no_row() -> None:
    fold = MintFold()
    fold.apply(UnixS(60), made_swaps.swap(Trade(60, None, None, 0, is_buy=True)))

    assert not any(fold.changed().values())
    assert fold.opened() == []
