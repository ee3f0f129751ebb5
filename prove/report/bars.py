"""Draws SVG bars: mintscope's figure divided by that of each peer, on a logarithmic scale."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

WIDTH, ROW, LABELS, VALUES = 900, 24, 440, 70
BETTER: Final = "#2f7d4f"
WORSE: Final = "#b4532a"


def bars(ratios: Sequence[tuple[str, float]]) -> str:
    """Return an SVG chart with a bar for each (label, ratio) above 0; "" if there is none.

    The scale is logarithmic. A ratio above 1, a bar to the right, means that mintscope is better.
    """
    shown = [(label, ratio) for label, ratio in ratios if ratio > 0]
    if not shown:
        return ""
    low = min(-1, *(floor(log10(ratio)) for _, ratio in shown))
    high = max(1, *(ceil(log10(ratio)) for _, ratio in shown))
    unit = (WIDTH - LABELS - VALUES) / (high - low)
    zero = LABELS - low * unit
    height = ROW * (len(shown) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>How many times better ours is than each peer</title>",
    ]
    for power in range(low, high + 1):
        x = LABELS + (power - low) * unit
        parts.append(
            f'<line x1="{x:.0f}" y1="0" x2="{x:.0f}" y2="{height - ROW}" stroke="#d9dde2"/>'
            f'<text x="{x:.0f}" y="{height - 7}" text-anchor="middle">{10.0**power:g}x</text>'
        )
    for number, (label, ratio) in enumerate(shown):
        length, y = log10(ratio) * unit, number * ROW
        x = min(zero, zero + length)
        parts.append(
            f'<text x="{LABELS - 8}" y="{y + 16}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{x:.1f}" y="{y + 4}" width="{abs(length):.1f}" height="{ROW - 8}"'
            f' fill="{BETTER if ratio >= 1 else WORSE}"/>'
            f'<text x="{max(zero, zero + length) + 6:.1f}" y="{y + 16}">{ratio:,.2f}x</text>'
        )
    return "".join(parts) + "</svg>"
