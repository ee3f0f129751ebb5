"""A line of a few pixels: how a price went, without axes."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

WIDTH: Final = 120
HEIGHT: Final = 32
MARGIN: Final = 2.0  # so that the stroke is not cut at the edges


def sparkline(values: Sequence[float | None], label: str = "") -> Markup:
    """Return *values*, oldest first and evenly apart, as SVG; None is a gap.

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
        '<path d="{}" fill="none" vector-effect="non-scaling-stroke"/></svg>'
    ).format(kind, WIDTH, HEIGHT, heard, _path(values, known))


def _path(values: Sequence[float | None], known: Sequence[float]) -> str:
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    step = WIDTH / max(1, len(values) - 1)
    parts, pen = [], "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        part = (value - low) / span if span > 0 else 0.5
        y = HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN)
        parts.append(f"{pen}{place * step:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)
