"""The chart of a token as SVG: candles with averages and levels, volume, RSI and MACD.

The time axis is linear: every span takes the same width, even without trades.  A line of the last
price joins candles across spans without trades.

The chart consists of several SVG images, so that text is neither distorted nor too small on a
phone: the plot is stretched to the available space; the prices on its right and the times below it
are not.  Colours come from CSS classes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.kit.primitives import UnixMs, UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S, SECOND_MS, utc
from mintscope.site.figures import nice_steps, short_amount, short_price

SIZE: Final = 1000  # width and height of the plot
BODY: Final = 0.7  # width of a candle's body, as a part of the width of its span
TIMES_MAX: Final = 7
TIME_STEPS: Final = (
    *(count * MINUTE_S for count in (5, 10, 15, 30)),
    *(count * HOUR_S for count in (1, 2, 3, 6, 12)),
    *(count * DAY_S for count in (1, 2, 7, 14, 28, 56, 112, 224, 448)),
)
SPANS_MAX: Final = 2_000  # the most spans on one axis: about two per pixel
BODY_MIN: Final = 2.0  # keeps flat candles and very narrow candles visible
OVERBOUGHT = 70.0
OVERSOLD = 30.0
LEVEL_NAME: Final = 26  # height of the name of a level, on a chart of the least height
VOLUME_QUANTILE: Final = 0.95
AVERAGES: Final = ("ema9", "ema21", "ema50", "ema200")


# gc=False: its fields are numbers, so it is in no reference cycle. array_like: scripts get
# arrays, which are shorter than objects with the names of all fields.
class ChartPoint(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A candle and the values of its indicators.

    t                  start, in Unix seconds
    bought, sold       volume in US dollars; 0 for a candle from a provider, whose
                       volume is not divided into buys and sells
    unsided            volume in US dollars of a candle from a provider; 0 for other candles
    ema9 to histogram  None if there are too few candles
    """

    t: int
    open: float
    high: float
    low: float
    close: float
    bought: float
    sold: float
    unsided: float
    ema9: float | None = None
    ema21: float | None = None
    ema50: float | None = None
    ema200: float | None = None
    rsi: float | None = None
    macd: float | None = None
    signal: float | None = None
    histogram: float | None = None


class Pane(NamedTuple):
    """A part of the chart from height *top* to *bottom*, for values from *low* to *high*."""

    top: float
    bottom: float
    low: float
    high: float

    def y(self, value: float) -> float:
        """Return the height in the chart at which *value* is drawn."""
        span = self.high - self.low
        part = (value - self.low) / span if span > 0 else 0.5
        return self.bottom - part * (self.bottom - self.top)


class Axis(NamedTuple):
    """The time axis of a chart, whose unit is the width of one candle.

    places   position of the middle of each candle
    spans    length of the axis
    """

    places: Sequence[float]
    spans: int

    @property
    def has_gaps(self) -> bool:
        """Whether the axis has a time without a candle."""
        return self.spans > len(self.places)

    def of(self, size: float) -> Iterator[float]:
        """Yield the position of the middle of each candle on an axis that is *size* long."""
        return (place * size / self.spans for place in self.places)


def axis_of(points: Sequence[ChartPoint], width_s: int) -> Axis:
    """Return the axis of *points*, oldest first, each *width_s* seconds wide."""
    if not points:
        return Axis((), 1)
    first = points[0].t
    spans = [(each.t - first) // width_s for each in points]
    return Axis([span + 0.5 for span in spans], spans[-1] + 1)


def on_one_axis(points: Sequence[ChartPoint], width_s: int) -> Sequence[ChartPoint]:
    """Return the *points* within SPANS_MAX * *width_s* seconds of the newest point."""
    if not points:
        return points
    since = points[-1].t - (SPANS_MAX - 1) * width_s
    return [each for each in points if each.t >= since]


class _Panes(NamedTuple):
    price: Pane
    volume: Pane
    rsi: Pane
    macd: Pane


def draw_chart(
    points: Sequence[ChartPoint], levels: Mapping[str, float], width_s: int, label: str
) -> Markup:
    """Return the chart of *points*, oldest first.

    levels    prices to mark, by label
    width_s   width of a candle in seconds
    label     description for screen readers
    """
    panes = _panes(points)
    axis = axis_of(points, width_s)
    pane = panes.price
    parts = [
        *_grid(panes),
        *(_level("level-line", pane, y) for y in levels.values() if pane.low <= y <= pane.high),
        _filled(points, pane, axis),
        *_candles(points, pane, axis),
        *(_curve(f"line {name}", points, pane, axis, attrgetter(name)) for name in AVERAGES),
        *_volumes(points, panes.volume, axis),
        *_momentum(points, panes, axis),
    ]
    return _plot(label, parts) + _prices(points, panes, levels) + _times(points, width_s)


MERGED_MAX: Final = 240
MERGED_S: Final = (MINUTE_S, *TIME_STEPS)
MARK_BELOW: Final = 2.0  # distance below a candle's lowest price, in percent of the height


def draw_marked(
    points: Sequence[ChartPoint], marks: Collection[int], width_s: int, label: str
) -> Markup:
    """Return a chart of *points*, oldest first, with a mark below some candles.

    marks     start times of the marked candles
    width_s   width of a candle in seconds; if the chart would be too long, several are drawn as one
    """
    merged, step_s = _merged(points, width_s)
    pane = price_pane(merged, 0, SIZE, margin=0.08)
    axis = axis_of(merged, step_s)
    steps = nice_steps(pane.low, pane.high, 6)
    parts = [*(_level("grid-line", pane, value) for value in steps), *_candles(merged, pane, axis)]
    marked = {each // step_s for each in marks}
    signs = [
        _text("mark", f"{x:.2f}%", pane.y(each.low) / 10 + MARK_BELOW, "\u25b2")
        for x, each in zip(axis.of(100), merged, strict=True)
        if each.t // step_s in marked
    ]
    prices = [_text("tick", 8, pane.y(value) / 10, short_price(value)) for value in steps]
    beside = _beside("prices", prices) + _beside("marks", signs)
    return _plot(label, parts) + beside + _times(merged, step_s)


def _plot(label: str, parts: Iterable[Markup]) -> Markup:
    return Markup(
        '<svg class="plot" viewBox="0 0 {size} {size}" preserveAspectRatio="none" role="img"'
        ' aria-label="{label}">{plot}</svg>'
    ).format(size=SIZE, label=label, plot=Markup("").join(parts))


def _beside(kind: str, texts: Iterable[Markup]) -> Markup:
    """Return an SVG image with the CSS class *kind* and *texts*; screen readers skip it."""
    return Markup('<svg class="{}" aria-hidden="true">{}</svg>').format(
        kind, Markup("").join(texts)
    )


def _merged(points: Sequence[ChartPoint], width_s: int) -> tuple[list[ChartPoint], int]:
    """Return *points* merged into at most MERGED_MAX candles, and the candles' width in seconds."""
    span = points[-1].t - points[0].t + width_s if points else width_s
    # Less one, because candles begin at round times: the first and the last may be partial.
    widths = (each for each in MERGED_S if each >= width_s and span <= each * (MERGED_MAX - 1))
    step_s = next(widths, MERGED_S[-1])
    groups = (list(group) for _, group in groupby(points, lambda each: each.t // step_s))
    merged = [
        ChartPoint(
            group[0].t // step_s * step_s,
            group[0].open,
            max(each.high for each in group),
            min(each.low for each in group),
            group[-1].close,
            sum(each.bought for each in group),
            sum(each.sold for each in group),
            sum(each.unsided for each in group),
        )
        for group in groups
    ]
    return merged, step_s


def volume_top(points: Sequence[ChartPoint]) -> tuple[float, bool]:
    """Return the top of the volume scale in US dollars, and whether higher bars are cut off.

    The scale ends at the 95th percentile if the highest bar is more than twice as high.
    """
    sizes = sorted(size for p in points if (size := max(p.bought, p.sold, p.unsided)) > 0)
    if not sizes:
        return 1.0, False
    usual = sizes[int(VOLUME_QUANTILE * (len(sizes) - 1))]
    return (usual, True) if sizes[-1] > 2 * usual else (sizes[-1], False)


def is_filled(points: Sequence[ChartPoint], axis: Axis) -> bool:
    """Return whether a line of the last price is drawn between the candles.

    It is drawn if there is a time without a candle, or if at least a third of the candles are flat;
    one candle alone gets no line.
    """
    flat = sum(each.high == each.low for each in points)
    return len(points) > 1 and (axis.has_gaps or 3 * flat >= len(points))


def stepped(places: Sequence[tuple[float, float]]) -> str:
    """Return a stepped path through *places*: each height continues until the next place."""
    steps = (f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
    return "".join((f"M{places[0][0]:.1f} {places[0][1]:.1f}", *steps))


def price_pane(
    points: Sequence[ChartPoint], top: float, bottom: float, margin: float = 0.05
) -> Pane:
    """Return the part of a chart from height *top* to *bottom*, scaled to the prices of *points*.

    margin    space above and below the prices, as a fraction of their range
    """
    low = min((each.low for each in points), default=0.0)
    high = max((each.high for each in points), default=1.0)
    beyond = (high - low) * margin or high * 0.01
    return Pane(top, bottom, low - beyond, high + beyond)


def _panes(points: Sequence[ChartPoint]) -> _Panes:
    volume, _ = volume_top(points)
    swings = [
        abs(value) for p in points for value in (p.macd, p.signal, p.histogram) if value is not None
    ]
    swing = max(swings, default=0.0) * 1.1 or 1.0
    return _Panes(
        price_pane(points, 0, 600),
        Pane(628, 740, -volume, volume),
        Pane(768, 870, 0.0, 100.0),
        Pane(898, 1000, -swing, swing),
    )


def _grid(panes: _Panes) -> Iterator[Markup]:
    for pane in panes:
        yield _line("edge-line", pane.bottom)
    for value in nice_steps(panes.price.low, panes.price.high, 6):
        yield _level("grid-line", panes.price, value)
    for value in (OVERSOLD, OVERBOUGHT):
        yield _level("level-line", panes.rsi, value)
    for pane in (panes.volume, panes.macd):
        yield _level("grid-line", pane, 0.0)


def _filled(points: Sequence[ChartPoint], pane: Pane, axis: Axis) -> Markup:
    if not is_filled(points, axis):
        return Markup("")
    heights = (pane.y(each.close) for each in points)
    return _path("line filled", stepped(list(zip(axis.of(SIZE), heights, strict=True))))


def _candles(points: Sequence[ChartPoint], pane: Pane, axis: Axis) -> Iterator[Markup]:
    """Yield wicks and bodies of the rising candles, then those of the falling candles."""
    step = SIZE / axis.spans
    for kind in ("rise", "fall"):
        wicks = []
        bodies = []
        for middle, point in zip(axis.of(SIZE), points, strict=True):
            if (point.close >= point.open) is not (kind == "rise"):
                continue
            wicks.append(f"M{middle:.1f} {pane.y(point.high):.1f}V{pane.y(point.low):.1f}")
            top, bottom = sorted((pane.y(point.open), pane.y(point.close)))
            over = max(0.0, BODY_MIN - (bottom - top)) / 2
            bodies.append(_bar(middle, step, top - over, bottom + over))
        yield _path(f"wick {kind}", "".join(wicks))
        yield _path(f"bar {kind}", "".join(bodies))


def _volumes(points: Sequence[ChartPoint], pane: Pane, axis: Axis) -> Iterator[Markup]:
    top = pane.high

    def cut(value: float) -> float:
        return top if value > top else 0.0

    def whole(value: float) -> float:
        return 0.0 if value > top else value

    yield _bars("bar rise soft", points, pane, axis, lambda point: whole(point.bought))
    yield _bars("bar fall soft", points, pane, axis, lambda point: -whole(point.sold))
    yield _bars("bar unsided", points, pane, axis, lambda point: min(top, point.unsided))
    # Bars that exceed the scale are solid; a note below the chart says so.
    yield _bars("bar rise", points, pane, axis, lambda point: cut(point.bought))
    yield _bars("bar fall", points, pane, axis, lambda point: -cut(point.sold))


def _momentum(points: Sequence[ChartPoint], panes: _Panes, axis: Axis) -> Iterator[Markup]:
    def part(point: ChartPoint, sign: int) -> float:
        return sign * max(0.0, sign * (point.histogram or 0.0))

    yield _curve("line rsi", points, panes.rsi, axis, lambda point: point.rsi)
    yield _bars("bar rise soft", points, panes.macd, axis, lambda point: part(point, 1))
    yield _bars("bar fall soft", points, panes.macd, axis, lambda point: part(point, -1))
    yield _curve("line macd", points, panes.macd, axis, lambda point: point.macd)
    yield _curve("line signal", points, panes.macd, axis, lambda point: point.signal)


def _bars(
    kind: str,
    points: Sequence[ChartPoint],
    pane: Pane,
    axis: Axis,
    of: Callable[[ChartPoint], float],
) -> Markup:
    step = SIZE / axis.spans
    zero = pane.y(0.0)
    drawn = []
    for middle, point in zip(axis.of(SIZE), points, strict=True):
        if value := of(point):
            top, bottom = sorted((zero, pane.y(value)))
            drawn.append(_bar(middle, step, top, bottom))
    return _path(kind, "".join(drawn))


def _bar(middle: float, step: float, top: float, bottom: float) -> str:
    width = max(step * BODY, BODY_MIN)
    # A bar at an end of the axis stays within the plot.
    left = min(max(0.0, middle - width / 2), SIZE - width)
    return f"M{left:.1f} {top:.1f}h{width:.1f}V{bottom:.1f}h{-width:.1f}z"


def _curve(
    kind: str,
    points: Sequence[ChartPoint],
    pane: Pane,
    axis: Axis,
    of: Callable[[ChartPoint], float | None],
) -> Markup:
    """Return a line through the values that *of* returns, within the pane; None is a gap."""
    drawn = []
    pen = "M"
    for middle, point in zip(axis.of(SIZE), points, strict=True):
        value = of(point)
        if value is None:
            pen = "M"
            continue
        y = min(pane.bottom, max(pane.top, pane.y(value)))
        drawn.append(f"{pen}{middle:.1f} {y:.1f}")
        pen = "L"
    return _path(kind, "".join(drawn))


def _level(kind: str, pane: Pane, value: float) -> Markup:
    return _line(kind, pane.y(value))


def _line(kind: str, y: float) -> Markup:
    return _path(kind, f"M0.0 {y:.1f}L{SIZE:.1f} {y:.1f}")


def _path(kind: str, drawn: str) -> Markup:
    if not drawn:
        return Markup("")
    return Markup('<path class="{}" d="{}" vector-effect="non-scaling-stroke"/>').format(
        kind, drawn
    )


def _prices(points: Sequence[ChartPoint], panes: _Panes, levels: Mapping[str, float]) -> Markup:
    """Return the price labels beside the plot, the labels of the other panes, and level names."""
    price = panes.price
    texts = [
        _text("tick", 8, price.y(value) / 10, short_price(value))
        for value in nice_steps(price.low, price.high, 6)
    ]
    top = panes.volume.high
    texts += [
        _text("tick", 8, panes.volume.y(top) / 10 + 0.8, short_amount(top)),
        _text("tick", 8, panes.rsi.y(OVERBOUGHT) / 10, f"{OVERBOUGHT:.0f}"),
        _text("tick", 8, panes.rsi.y(OVERSOLD) / 10, f"{OVERSOLD:.0f}"),
        _text("tick", 8, panes.macd.y(0.0) / 10, "0"),
    ]
    if points:
        last = points[-1]
        kind = "rise" if last.close >= last.open else "fall"
        texts.append(_text(f"last {kind}", 8, price.y(last.close) / 10, short_price(last.close)))
    names = [_text("level-name", "100%", y / 10, name) for name, y in _apart(levels, price)]
    return _beside("prices", texts) + _beside("levels", names)


def _apart(levels: Mapping[str, float], pane: Pane) -> Iterator[tuple[str, float]]:
    """Yield name and height of the levels in *pane* whose names do not overlap the name above."""
    below = float(-LEVEL_NAME)
    inside = [(pane.y(usd), name) for name, usd in levels.items() if pane.low <= usd <= pane.high]
    for y, name in sorted(inside):
        if y >= below + LEVEL_NAME:
            below = y
            yield name, y


def time_marks(points: Sequence[ChartPoint], width_s: int) -> list[tuple[float, str]]:
    """Return at most TIMES_MAX round times within the axis of *points*, as (place, text).

    place   position on the axis, in widths of a candle: the middle of the candle of that time
    """
    if not points:
        return []
    first = points[0].t
    last = points[-1].t
    step_s = next(
        (
            each
            for each in TIME_STEPS
            if each >= width_s and last // each - (first - 1) // each <= TIMES_MAX
        ),
        TIME_STEPS[-1],
    )
    begin = -(-first // step_s) * step_s
    return [
        ((at - first) / width_s + 0.5, _clock(UnixS(at))) for at in range(begin, last + 1, step_s)
    ]


def _times(points: Sequence[ChartPoint], width_s: int) -> Markup:
    """Return the labels of the time axis, which is below the plot, as SVG."""
    step = 100 / axis_of(points, width_s).spans
    texts = [
        _text("tick", f"{place * step:.2f}%", 50, clock)
        for place, clock in time_marks(points, width_s)
    ]
    return _beside("times", texts)


def _clock(at: UnixS) -> str:
    moment = utc(UnixMs(at * SECOND_MS))
    return f"{moment:%H:%M}" if at % DAY_S else f"{moment.day} {moment:%b}"


def _text(kind: str, x: float | str, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{:.2f}%" dy="0.32em">{}</text>').format(
        kind, x, y, text
    )
