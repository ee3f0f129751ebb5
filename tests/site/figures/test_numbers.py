"""Numbers on pages: short in print, whole for screen readers, and always the same number."""

import re
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.site.figures import (
    dollars,
    nice_steps,
    percent,
    price,
    short_amount,
    short_price,
    whole_number,
)

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


def read_back(text: str) -> Decimal:
    """Return the number that *text* shows, without the code under test."""
    counted = re.fullmatch("(\N{MINUS SIGN}?)0[.]0([₀-₉]+)([0-9]+)", text)
    if counted is None:
        return Decimal(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
    sign, zeros, digits = counted.groups()
    count = int("".join(str(SUBSCRIPTS.index(each)) for each in zeros))
    return Decimal(f"{'-' if sign else ''}0.{'0' * count}{digits}")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.000022584, "0.0₄22584"),
        (1.406e-13, "0.0₁₂14060"),
        (0.00022584, "0.00022584"),
        (0.0123456, "0.012346"),
        (0.5, "0.50000"),
        (1.0003, "1.0003"),
        (9.999996, "10.000"),
        (171.2943, "171.29"),
        (98765.4321, "98,765.43"),
        (-0.000022584, "\N{MINUS SIGN}0.0₄22584"),
        (0.0, "0"),
    ],
)
def test_a_price_is_short(value: float, shown: str) -> None:
    assert short_price(value) == shown


@given(st.floats(min_value=1e-30, max_value=1e14))
def test_a_short_price_is_the_price_to_five_digits(value: float) -> None:
    assert abs(read_back(short_price(value)) - Decimal(value)) <= Decimal(value) * Decimal("5.1e-5")


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_a_whole_number_is_the_number_itself_without_an_exponent(value: float) -> None:
    text = whole_number(value)

    assert float(text) == value
    assert re.fullmatch(r"-?\d+(\.\d+)?", text)


def test_a_screen_reader_gets_the_whole_price() -> None:
    html = price(0.000022584)

    assert '<span aria-hidden="true">$0.0₄22584</span>' in html
    assert '<span class="unseen">$0.000022584</span>' in html


def test_the_unit_of_a_price_follows_its_number() -> None:
    assert "0.00014060 SOL" in price(0.0001406, "SOL")


def test_an_unknown_number_is_shown_as_a_dash() -> None:
    for html in (price(None), dollars(None), percent(None)):
        assert "\N{EN DASH}" in html
        assert "0" not in html


@pytest.mark.parametrize(
    ("fraction", "kind", "shown"),
    [
        (0.0186, "up", "+1.86&nbsp;%"),
        (-0.0186, "down", "\N{MINUS SIGN}1.86&nbsp;%"),
        (0.00001, "level", "0.00&nbsp;%"),
        (41.5, "up", "+4,150&nbsp;%"),
    ],
)
def test_a_change_has_a_sign_and_a_colour(fraction: float, kind: str, shown: str) -> None:
    assert percent(fraction) == f'<span class="{kind}">{shown}</span>'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.00"),
        (0.004, "0.0040000"),
        (999.96, "1.00k"),
        (1_254_000.0, "1.25M"),
        (12_540_000.0, "12.5M"),
        (-5400.0, "\N{MINUS SIGN}5.40k"),
        (3e12, "3.00T"),
    ],
)
def test_an_amount_has_three_digits(value: float, shown: str) -> None:
    assert short_amount(value) == shown


@given(
    st.floats(min_value=0, max_value=1e9),
    st.floats(min_value=1e-9, max_value=1e9),
    st.integers(2, 9),
)
def test_axis_steps_are_even_inside_the_range_and_about_as_many_as_requested(
    low: float, span: float, count: int
) -> None:
    high = low + max(span, low * 1e-6)
    steps = nice_steps(low, high, count)

    assert count // 2 <= len(steps) <= count + 1
    assert all(low * (1 - 1e-9) <= each <= high * (1 + 1e-9) for each in steps)
    distances = [after - before for before, after in pairwise(steps)]
    for distance in distances:
        assert distance == pytest.approx(distances[0], rel=1e-6)
        assert float(f"{distance:.5e}".partition("e")[0]) in {1.0, 2.0, 2.5, 5.0}
        assert steps[0] / distance == pytest.approx(round(steps[0] / distance), rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "count", "steps"),
    [
        (0.0, 10.0, 5, [2.0, 4.0, 6.0, 8.0, 10.0]),
        (2.0, 12.0, 5, [4.0, 6.0, 8.0, 10.0, 12.0]),
        (0.9, 2.1, 4, [1.0, 1.5, 2.0]),
        (5.0, 5.0, 5, []),
    ],
)
def test_axis_steps_are_above_the_low_end_and_up_to_the_high_end(
    low: float, high: float, count: int, steps: list[float]
) -> None:
    assert nice_steps(low, high, count) == steps
