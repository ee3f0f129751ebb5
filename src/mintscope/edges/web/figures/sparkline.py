"""A line of a few pixels: how a price went, without axes."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

from markupsafe import Markup

from mintscope.edges.web.figures.stretches import stretches

WIDTH: Final = 120
HEIGHT: Final = 32
QUIET: Final = Markup(' class="quiet"')
MARGIN: Final = 2.0  # so that the stroke is not cut at the edges


def sparkline(values: Sequence[float | None], label: str = "") -> Markup:
    """Return *values*, oldest first and evenly apart, as SVG; None is a gap.

    A value that is the one before it was not traded: the line is dotted there.

    label   what is read out; empty: it says nothing that is not beside it in words
    It is coloured by its classes: `spark`, and `up`, `down` or `level`.
    """
    known = [value for value in values if value is not None]
    heard = (
        Markup('role="img" aria-label="{}"').format(label)
        if label
        else Markup('aria-hidden="true"')
    )
    first, last = (known[0], known[-1]) if known else (0.0, 0.0)
    kind = "up" if last > first else "down" if last < first else "level"
    return Markup(
        '<svg class="spark {}" viewBox="0 0 {} {}" preserveAspectRatio="none" focusable="false" {}>'
        "{}</svg>"
    ).format(kind, WIDTH, HEIGHT, heard, _paths(values, known))


def _paths(values: Sequence[float | None], known: Sequence[float]) -> Markup:
    if not known:
        return Markup("")
    low = min(known)
    span = max(known) - min(known)
    step = WIDTH / max(1, len(values) - 1)

    def point(place: int, value: float) -> str:
        part = (value - low) / span if span > 0 else 0.5
        return f"{place * step:.1f} {HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN):.1f}"

    drawn = {True: "", False: ""}
    for is_known, group in groupby(enumerate(values), lambda each: each[1] is not None):
        run = [(place, value) for place, value in group if value is not None]
        if is_known:
            points = [point(place, value) for place, value in run]
            for part in stretches(points, partial(_is_held, [value for _, value in run])):
                drawn[part.is_quiet] += "M" + "L".join(part.points)
    return Markup("").join(
        Markup('<path{} d="{}" fill="none" vector-effect="non-scaling-stroke"/>').format(kind, path)
        for kind, path in (("", drawn[False]), (QUIET, drawn[True]))
        if path
    )


def _is_held(values: Sequence[float], place: int) -> bool:
    return values[place] == values[place - 1]
