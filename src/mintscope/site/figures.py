"""Small charts, and formatted numbers."""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from itertools import groupby
from math import floor, isfinite, log10
from typing import Final, NamedTuple

from markupsafe import Markup

from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.kit.time import DAY_MS, SECOND_MS, utc

DIGITS: Final = 5  # significant digits of a price
ZEROS_SPELLED_MAX: Final = 3  # zeros after the decimal point; more are written as a count
SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
MINUS: Final = "\N{MINUS SIGN}"
NOTHING: Final = "\N{EN DASH}"
UNITS: Final = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
CENTS_FROM: Final = 100.0
POWER_MAX: Final = 15


def whole_number(value: float) -> str:
    """Return *value* with all its digits and without an exponent: 0.000022584."""
    # Through repr: Decimal(value) would have all digits of the binary fraction.
    text = format(Decimal(repr(float(value))), "f")
    return text.removesuffix(".0")


def short_price(value: float, digits_max: int = DIGITS) -> str:
    """Return *value* with *digits_max* significant digits, or with two decimals from 100 on.

    Many leading zeros are written as a count: 0.000022584 is 0.0₄22584 (four zeros, then digits).
    From 10^POWER_MAX on, four digits and an exponent are written; for infinity and NaN, NOTHING.
    """
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if not isfinite(size) or size == 0:
        return "0" if size == 0 else NOTHING
    if size >= CENTS_FROM:
        return f"{sign}{size:,.2f}" if size < 10**POWER_MAX else f"{sign}{size:.4g}"
    # The exponent after rounding: 0.00999999 is rounded to 0.01.
    digits, power = f"{size:.{digits_max - 1}e}".split("e")
    zeros = -int(power) - 1
    if zeros <= ZEROS_SPELLED_MAX:
        return f"{sign}{size:.{max(0, digits_max - 1 - int(power))}f}"
    return f"{sign}0.0{str(zeros).translate(SUBSCRIPTS)}{digits.replace('.', '')}"


def price(value: float | None, unit: str = "$") -> Markup:
    """Return a price as HTML: short on screen, and in full for screen readers and on hover.

    unit   the unit: a symbol is written before the price, a longer unit after it
    """
    if value is None:
        return no_value()
    before, behind = (unit, "") if len(unit) <= 1 else ("", f" {unit}")
    shown = f"{before}{short_price(value)}{behind}"
    whole = f"{before}{whole_number(value)}{behind}"
    return _heard(shown, whole)


def dollars(value: float | None) -> Markup:
    """Return a volume or a market cap as HTML: short ($1.25M), and in full on hover."""
    if value is None:
        return no_value()
    return _heard(f"${short_amount(value)}", f"${value:,.2f}")


def short_amount(value: float) -> str:
    """Return *value* with about three digits and a unit: 1.25M."""
    sign = MINUS if value < 0 else ""
    size = abs(value)
    for factor, unit in UNITS:
        # From here on, three digits of the smaller unit are rounded up to 1,000.
        if size >= factor * 0.9995:
            return f"{sign}{_three(size / factor)}{unit}"
    if size == 0 or size >= 1:
        return f"{sign}{_three(size)}"
    return f"{sign}{size:.2f}" if size >= 0.01 else f"{sign}{short_price(size)}"  # noqa: PLR2004


def percent(fraction: float | None) -> Markup:
    """Return a change as HTML: 0.0186 becomes +1.86 %, in the colour of a rise."""
    if fraction is None or not isfinite(fraction):
        return no_value()
    rounded = round(fraction * 100, 2)
    shown = f"{abs(rounded):,.2f}" if abs(rounded) < CENTS_FROM else f"{abs(rounded):,.0f}"
    # After rounding, so that no change has the colour of a rise and reads 0.00 %.
    if rounded == 0:
        return Markup('<span class="level">0.00&nbsp;%</span>')
    kind, sign = ("up", "+") if rounded > 0 else ("down", MINUS)
    return Markup('<span class="{}">{}{}&nbsp;%</span>').format(kind, sign, shown)


def percent_text(fraction: float) -> str:
    """Return *fraction* as a change in percent, as plain text: 0.0186 becomes +1.86 %."""
    return percent(fraction).striptags().replace("\N{NO-BREAK SPACE}", " ")


def no_value() -> Markup:
    """Return the placeholder for an unknown number."""
    return Markup('<span class="level" title="not known yet">{}</span>').format(NOTHING)


def nice_steps(low: float, high: float, count: int) -> list[float]:
    """Return about *count* round numbers above *low* and up to *high*, in ascending order."""
    span = high - low
    if not isfinite(span) or span <= 0:
        return []
    rough = span / count
    power = 10.0 ** floor(log10(rough))
    step = next(each * power for each in (1.0, 2.0, 2.5, 5.0, 10.0) if rough <= each * power * 1.01)
    first = floor(low / step) + 1
    return [number * step for number in range(first, floor(high / step) + 1)]


def _three(size: float) -> str:
    # From 99.95 and from 9.995 on, rounding adds a digit before the point.
    if size >= 99.95:  # noqa: PLR2004
        return f"{size:,.0f}"
    return f"{size:.1f}" if size >= 9.995 else f"{size:.2f}"  # noqa: PLR2004


def _heard(shown: str, whole: str) -> Markup:
    if shown == whole:
        return Markup('<span class="number">{}</span>').format(shown)
    return Markup(
        '<span class="number" title="{whole}"><span aria-hidden="true">{shown}</span>'
        '<span class="unseen">{whole}</span></span>'
    ).format(shown=shown, whole=whole)


class Stretch(NamedTuple):
    """Consecutive points in SVG form; *is_quiet* states that no trade took place between them."""

    is_quiet: bool
    points: Sequence[str]


def stretches(points: Sequence[str], is_quiet: Callable[[int], bool]) -> Iterator[Stretch]:
    """Divide *points* into stretches with trades and without; each begins where the last ends.

    is_quiet   returns, for the index of a point, whether there was no trade since the previous one
    """
    if len(points) == 1:
        yield Stretch(is_quiet=False, points=points)
    for quiet, group in groupby(range(1, len(points)), is_quiet):
        places = list(group)
        yield Stretch(quiet, points[places[0] - 1 : places[-1] + 1])


SIZE: Final = 1000  # width and height of the plot, which is stretched to fit
MARGIN: Final = 60
TICKS: Final = 4
TIMES: Final = 4


def draw_area(
    values: Sequence[float], begin: UnixS, step_s: int, label: str, quiet: Collection[int] = ()
) -> Markup:
    """Return a plot of *values*, oldest first, as SVG, with prices to the right and times below.

    begin    time of the first value
    step_s   time between two values, in seconds
    label    description for screen readers
    quiet    indexes of values without a trade since the previous value; the line is dotted there
    """
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    # Equal values need a span, too, and so do zeros: `y` divides by it.
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
    """Return the area below *stretch*, or "" if it is quiet."""
    if stretch.is_quiet:
        return ""
    begin, end = (point.split()[0] for point in (stretch.points[0], stretch.points[-1]))
    return f"M{begin} {SIZE}L{'L'.join(stretch.points)}L{end} {SIZE}z"


def _clocks(count: int, begin: UnixS, step_s: int) -> list[tuple[str, str, str]]:
    """Return the positions and labels of the times that divide the plot."""
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


WIDTH: Final = 120
HEIGHT: Final = 32
QUIET: Final = Markup(' class="quiet"')
INSET: Final = 2.0  # keeps the stroke from being cut off at the edges


def sparkline(values: Sequence[float | None]) -> Markup:
    """Return a line of *values*, oldest first and evenly spaced, as SVG; None is a gap.

    A value that equals the previous value means that there was no trade: the line is dotted there.
    CSS classes set the colour: `spark`, and `up`, `down` or `level`.  Screen readers skip the line.
    """
    known = [value for value in values if value is not None]
    first, last = (known[0], known[-1]) if known else (0.0, 0.0)
    kind = "up" if last > first else "down" if last < first else "level"
    return Markup(
        '<svg class="spark {}" viewBox="0 0 {} {}" preserveAspectRatio="none" focusable="false"'
        ' aria-hidden="true">{}</svg>'
    ).format(kind, WIDTH, HEIGHT, _paths(values, known))


def _paths(values: Sequence[float | None], known: Sequence[float]) -> Markup:
    if not known:
        return Markup("")
    low = min(known)
    span = max(known) - min(known)
    step = WIDTH / max(1, len(values) - 1)

    def point(place: int, value: float) -> str:
        part = (value - low) / span if span > 0 else 0.5
        return f"{place * step:.1f} {HEIGHT - INSET - part * (HEIGHT - 2 * INSET):.1f}"

    drawn = {True: "", False: ""}
    for is_known, group in groupby(enumerate(values), lambda each: each[1] is not None):
        run = [(place, value) for place, value in group if value is not None]
        if is_known:
            points = [point(place, value) for place, value in run]
            held = {n for n, (_, value) in enumerate(run) if n and value == run[n - 1][1]}
            for part in stretches(points, held.__contains__):
                drawn[part.is_quiet] += "M" + "L".join(part.points)
    return Markup("").join(
        Markup('<path{} d="{}" fill="none" vector-effect="non-scaling-stroke"/>').format(kind, path)
        for kind, path in (("", drawn[False]), (QUIET, drawn[True]))
        if path
    )


HOURS: Final = 7 * 24
HOUR_PLOT_HEIGHT: Final = 60
HOUR_PLOT_MARGIN: Final = 3


def hour_plot(
    values: Mapping[int, float], now: int, label: str, *, is_level: bool = False
) -> Markup:
    """Return a plot of the last HOURS hours up to *now* as SVG; hours without a value are zero.

    values     value by hour, numbered from 1970-01-01, 0:00 UTC
    now        number of the last hour
    label      description for screen readers
    is_level   whether hours without a value repeat the previous value; those before the first value
               are then empty
    """
    begin = now - HOURS + 1
    if is_level:
        line = _levels(values, begin)
    else:
        line = {place: values.get(begin + place, 0) for place in range(HOURS)}
    most = max(line.values(), default=0)
    span = HOUR_PLOT_HEIGHT - 2 * HOUR_PLOT_MARGIN
    points = [
        f"{place} {HOUR_PLOT_HEIGHT - HOUR_PLOT_MARGIN - (span * value / most if most else 0):.1f}"
        for place, value in line.items()
    ]
    end = HOURS - 1
    foot = HOUR_PLOT_HEIGHT - HOUR_PLOT_MARGIN
    path = "L".join(points) or f"{end} {foot}"
    start = min(line, default=end)
    return Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"'
        ' focusable="false"><path class="plot-area" d="M{} {}L{}L{} {}z"/>'
        '<path class="plot-base" d="M0 {}H{}"/><path class="plot-line" d="M{}"/></svg>'
    ).format(end, HOUR_PLOT_HEIGHT, label, start, foot, path, end, foot, foot, end, path)


def _levels(values: Mapping[int, float], begin: int) -> dict[int, float]:
    line: dict[int, float] = {}
    for place in range(HOURS):
        value = values.get(begin + place, line.get(place - 1))
        if value is not None:
            line[place] = value
    return line


DAYS: Final = 30
PITCH: Final = 20
BAR: Final = 14
DAY_BARS_HEIGHT: Final = 120
LEAST: Final = 3.0  # least height of the bar of a day with credits, so that it is visible


def day_text(day: int) -> str:
    """Return *day*, counted from 1970-01-01, as text: 22 Nov."""
    moment = utc(UnixMs(day * DAY_MS))
    return f"{moment.day} {moment:%b}"


def ends_of(mint: Mint) -> str:
    """Return the first and last characters of *mint*, as a label for a token without a name."""
    return f"{mint[:4]}\N{HORIZONTAL ELLIPSIS}{mint[-4:]}"


def csv_text(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Return *header* and *lines* as CSV."""
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(lines)
    return text.getvalue()


def spreadsheet_text(text: str) -> str:
    """Return *text*, prefixed with an apostrophe if a spreadsheet would read it as a formula."""
    return f"'{text}" if text[:1] in set("=+-@") else text


def day_bars(credits_by_day: Mapping[int, int], today: int) -> Markup:
    """Return a bar for each of the last DAYS days as SVG, with date and credits on hover."""
    days = range(today - DAYS + 1, today + 1)
    used = [max(0, credits_by_day.get(day, 0)) for day in days]
    most = max(used)
    bars = Markup("").join(
        Markup(
            '<rect x="{}" y="{:.1f}" width="{}" height="{:.1f}" rx="2"{}><title>{}</title></rect>'
        ).format(
            number * PITCH + (PITCH - BAR) // 2,
            DAY_BARS_HEIGHT - height,
            BAR,
            height,
            Markup("") if count else Markup(' class="none"'),
            f"{day_text(day)}: {count}",
        )
        for number, (day, count) in enumerate(zip(days, used, strict=True))
        for height in [max(LEAST, count * DAY_BARS_HEIGHT / most) if count else 1.0]
    )
    label = f"Credits used on each of the last {DAYS} days: {sum(used)} in all, {most} at most"
    return Markup(
        '<svg class="days" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}" focusable="false">{}</svg>'
    ).format(DAYS * PITCH, DAY_BARS_HEIGHT, label, bars)
