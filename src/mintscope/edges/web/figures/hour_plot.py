"""Numbers of hours as an area under a line; what they are, and how many, stands beside it."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

HOURS: Final = 7 * 24
HEIGHT: Final = 60
MARGIN: Final = 3


def hour_plot(
    values: Mapping[int, float], now: int, label: str, *, is_level: bool = False
) -> Markup:
    """Return the HOURS hours that end with *now* as SVG; an hour without a number is zero.

    label      what is read out
    is_level   an hour without a number is as the one before; nothing is drawn before the first
    """
    line = _levels(values, now) if is_level else _numbers(values, now)
    most = max(line.values(), default=0)
    span = HEIGHT - 2 * MARGIN
    points = [
        f"{place} {HEIGHT - MARGIN - (span * value / most if most else 0):.1f}"
        for place, value in line.items()
    ]
    end = HOURS - 1
    foot = HEIGHT - MARGIN
    path = "L".join(points) or f"{end} {foot}"
    begin = min(line, default=end)
    return Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"'
        ' focusable="false"><path class="plot-area" d="M{} {}L{}L{} {}z"/>'
        '<path class="plot-base" d="M0 {}H{}"/><path class="plot-line" d="M{}"/></svg>'
    ).format(end, HEIGHT, label, begin, foot, path, end, foot, foot, end, path)


def _numbers(values: Mapping[int, float], now: int) -> dict[int, float]:
    return {place: values.get(now - HOURS + 1 + place, 0) for place in range(HOURS)}


def _levels(values: Mapping[int, float], now: int) -> dict[int, float]:
    line: dict[int, float] = {}
    for place in range(HOURS):
        value = values.get(now - HOURS + 1 + place, line.get(place - 1))
        if value is not None:
            line[place] = value
    return line
