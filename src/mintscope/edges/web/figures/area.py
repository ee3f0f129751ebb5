"""A line over the area below it, with prices and times beside it: how a price went lately."""

from collections.abc import Collection, Sequence
from typing import Final

from markupsafe import Markup

from mintscope.base.primitives import UnixMs, UnixS
from mintscope.base.time import SECOND_MS, utc
from mintscope.edges.web.figures.numbers import nice_steps, short_price
from mintscope.edges.web.figures.stretches import Stretch, stretches

SIZE: Final = 1000  # of the plot, in both directions: it is stretched to its place
MARGIN: Final = 60
TICKS: Final = 4
TIMES: Final = 4


def draw_area(
    values: Sequence[float], begin: UnixS, step_s: int, label: str, quiet: Collection[int] = ()
) -> Markup:
    """Return *values*, oldest first, as SVG: a plot, the prices right of it and the times below.

    begin    when the first value was, Unix seconds
    step_s   between two values
    label    what is read out
    quiet    the places of values that are those before them: nothing was traded; a dotted line
    """
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    span = (high - low) or abs(high) * 0.01 or 1.0

    def y(value: float) -> float:
        return SIZE - MARGIN - (value - low) / span * (SIZE - 2 * MARGIN)

    step = SIZE / max(1, len(values) - 1)
    points = [f"{place * step:.1f} {y(value):.1f}" for place, value in enumerate(values)]
    parts = list(stretches(points, lambda place: place in quiet))
    ticks = nice_steps(low, high, TICKS)
    grid = "".join(f"M0 {y(value):.1f}H{SIZE}" for value in ticks)
    last = y(values[-1]) if values else SIZE / 2
    return Markup(
        '<svg class="plot" viewBox="0 0 {size} {size}" preserveAspectRatio="none" role="img"'
        ' aria-label="{label}" focusable="false"><path class="grid" d="{grid}"/>'
        '<path class="area" d="{area}"/><path class="dotted" d="{dotted}"/>'
        '<path class="line" d="{line}"/><path class="now" d="M0 {last:.1f}H{size}"/></svg>'
        '<svg class="prices" aria-hidden="true" focusable="false">{prices}</svg>'
        '<svg class="times" aria-hidden="true" focusable="false">{times}</svg>'
    ).format(
        size=SIZE,
        label=label,
        grid=grid,
        area="".join(map(_area, parts)),
        line=_path(parts, is_quiet=False),
        dotted=_path(parts, is_quiet=True),
        last=last,
        prices=_texts([("6", f"{y(value) / 10:.2f}%", short_price(value)) for value in ticks]),
        times=_texts(_clocks(len(values), begin, step_s)),
    )


def _path(parts: Sequence[Stretch], *, is_quiet: bool) -> str:
    return "".join("M" + "L".join(each.points) for each in parts if each.is_quiet is is_quiet)


def _area(stretch: Stretch) -> str:
    """Return what is below a stretch in which something was traded."""
    if stretch.is_quiet:
        return ""
    begin, end = (point.split()[0] for point in (stretch.points[0], stretch.points[-1]))
    return f"M{begin} {SIZE}L{'L'.join(stretch.points)}L{end} {SIZE}z"


def _clocks(count: int, begin: UnixS, step_s: int) -> list[tuple[str, str, str]]:
    """Return where the times stand that divide the plot, and what is written there."""
    found = []
    for part in range(TIMES):
        place = part / TIMES
        at = utc(UnixMs(int(begin + place * max(0, count - 1) * step_s) * SECOND_MS))
        found.append((f"{place * 100:.1f}%", "60%", f"{at:%H:%M}"))
    return found


def _texts(places: Sequence[tuple[str, str, str]]) -> Markup:
    return Markup("").join(
        Markup('<text x="{}" y="{}" dy="0.32em">{}</text>').format(*place) for place in places
    )
