"""Volume profiles agree with a slow definition, and with examples computed by hand."""

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.market.indicators.profile import BINS_MAX, volume_profile

Line = tuple[int, int, int]  # low, high and volume


def lines() -> st.SearchStrategy[list[Line]]:
    line = st.tuples(st.integers(1, 60), st.integers(0, 30), st.integers(0, 50))
    return st.lists(line.map(lambda of: (of[0], of[0] + of[1], of[2])), min_size=1, max_size=30)


def slow_bins(candles: list[Line], count: int) -> list[Fraction]:
    """Return the exact volume in each of *count* equal price bins, lowest first.

    If all prices are equal, there is one bin.
    """
    bottom = min(low for low, _, _ in candles)
    top = max(high for _, high, _ in candles)
    count = count if top > bottom else 1
    wide = Fraction(top - bottom, count)
    found = [Fraction(0)] * count
    for low, high, volume in candles:
        if low == high:
            place = 0 if not wide else min(count - 1, int((low - bottom) / wide))
            found[place] += volume
            continue
        for n in range(count):
            shared = min(Fraction(high), bottom + (n + 1) * wide) - max(
                Fraction(low), bottom + n * wide
            )
            found[n] += volume * max(Fraction(0), shared) / (high - low)
    return found


def slow_area(volumes: list[Fraction]) -> tuple[int, int, int]:
    """Return the bin with the most volume, and the first and last bin of the 70 % around it."""
    control = volumes.index(max(volumes))
    first = last = control
    while sum(volumes[first : last + 1]) < Fraction(7, 10) * sum(volumes):
        above = volumes[last + 1 : last + 3]
        below = volumes[max(0, first - 2) : first]
        if above and (not below or sum(above) >= sum(below)):
            last += len(above)
        else:
            first -= len(below)
    return control, first, last


def test_the_profile_of_a_recorded_series_agrees_with_exact_fractions(shared_data: Path) -> None:
    """The series has 4,063 candles of one second, with prices in cents and volumes in satoshis."""
    path = shared_data / "ohlcv" / "candles" / "lean_coinbase_btcusd_1s_20161007.csv"
    if not path.is_file():
        pytest.skip(f"did not run: the candles are not there: {path}")
    with path.open() as file:
        candles = [
            (
                round(100 * float(row["low"])),
                round(100 * float(row["high"])),
                round(10**8 * float(row["volume"])),
            )
            for row in csv.DictReader(file)
        ]
    assert len(candles) == 4_063
    for count in (1, 24):
        found = profile(candles, count)
        expected = slow_bins(candles, count)
        assert found.volumes == pytest.approx([float(each) for each in expected], rel=1e-9)
        assert (found.control, found.first, found.last) == slow_area(expected)


def profile(candles: list[Line], count: int) -> Any:
    low, high, volume = np.array(candles, float).T
    return volume_profile(high, low, volume, count)


@settings(max_examples=300, deadline=None)
@given(lines(), st.sampled_from((1, 2, 4, 8, 16, 64)))
def test_bins_have_the_volume_at_their_prices(candles: list[Line], count: int) -> None:
    found = profile(candles, count)
    expected = slow_bins(candles, count)
    if not sum(expected):
        assert found is None
        return
    assert found.volumes == pytest.approx([float(each) for each in expected], rel=1e-9, abs=1e-9)
    assert found.volumes[found.control] == max(found.volumes)
    area = sum(found.volumes[found.first : found.last + 1])
    assert found.first <= found.control <= found.last
    assert area >= 0.7 * sum(found.volumes) * (1 - 1e-12)


def test_the_value_area_grows_by_the_larger_pair() -> None:
    """The bins have the volumes 5, 10, 20, 60, 30, 10, 40, 25: of 200 in total, 140 are 70 %."""
    volumes = [5, 10, 20, 60, 30, 10, 40, 25]
    candles = [(n, n + 1, volume) for n, volume in enumerate(volumes, 1)]
    found = profile(candles, len(volumes))
    assert found.edges == list(range(1, 10))
    # 60; above 30 + 10, below 10 + 20: 100; above 40 + 25, below 30: 165
    assert (found.control, found.first, found.last) == (3, 3, 7)


def test_one_price_is_one_bin_and_equal_bins_prefer_the_lowest() -> None:
    found = profile([(7, 7, 3)], BINS_MAX)
    assert (found.edges, found.volumes) == ([7.0, 7.0], [3.0])
    found = profile([(1, 2, 5), (2, 3, 5), (3, 4, 5)], 3)
    assert (found.control, found.first, found.last) == (0, 0, 2)
