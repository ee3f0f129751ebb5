"""Numbers of hours as an area under a line; what they are, and how many, stands beside it."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

HOURS: Final = 7 * 24
HEIGHT: Final = 60
MARGIN: Final = 3


def hour_plot(values: Mapping[int, float], now: int, label: str) -> Markup:
    """Return the HOURS hours that end with *now* as SVG; an hour without a number is zero.

    label   what is read out
    """
    line = [values.get(hour, 0) for hour in range(now - HOURS + 1, now + 1)]
    most = max(line)
    span = HEIGHT - 2 * MARGIN
    points = [
        f"{place} {HEIGHT - MARGIN - (span * value / most if most else 0):.1f}"
        for place, value in enumerate(line)
    ]
    path, end, foot = "L".join(points), HOURS - 1, HEIGHT - MARGIN
    return Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"'
        ' focusable="false"><path class="plot-area" d="M0 {}L{}L{} {}z"/>'
        '<path class="plot-base" d="M0 {}H{}"/><path class="plot-line" d="M{}"/></svg>'
    ).format(end, HEIGHT, label, foot, path, end, foot, foot, end, path)
