"""Remarks on a new alert before it is made: errors, and doubts about its meaning."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from mintscope.base.errors import ServiceError
from mintscope.base.primitives import Mint
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.core.accounts.signals.signal import SignalRule
from mintscope.core.accounts.signals.words import bounds_of, field_words, value_words
from mintscope.core.market.report import PARTIAL, Reports
from mintscope.core.market.signals.fields import FIELDS, Field
from mintscope.core.market.signals.rule import Direction, SignalKind

DEAD_MS: Final = DAY_MS
VERBS: Final = {
    SignalKind.ABOVE: "rise above",
    SignalKind.BELOW: "fall below",
    SignalKind.CROSSES: "cross",
}


class Present(NamedTuple):
    """The numbers of a token now.

    values         of the report, as far as history reaches
    price_age_ms   of the newest trade; None if that is not known
    """

    values: Mapping[Field, float]
    price_age_ms: int | None


class Remark(NamedTuple):
    """A doubt; *name* says that it was read."""

    name: str
    text: str


async def read_present(reports: Reports | None, mint: Mint | None) -> Present | None:
    """Return the numbers of *mint* now; None if it has none, or they cannot be read."""
    if reports is None or mint is None:
        return None
    try:
        read = await reports.read(mint, PARTIAL)
    except ServiceError:
        return None
    report = msgspec.json.decode(read.body)
    found = {field: _number(report, field) for field in FIELDS}
    values = {field: value for field, value in found.items() if value is not None}
    return Present(values, read.price_age_ms)


def impossible(asked: SignalRule) -> str | None:
    """Return why *asked* could never fire; None: it could."""
    if asked.kind not in VERBS:
        return None
    low, high = bounds_of(asked.field)
    level = asked.level
    can = {
        SignalKind.ABOVE: low <= level < high,
        SignalKind.BELOW: low < level <= high,
        SignalKind.CROSSES: low < level < high,
    }
    if can[asked.kind]:
        return None
    span = f"between {low:g} and {high:g}" if high < float("inf") else f"greater than {low:g}"
    words = field_words(asked.field)
    return f"{words} is always {span}: it cannot {VERBS[asked.kind]} {level:g}."


def remarks_on(asked: SignalRule, present: Present | None) -> Sequence[Remark]:
    """Return what is to be read before *asked* is made."""
    found = []
    if asked.webhook_url is None and not asked.by_email:
        text = "Nothing notifies you: neither e-mail nor webhook is set. It is only listed here."
        found.append(Remark("silent", text))
    if present is None:
        return found
    age_ms = present.price_age_ms
    if age_ms is not None and age_ms >= DEAD_MS:
        days = age_ms // DAY_MS
        hours = age_ms % DAY_MS // HOUR_MS
        ago = f"{days} days" if days > 1 else f"1 day and {hours} hours"
        text = f"This token last traded {ago} ago. The alert fires only once it trades again."
        found.append(Remark("dead", text))
    value = present.values.get(asked.field)
    if value is None:
        text = f"{field_words(asked.field)} of this token needs more trades than it has had."
        found.append(Remark("early", f"{text} The alert begins when it is there."))
    elif _is_true(asked, value, present):
        now = value_words(asked.field, value)
        text = f"This is true already: {field_words(asked.field)} is {now}."
        found.append(Remark("true", f"{text} It fires the next time that it crosses."))
    return found


def _is_true(asked: SignalRule, value: float, present: Present) -> bool:
    level = asked.level
    kind = asked.kind
    if asked.compared is not None:
        other = present.values.get(asked.compared)
        if other is None or asked.direction is None:
            return False
        level = other
        kind = SignalKind.ABOVE if asked.direction is Direction.UP else SignalKind.BELOW
    if kind is SignalKind.ABOVE:
        return value > level
    return kind is SignalKind.BELOW and value < level


def _number(report: object, field: Field) -> float | None:
    """Return the number at the place that *field* names in the JSON of a report."""
    found = report
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else None
