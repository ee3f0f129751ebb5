"""A rule over one value: which side of its level the value is on, or how far it has moved.

A rule remembers one state.  It fires when the state turns, so a value that stays where it is fires
nothing more, however often it is looked at.  The first look at a value never fires: it only records
where the value is.

There may be many thousands of rules, and none holds a cycle: none is looked at for garbage.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

import msgspec

from mintscope.base.primitives import UnixS

MARKS_MAX: Final = 60  # parts of a window that are kept apart


class SignalKind(StrEnum):
    """The kinds of crossings."""

    ABOVE = "above"  # the value comes to be greater than the level
    BELOW = "below"  # the value comes to be less than the level
    CROSSES = "crosses"  # either of them
    CROSSES_FIELD = "crosses_field"  # the value comes to the other side of another value
    CHANGES_BY = "changes_by"  # it is so many percent away from where it was within the window


class RuleSide(Enum):
    """Where a value is, seen from the level."""

    UNDER = -1
    OVER = 1


class Direction(StrEnum):
    """Which way a value went."""

    UP = "up"
    DOWN = "down"


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The condition of an alert.

    level     of above, below and crosses, in the unit of the value
    margin    how far behind the level the value must come back before the rule can fire again, >= 0
    percent   of changes_by, > 0
    window_s  of changes_by: how far back it looks, a multiple of 60
    """

    kind: SignalKind
    level: float = 0.0
    margin: float = 0.0
    percent: float = 0.0
    window_s: int = 0


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The lowest and the highest value within a sixtieth of the window, number *part*."""

    part: int
    low: float
    high: float


class RuleState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The memory of a rule between two reports: a side, or the marks of its window.

    Of the marks only those that can still be the lowest or the highest.
    """

    side: RuleSide | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Crossing:
    """Why a rule fires; *reference* is the level, or the value that this one is so far from."""

    value: float
    direction: Direction
    reference: float


def look(
    rule: Rule, state: RuleState | None, value: float, time: UnixS
) -> tuple[RuleState, Crossing | None]:
    """Return the state after *value* was seen at *time*, and why the rule fires if it does.

    state   None at the first look, which fires nothing
    """
    if rule.kind is SignalKind.CHANGES_BY:
        return _look_back(rule, state or RuleState(), value, time)
    before = None if state is None else state.side
    side = _side(rule, before, value)
    if before is None or side is before or side is None:
        return RuleState(side), None
    direction = Direction.UP if side is RuleSide.OVER else Direction.DOWN
    waits_for = {SignalKind.ABOVE: Direction.UP, SignalKind.BELOW: Direction.DOWN}
    fires = waits_for.get(rule.kind, direction) is direction
    return RuleState(side), Crossing(value, direction, rule.level) if fires else None


def _side(rule: Rule, before: RuleSide | None, value: float) -> RuleSide | None:
    """Return where *value* is; within the margin it is where it was."""
    level = rule.level
    margin = 0.0 if before is None else rule.margin
    match rule.kind:
        case SignalKind.ABOVE:
            over = value > level
            under = value <= level - margin
        case SignalKind.BELOW:
            over = value >= level + margin
            under = value < level
        case _:
            over = value > level + margin
            under = value < level - margin
    return RuleSide.OVER if over else RuleSide.UNDER if under else before


def _look_back(
    rule: Rule, state: RuleState, value: float, time: UnixS
) -> tuple[RuleState, Crossing | None]:
    """Compare *value* with the lowest and the highest within the window.

    Percentages of what is not greater than 0 mean nothing: such a value is passed over.  When the
    rule fires, the window begins again with *value*.
    """
    if value <= 0.0:
        return state, None
    part = time // max(1, rule.window_s // MARKS_MAX)
    if state.marks:
        part = max(part, state.marks[-1].part)  # a slot that took the place of another is older
    marks = [mark for mark in state.marks if mark.part > part - MARKS_MAX]
    crossing = _move(rule.percent / 100.0, marks, value)
    if crossing is not None:
        return RuleState(marks=(Mark(part, value, value),)), crossing
    newest = Mark(part, value, value)
    if marks and marks[-1].part == part:
        last = marks.pop()
        if last.low <= value <= last.high:
            return state, None
        newest = Mark(part, min(last.low, value), max(last.high, value))
    return RuleState(marks=(*_telling(marks, newest), newest)), None


def _telling(marks: list[Mark], newest: Mark) -> list[Mark]:
    """Return the *marks* that matter: one with a value beyond all that came after it."""
    low = newest.low
    high = newest.high
    telling = []
    for mark in reversed(marks):
        if mark.low < low or mark.high > high:
            telling.append(mark)
            low = min(low, mark.low)
            high = max(high, mark.high)
    return telling[::-1]


def _move(share: float, marks: list[Mark], value: float) -> Crossing | None:
    if not marks:
        return None
    low = min(mark.low for mark in marks)
    high = max(mark.high for mark in marks)
    rise = value / low - 1.0
    fall = 1.0 - value / high
    if rise >= share and rise >= fall:
        return Crossing(value, Direction.UP, low)
    return Crossing(value, Direction.DOWN, high) if fall >= share else None
