"""The drawn chart: all marks are inside the plot, and the chart has a label."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from typing_extensions import override

from mintscope.site.chart import (
    BODY_MIN,
    SIZE,
    SPANS_MAX,
    TIMES_MAX,
    ChartPoint,
    draw_chart,
    on_one_axis,
    volume_top,
)

PRICES = st.floats(min_value=1e-12, max_value=1e9)
MAYBE = st.none() | PRICES
BEGIN = 1_763_200_800


@st.composite
def candles(draw: st.DrawFn) -> ChartPoint:
    low, *inside, high = sorted(draw(st.tuples(PRICES, PRICES, PRICES, PRICES)))
    volume = st.floats(min_value=0, max_value=1e12)
    return ChartPoint(
        0, inside[0], high, low, inside[1], draw(volume), draw(volume), 0.0,
        draw(MAYBE), draw(MAYBE), draw(MAYBE), draw(MAYBE),
        draw(st.none() | st.floats(min_value=0, max_value=100)),
        *draw(st.sampled_from([(None, None, None), (1.0, -2.0, 3.0), (-1e-9, 0.0, -1e-9)])),
    )  # fmt: skip


def at_minutes(points: list[ChartPoint]) -> list[ChartPoint]:
    fields = [[getattr(each, name) for name in each.__struct_fields__] for each in points]
    return [ChartPoint(BEGIN + 60 * n, *values[1:]) for n, values in enumerate(fields)]


def test_candles_of_one_swap_are_joined_by_a_line_of_the_last_price() -> None:
    """Without the line, each candle is a dash at its own price, and many look like a cloud."""
    prices = [1.0 + n % 7 for n in range(30)]
    flat = [ChartPoint(BEGIN + 60 * n, p, p, p, p, 1.0, 0.0, 0.0) for n, p in enumerate(prices)]
    long = [ChartPoint(BEGIN + 60 * n, 1.0, 3.0, 0.5, 2.0, 1.0, 0.0, 0.0) for n in range(30)]
    stepped = re.compile('class="line filled" d="M[^HV]*(?:H[^HV]*V[^HV]*){29}"')
    assert stepped.search(draw_chart(flat, {}, 60, ""))
    assert stepped.search(draw_chart([*flat[:10], *long[10:30]], {}, 60, ""))
    assert "filled" not in draw_chart([*flat[:9], *long[9:30]], {}, 60, "")
    assert "filled" not in draw_chart(flat[:1], {}, 60, "")


def test_the_axis_is_true_to_time() -> None:
    """Candles before and after eight minutes without a trade are drawn at their own minutes."""
    points = made(12)
    points = [*points[:2], *points[10:]]
    drawn = Drawn(draw_chart(points, {}, 60, ""))
    wicks = re.findall(r"M([\d.]+) [\d.]+V", "".join(drawn.paths("wick")))
    assert wicks == ["41.7", "125.0", "875.0", "958.3"]
    [line] = drawn.paths("filled")
    assert re.findall(r"H([\d.]+)", line) == wicks[1:]
    far = [points[0], *(structs.replace(each, t=each.t + 60 * SPANS_MAX) for each in points[1:])]
    assert on_one_axis(far, 60) == far[1:]
    assert on_one_axis([], 60) == []


def test_a_candle_of_one_swap_among_many_empty_spans_is_visible() -> None:
    points = [point(0, 1.0), point(SPANS_MAX - 1, 1.0)]
    drawn = Drawn(draw_chart(points, {}, 60, ""))
    [bars] = drawn.paths("rise")[1:2]
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)V([\d.]+)h", bars)
    assert len(found) == 2
    for left, top, width, bottom in found:
        assert 0 <= float(left) <= SIZE - float(width)
        assert float(width) >= BODY_MIN
        assert float(bottom) - float(top) >= BODY_MIN - 0.1


def test_names_of_levels_do_not_overlap() -> None:
    levels = {"100": 5.0, "61.8": 5.01, "50": 9.0}
    drawn = Drawn(draw_chart(made(10), levels, 60, ""))
    assert [name for name in levels if name in drawn.texts] == ["61.8", "50"]
    assert len(drawn.paths("level-line")) == 3 + 2  # all three levels, and the two of the RSI


class Drawn(HTMLParser):
    """Reads the tags and texts of a chart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    @override
    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def paths(self, kind: str) -> list[str]:
        """Return the path data of each path in the chart that has the class *kind*."""
        return [
            given["d"]
            for tag, given in self.tags
            if tag == "path" and kind in given["class"].split()
        ]


@given(st.lists(candles(), max_size=30))
def test_every_path_is_inside_the_chart(points: list[ChartPoint]) -> None:
    drawn = Drawn(draw_chart(at_minutes(points), {}, 60, ""))

    for path in (each["d"] for tag, each in drawn.tags if tag == "path"):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path):
            assert 0 <= float(x) <= SIZE
            assert -1 <= float(y) <= SIZE
        for y in re.findall(r"V(-?[\d.]+)", path):
            assert -1 <= float(y) <= SIZE + 2


@given(st.lists(candles(), min_size=1, max_size=30))
def test_each_candle_is_drawn_once_by_its_direction(points: list[ChartPoint]) -> None:
    drawn = Drawn(draw_chart(at_minutes(points), {}, 60, ""))
    rising = sum(point.close >= point.open for point in points)

    assert sum(path.count("M") for path in drawn.paths("wick")) == len(points)
    kinds = [given["class"] for tag, given in drawn.tags if tag == "path"]
    assert ("wick rise" in kinds) is (rising > 0)
    assert ("wick fall" in kinds) is (rising < len(points))


def made(count: int, **changes: float | None) -> list[ChartPoint]:
    return [
        ChartPoint(BEGIN + 60 * n, 1.0 + n, 2.0 + n, 0.5 + n, 1.5 + n, 10.0, 5.0, 0.0, **changes)
        for n in range(count)
    ]


def test_higher_prices_are_drawn_higher() -> None:
    drawn = Drawn(draw_chart(made(20, ema9=None), {}, 60, ""))
    tops = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)V", "".join(drawn.paths("wick")))]

    assert tops == sorted(tops, reverse=True)
    assert len(tops) == 20


def test_a_line_begins_at_its_first_value() -> None:
    points = [*made(5), *(ChartPoint(p.t + 300, p.open, p.high, p.low, p.close, 0, 0, 0, ema9=2.0)
                          for p in made(5))]  # fmt: skip
    [line] = Drawn(draw_chart(points, {}, 60, "")).paths("ema9")

    assert line.count("M") == 1
    assert line.count("L") == 4
    assert line.startswith(f"M{SIZE * 0.55:.1f} ")


def test_levels_outside_of_the_price_range_are_omitted() -> None:
    drawn = Drawn(draw_chart(made(10), {"50": 5.0, "far": 5_000.0}, 60, ""))

    assert "50" in drawn.texts
    assert "far" not in drawn.texts


def test_the_chart_axis_has_at_most_seven_round_times() -> None:
    for width_s, count in ((60, 150), (300, 150), (3600, 150), (60, 3)):
        points = [ChartPoint(BEGIN + width_s * n, 1, 1, 1, 1, 0, 0, 0) for n in range(count)]
        texts = Drawn(draw_chart(points, {}, width_s, "")).texts
        times = [text for text in texts if re.fullmatch(r"\d\d:\d\d|\d+ [A-Z][a-z]{2}", text)]
        assert len(times) <= TIMES_MAX
        assert all(text.endswith(("0", "5")) for text in times if ":" in text)


def test_the_chart_has_a_label_and_escapes_its_texts() -> None:
    drawn = Drawn(draw_chart(made(3), {'"><script>': 2.0}, 60, '"><script>alert(1)</script>'))

    assert [tag for tag, _ in drawn.tags if tag == "script"] == []
    plot = next(given for tag, given in drawn.tags if given.get("class") == "plot")
    assert (plot["role"], plot["aria-label"]) == ("img", '"><script>alert(1)</script>')
    assert all("style" not in given for _, given in drawn.tags)


def test_a_chart_without_candles_is_empty() -> None:
    assert Drawn(draw_chart([], {}, 60, "nothing yet")).paths("wick") == []


def test_one_huge_bar_does_not_flatten_the_volume() -> None:
    """The huge bar is cut off at the 95th percentile, and drawn solid."""
    points = [point(at, bought=100.0 + at) for at in range(40)]
    huge = [*points, point(40, bought=24_000.0)]
    drawn, usual = (Drawn(str(draw_chart(each, {}, 60, ""))) for each in (huge, points))

    assert volume_top(points) == (139.0, False)
    assert volume_top(huge) == (138.0, True)
    assert volume_top([]) == (1.0, False)
    solid = [sum(tag[1].get("class") == "bar rise" for tag in each.tags) for each in (drawn, usual)]
    assert solid[0] == solid[1] + 1
    assert "138" in drawn.texts


def point(at: int, bought: float) -> ChartPoint:
    """Return the candle of minute *at*, flat at the price 1.0, with the buy volume *bought*."""
    return ChartPoint(BEGIN + 60 * at, 1.0, 1.0, 1.0, 1.0, bought, 1.0, 0.0)
