"""Mints that trade enough are tracked, and no longer tracked once they have stopped trading."""

import pytest

from mintscope.kit.primitives import UnixS
from mintscope.market.ports import Activity, Floor, count, day_of, is_dead, is_lively

FLOOR = Floor(swaps_min=3, volume_min=1_000, dead_after_days=2)


def traded(*slots: tuple[int, int, int]) -> Activity:
    """Return the activity of a mint after *slots*, tuples of (day, swaps, volume)."""
    activity: Activity | None = None
    for day, swaps, volume in slots:
        activity = count(activity, day=day, swaps=swaps, volume=volume, floor=FLOOR)
    assert activity is not None
    return activity


@pytest.mark.parametrize(
    ("slots", "lively"),
    [
        ([(5, 3, 1_000)], True),
        ([(5, 1, 500), (5, 2, 500)], True),
        ([(5, 2, 9_999)], False),  # two big swaps are no market
        ([(5, 99, 999)], False),
        ([(5, 2, 900), (6, 2, 900)], False),  # every day counts for itself
        ([(5, 3, 1_000), (6, 1, 1)], False),
    ],
)
def test_a_mint_is_lively_once_a_day_reaches_the_floor(
    slots: list[tuple[int, int, int]], *, lively: bool
) -> None:
    assert is_lively(traded(*slots)) is lively


@pytest.mark.parametrize(("today", "dead"), [(5, False), (7, False), (8, True)])
def test_a_mint_is_dead_after_its_days(today: int, *, dead: bool) -> None:
    activity = traded((5, 3, 1_000), (6, 1, 1))

    assert is_dead(activity, today=today, floor=FLOOR) is dead


def test_a_mint_that_never_was_lively_is_dead() -> None:
    assert is_dead(traded((5, 1, 1)), today=5, floor=FLOOR)


def test_days_are_utc() -> None:
    assert (day_of(UnixS(86_399)), day_of(UnixS(86_400))) == (0, 1)


@pytest.mark.parametrize("zero", ["swaps_min", "volume_min", "dead_after_days"])
def test_a_floor_is_positive(zero: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        Floor(**{"swaps_min": 1, "volume_min": 1, "dead_after_days": 1, zero: 0})
