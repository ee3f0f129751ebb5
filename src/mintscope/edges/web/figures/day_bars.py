"""Credits used on each day of a month, as bars; what they are stands beside them."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, utc

DAYS: Final = 30
PITCH: Final = 20
BAR: Final = 14
HEIGHT: Final = 120
LEAST: Final = 3.0  # of a day on which anything was used


def day_text(day: int) -> str:
    """Return *day*, since 1970-01-01, for people: 22 Nov."""
    moment = utc(UnixMs(day * DAY_MS))
    return f"{moment.day} {moment:%b}"


def day_bars(credits_by_day: Mapping[int, int], today: int) -> Markup:
    """Return the DAYS days that end with *today* as SVG, each with its date and number on hover."""
    days = range(today - DAYS + 1, today + 1)
    used = [max(0, credits_by_day.get(day, 0)) for day in days]
    most = max(used)
    bars = Markup("").join(
        Markup(
            '<rect x="{}" y="{:.1f}" width="{}" height="{:.1f}" rx="2"{}><title>{}</title></rect>'
        ).format(
            number * PITCH + (PITCH - BAR) // 2,
            HEIGHT - height,
            BAR,
            height,
            Markup("") if count else Markup(' class="none"'),
            f"{day_text(day)}: {count}",
        )
        for number, (day, count) in enumerate(zip(days, used, strict=True))
        for height in [max(LEAST, count * HEIGHT / most) if count else 1.0]
    )
    label = f"Credits used on each of the last {DAYS} days: {sum(used)} in all, {most} at most"
    return Markup(
        '<svg class="days" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}" focusable="false">{}</svg>'
    ).format(DAYS * PITCH, HEIGHT, label, bars)
