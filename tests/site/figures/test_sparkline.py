"""The small line beside a token."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mintscope.site.figures import HEIGHT, WIDTH, sparkline


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", svg)]


@given(st.lists(st.floats(min_value=1e-12, max_value=1e12), min_size=1, max_size=200))
def test_it_stays_in_its_box_and_rises_where_the_values_do(values: list[float]) -> None:
    drawn = sorted(set(points(sparkline(values))))

    assert len(drawn) == len(values)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn)
    for (before, y0), (after, y1) in zip(
        zip(values, drawn, strict=True), list(zip(values, drawn, strict=True))[1:], strict=False
    ):
        if after > before:
            assert y1[1] <= y0[1]


def test_its_colour_is_that_of_the_whole_way() -> None:
    assert 'class="spark up"' in sparkline([1.0, 0.5, 2.0])
    assert 'class="spark down"' in sparkline([2.0, 3.0, 1.0])
    assert 'class="spark level"' in sparkline([])


def test_a_gap_is_not_drawn_across() -> None:
    assert sparkline([1.0, 2.0, None, 3.0, 4.0]).count("M") == 2


def test_what_was_not_traded_is_dotted() -> None:
    drawn = re.findall(r'<path( class="quiet")? d="([^"]*)"', sparkline([1.0, 1.0, 2.0, 3.0, 3.0]))

    assert drawn == [
        ("", "M30.0 30.0L60.0 16.0L90.0 2.0"),
        (' class="quiet"', "M0.0 30.0L30.0 30.0M90.0 2.0L120.0 2.0"),
    ]


def test_it_is_never_read_out() -> None:
    assert 'aria-hidden="true"' in sparkline([1.0, 2.0])
