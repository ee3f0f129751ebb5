"""Numbers for people: short to look at, and whole for those who listen, hover or copy."""

from decimal import Decimal
from math import floor, isfinite, log10
from typing import Final

from markupsafe import Markup

DIGITS: Final = 5  # of a price that are shown
ZEROS_SPELLED_MAX: Final = 3  # behind the point; more are counted
SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
MINUS: Final = "\N{MINUS SIGN}"
NOTHING: Final = "\N{EN DASH}"
UNITS: Final = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
CENTS_FROM: Final = 100.0
POWER_MAX: Final = 15


def whole_number(value: float) -> str:
    """Return *value* with all its digits and no exponent: 0.000022584."""
    text = format(Decimal(repr(float(value))), "f")
    return text.removesuffix(".0")


def short_price(value: float, digits_max: int = DIGITS) -> str:
    """Return *value* in so many digits or to the cent; many zeros behind the point are counted.

    0.000022584 is 0.0₄22584: four zeros, then the digits.
    """
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if not isfinite(size) or size == 0:
        return "0" if size == 0 else NOTHING
    if size >= CENTS_FROM:
        return f"{sign}{size:,.2f}" if size < 10**POWER_MAX else f"{sign}{size:.4g}"
    digits, power = f"{size:.{digits_max - 1}e}".split("e")
    zeros = -int(power) - 1
    if zeros <= ZEROS_SPELLED_MAX:
        return f"{sign}{size:.{max(0, digits_max - 1 - int(power))}f}"
    return f"{sign}0.0{str(zeros).translate(SUBSCRIPTS)}{digits.replace('.', '')}"


def price(value: float | None, unit: str = "$") -> Markup:
    """Return a price as HTML: short for eyes, whole for ears and on hover.

    unit   written before it; a word is written behind it
    """
    if value is None:
        return no_value()
    before, behind = (unit, "") if len(unit) <= 1 else ("", f" {unit}")
    shown = f"{before}{short_price(value)}{behind}"
    whole = f"{before}{whole_number(value)}{behind}"
    return _heard(shown, whole)


def dollars(value: float | None) -> Markup:
    """Return a volume or a market cap as HTML: $1.25M, whole on hover."""
    if value is None:
        return no_value()
    return _heard(f"${short_amount(value)}", f"${value:,.2f}")


def short_amount(value: float) -> str:
    """Return *value* in three digits and a unit: 1.25M."""
    sign = MINUS if value < 0 else ""
    size = abs(value)
    for factor, unit in UNITS:
        if size >= factor * 0.9995:
            return f"{sign}{_three(size / factor)}{unit}"
    if size == 0 or size >= 1:
        return f"{sign}{_three(size)}"
    return f"{sign}{size:.2f}" if size >= 0.01 else f"{sign}{short_price(size)}"  # noqa: PLR2004


def percent(fraction: float | None) -> Markup:
    """Return a change as HTML: 0.0186 is +1.86 %, marked as up."""
    if fraction is None or not isfinite(fraction):
        return no_value()
    rounded = round(fraction * 100, 2)
    shown = f"{abs(rounded):,.2f}" if abs(rounded) < CENTS_FROM else f"{abs(rounded):,.0f}"
    if rounded == 0:
        return Markup('<span class="level">0.00&nbsp;%</span>')
    kind, sign = ("up", "+") if rounded > 0 else ("down", MINUS)
    return Markup('<span class="{}">{}{}&nbsp;%</span>').format(kind, sign, shown)


def no_value() -> Markup:
    """Return what stands where a number is not known."""
    return Markup('<span class="level" title="not known yet">{}</span>').format(NOTHING)


def nice_steps(low: float, high: float, count: int) -> list[float]:
    """Return about *count* round numbers from *low* to *high*, rising."""
    span = high - low
    if not isfinite(span) or span <= 0:
        return []
    rough = span / count
    power = 10.0 ** floor(log10(rough))
    step = next(each * power for each in (1.0, 2.0, 2.5, 5.0, 10.0) if rough <= each * power * 1.01)
    first = floor(low / step) + 1
    return [number * step for number in range(first, floor(high / step) + 1)]


def _three(size: float) -> str:
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
