"""Checks of a signal's fields; programs and pages get the same errors."""

from math import isfinite
from typing import Final

from mintscope.core.accounts.signals.signal import SignalRule
from mintscope.core.accounts.signals.webhook import url_flaw
from mintscope.core.accounts.signals.words import unit_of
from mintscope.core.market.signals.fields import FIELDS, Field
from mintscope.core.market.signals.rule import SignalKind

NAME_LENGTH_MAX: Final = 64
MESSAGE_LENGTH_MAX: Final = 280
PERCENT_MIN: Final = 0.1
PERCENT_MAX: Final = 10_000.0
WINDOW_S_MIN: Final = 60
WINDOW_S_MAX: Final = 86_400


def flaw_of(asked: SignalRule, *, allows_loopback: bool) -> str | None:
    """Return what is wrong with *asked*, None if nothing is."""
    name = asked.name
    if not name.strip() or not name.isprintable() or len(name) > NAME_LENGTH_MAX:
        return f"expected name to be printable, of 1 to {NAME_LENGTH_MAX} characters"
    if len(asked.message) > MESSAGE_LENGTH_MAX or not asked.message.isprintable():
        return f"expected message to be printable, of at most {MESSAGE_LENGTH_MAX} characters"
    if asked.field not in FIELDS:
        return f"expected field to name a number of a report, as price.usd; was {asked.field!r}"
    if asked.compared is not None:
        flaw = _of_comparison(asked, asked.compared)
        if flaw is not None:
            return flaw
    flaw = _of_move(asked) if asked.kind is SignalKind.CHANGES_BY else _of_level(asked)
    if flaw is None and asked.webhook_url is not None:
        flaw = url_flaw(asked.webhook_url, allows_loopback=allows_loopback)
        return None if flaw is None else f"webhookUrl: {flaw}"
    return flaw


def _of_comparison(asked: SignalRule, compared: Field) -> str | None:
    if compared not in FIELDS:
        return f"expected comparedWith to name a number of a report; was {compared!r}"
    if compared == asked.field:
        return "expected comparedWith to name another number than field"
    if unit_of(compared) != unit_of(asked.field):
        return (
            f"expected comparedWith to name a number in the unit of {asked.field},"
            f" {unit_of(asked.field)}; {compared} is in {unit_of(compared)}"
        )
    return None


def _of_level(asked: SignalRule) -> str | None:
    if asked.percent or asked.window_s:
        return f"expected no percent and no windowS for {asked.kind}; it has a level"
    if not isfinite(asked.level):
        return "expected level to be a number"
    return None if isfinite(asked.margin) and asked.margin >= 0 else "expected margin >= 0"


def _of_move(asked: SignalRule) -> str | None:
    if asked.level or asked.margin:
        return "expected no level and no margin for changes_by; it has percent and windowS"
    if not PERCENT_MIN <= asked.percent <= PERCENT_MAX:
        return f"expected percent from {PERCENT_MIN} to {PERCENT_MAX:.0f}; was {asked.percent}"
    if not WINDOW_S_MIN <= asked.window_s <= WINDOW_S_MAX or asked.window_s % WINDOW_S_MIN:
        return f"expected windowS to be whole minutes, 60 to {WINDOW_S_MAX}; was {asked.window_s}"
    return None
