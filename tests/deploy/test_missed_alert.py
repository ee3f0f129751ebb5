"""The alert on programs that are missed fires when one is upgraded, and not for what is usual."""

from collections.abc import Callable
from typing import Final

import pytest

from support.deployment import rule_of
from support.promql import Series

METRIC: Final = "mintscope_exchanges_total"
RULE: Final = rule_of("MintscopeProgramMissed")
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def fired(
    missed_a_minute: Callable[[int], float], read_a_minute: float = 500, *, since: int = 0
) -> list[int]:
    """Return the minutes after two days at which the alert fires within three hours.

    since   when ingest began to count; the counters of programs of the table begin with 0
    """
    series, missed, read = Series(), 0.0, 0.0
    now = 2 * DAY
    for at in range(since, now + 3 * HOUR + 1, MINUTE):
        series.add(METRIC, at, missed, program="a", outcome="missed")
        series.add(METRIC, at, read, program="a", outcome="read")
        series.add(METRIC, at, read, program="b", outcome="read")
        missed += missed_a_minute(at - now)
        read += read_a_minute
    found = []
    for minute in range(0, 181, 5):
        vector = series.value(RULE["expr"], now + minute * MINUTE)
        assert vector.keys() <= {frozenset({("program", "a")})}
        if vector:
            found.append(minute)
    return found


def test_it_fires_within_minutes_once_a_program_is_upgraded() -> None:
    found = fired(lambda at: 400 if at >= 0 else 0.2)
    assert found[0] <= 10
    assert found == list(range(found[0], 181, 5))


def test_it_fires_for_a_slow_trickle_within_the_hour() -> None:
    """A twentieth of the calls of a small program."""
    found = fired(lambda at: 1 if at >= 0 else 0, read_a_minute=20)
    assert 20 <= found[0] <= 30


@pytest.mark.parametrize("usual", [0.0, 1.0, 30.0])
def test_what_is_usual_does_not_fire(usual: float) -> None:
    assert fired(lambda _: usual) == []


def test_twice_as_much_as_usual_does_not_fire() -> None:
    assert fired(lambda at: 60 if at >= 0 else 30) == []


def test_less_than_a_hundredth_of_its_calls_does_not_fire() -> None:
    assert fired(lambda at: 4 if at >= 0 else 0) == []


def test_a_restart_of_ingest_does_not_hide_it() -> None:
    found = fired(lambda at: 400 if at >= 0 else 0, since=2 * DAY - 5 * MINUTE)
    assert found[0] <= 10
