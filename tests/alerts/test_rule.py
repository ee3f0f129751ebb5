"""Rules fire at the same values as a slow definition, even if their state is often reloaded."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.alerts.conditions import (
    FIELDS,
    Crossing,
    Field,
    Rule,
    RuleState,
    SignalKind,
    look,
    read_field,
)
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.report import report_of
from mintscope.market.timeframe import AskedFrame
from mintscope.solana.blocks import WSOL

LEVEL: Final = 10.0
START: Final = 1_750_000_020
FRAMES: Final = {each.value: np.arange(3.0, 40.0) for each in AskedFrame}
REPORT: Final = report_of(Mint(WSOL), np.arange(1.0, 201.0), UnixS(START), frames=FRAMES)
VALUES = st.lists(st.sampled_from([float(n) for n in range(5, 16)]), max_size=60)
MOVES = st.lists(
    st.tuples(st.integers(0, 90), st.sampled_from([80.0, 95.0, 100.0, 104.0, 106.0, 130.0])),
    max_size=40,
)


def fired(rule: Rule, values: list[tuple[int, float]]) -> list[tuple[int, Crossing]]:
    """Return the firings of *rule* with the indexes of their values.

    The state of the rule is encoded and decoded after each value.
    """
    found, state = [], None
    for number, (time, value) in enumerate(values):
        state, crossing = look(rule, state, value, UnixS(time))
        state = msgspec.json.decode(msgspec.json.encode(state), type=RuleState)
        if crossing is not None:
            found.append((number, crossing))
    return found


Test = Callable[[float, float], bool]
SIDES: Final[
    Mapping[SignalKind, tuple[Test, Test]]
] = {  # tests for up and for down, by the distance above the level and the margin
    SignalKind.ABOVE: (lambda far, _: far > 0, lambda far, margin: far <= -margin),
    SignalKind.BELOW: (lambda far, margin: far >= margin, lambda far, _: far < 0),
    SignalKind.CROSSES: (lambda far, margin: far > margin, lambda far, margin: far < -margin),
}
WANTED: Final = {
    SignalKind.ABOVE: {"up"},
    SignalKind.BELOW: {"down"},
    SignalKind.CROSSES: {"up", "down"},
}


def side_of(kind: SignalKind, value: float, margin: float) -> str:
    is_up, is_down = SIDES[kind]
    far = value - LEVEL
    return "up" if is_up(far, margin) else "down" if is_down(far, margin) else "?"


def slow_turns(values: list[float], margin: float, kind: SignalKind) -> list[tuple[int, str]]:
    """Return the indexes of the values that reach another side of the level, and these sides.

    Only the sides that *kind* waits for are returned.  A value within *margin* of the level is on
    neither side, but the first side is decided without a margin.
    """
    begun = next((n for n, value in enumerate(values) if side_of(kind, value, 0.0) != "?"), None)
    if begun is None:
        return []
    named = [(begun, side_of(kind, values[begun], 0.0))]
    named += [(n, side_of(kind, values[n], margin)) for n in range(begun + 1, len(values))]
    clear = [(n, side) for n, side in named if side != "?"]
    turns = [now for was, now in pairwise(clear) if was[1] != now[1]]
    return [turn for turn in turns if turn[1] in WANTED[kind]]


@pytest.mark.parametrize("kind", [SignalKind.ABOVE, SignalKind.BELOW, SignalKind.CROSSES])
@given(values=VALUES, margin=st.sampled_from([0.0, 1.0, 3.0]))
def test_a_rule_fires_at_the_same_values_as_the_slow_definition(
    kind: SignalKind, values: list[float], margin: float
) -> None:
    rule = Rule(kind=kind, level=LEVEL, margin=margin)
    found = fired(rule, [(START + n, value) for n, value in enumerate(values)])
    assert [(number, str(each.direction)) for number, each in found] == slow_turns(
        values, margin, kind
    )
    for number, crossing in found:
        assert (crossing.value, crossing.reference) == (values[number], LEVEL)


@given(moves=MOVES)
def test_a_move_fires_once_and_then_the_window_begins_again(
    moves: list[tuple[int, float]],
) -> None:
    rule = Rule(kind=SignalKind.CHANGES_BY, percent=5.0, window_s=600)
    times, at = [], START
    for pause, value in moves:
        at += pause
        times.append((at, value))
    expected, begun = [], 0
    for number, (time, value) in enumerate(times):
        inside = [
            old for when, old in times[begun:number] if time // 10 - when // 10 < 60
        ]  # the window consists of parts of 10 s
        if not inside:
            continue
        rise, fall = value / min(inside) - 1.0, 1.0 - value / max(inside)
        if max(rise, fall) >= 0.05:
            expected.append((number, "up" if rise >= fall else "down"))
            begun = number
    assert [(n, str(each.direction)) for n, each in fired(rule, times)] == expected


def test_a_value_that_touches_the_level_does_not_cross_it() -> None:
    above = Rule(kind=SignalKind.ABOVE, level=LEVEL)
    touched = [(START, 9.0), (START + 1, 10.0), (START + 2, 10.5), (START + 3, 10.0)]
    assert [number for number, _ in fired(above, touched)] == [2]
    again = [*touched, (START + 4, 10.5)]
    assert [number for number, _ in fired(above, again)] == [2, 4]
    wide = msgspec.structs.replace(above, margin=1.0)
    assert [number for number, _ in fired(wide, again)] == [2]


def test_a_change_from_a_value_that_is_not_positive_does_not_fire() -> None:
    rule = Rule(kind=SignalKind.CHANGES_BY, percent=5.0, window_s=60)
    assert fired(rule, [(START, -1.0), (START, 0.0), (START, 1.0), (START, 1.01)]) == []


def test_a_value_with_an_earlier_time_is_compared_with_the_value_before() -> None:
    rule = Rule(kind=SignalKind.CHANGES_BY, percent=5.0, window_s=60)
    assert [n for n, _ in fired(rule, [(START, 1.0), (START - 5, 1.06)])] == [1]


def test_every_number_of_a_report_can_be_read_by_its_field() -> None:
    assert {"price.usd", "price.sol", "indicators.m5.macd.histogram"} <= set(FIELDS)
    assert "indicators.h1.fibonacci.swingHigh" in FIELDS
    assert "indicators.buySellPressure.d1" in FIELDS
    # Of each timeframe: EMAs and RSI, MACD, Fibonacci.  At the end the spans of the pressure.
    assert len(FIELDS) == 4 + 8 * (5 + 3 + 11) + 6
    built = msgspec.to_builtins(REPORT)
    for field in FIELDS:
        reported = built
        for name in field.split("."):
            reported = reported[name]
        assert read_field(REPORT, field) == reported


def test_a_value_without_history_is_none() -> None:
    frame = msgspec.structs.replace(REPORT.indicators.m1, macd=None)
    indicators = msgspec.structs.replace(REPORT.indicators, m1=frame)
    short = msgspec.structs.replace(REPORT, indicators=indicators)
    assert read_field(short, Field("indicators.m1.macd.line")) is None
