"""The sparkline of a token: a small line of its prices."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mintscope.site.figures import HEIGHT, WIDTH, sparkline


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", svg)]


@given(st.lists(st.floats(min_value=1e-12, max_value=1e12), min_size=1, max_size=200))
def test_a_sparkline_stays_in_its_box_and_rises_with_its_values(values: list[float]) -> None:
    drawn = sorted(set(points(sparkline(values))))

    assert len(drawn) == len(values)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn)
    for (before, y0), (after, y1) in zip(
        zip(values, drawn, strict=True), list(zip(values, drawn, strict=True))[1:], strict=False
    ):
        if after > before:
            assert y1[1] <= y0[1]


def test_the_class_of_a_sparkline_compares_its_last_value_with_its_first() -> None:
    assert 'class="spark up"' in sparkline([1.0, 0.5, 2.0])
    assert 'class="spark down"' in sparkline([2.0, 3.0, 1.0])
    assert 'class="spark level"' in sparkline([])


def test_a_sparkline_is_interrupted_at_a_gap() -> None:
    assert sparkline([1.0, 2.0, None, 3.0, 4.0]).count("M") == 2


def test_spans_without_a_change_are_drawn_as_quiet() -> None:
    drawn = re.findall(r'<path( class="quiet")? d="([^"]*)"', sparkline([1.0, 1.0, 2.0, 3.0, 3.0]))

    assert drawn == [
        ("", "M30.0 30.0L60.0 16.0L90.0 2.0"),
        (' class="quiet"', "M0.0 30.0L30.0 30.0M90.0 2.0L120.0 2.0"),
    ]


def test_a_sparkline_is_hidden_from_screen_readers() -> None:
    assert 'aria-hidden="true"' in sparkline([1.0, 2.0])
