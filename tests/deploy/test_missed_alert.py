"""The alert on missed calls fires if a program is upgraded, and not at a usual rate."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.deployment import rule_of
from support.promtool import by_promtool, values_at

METRIC: Final = "mintscope_exchanges_total"
RULE: Final = rule_of("MintscopeProgramMissed")
HOURS: Final = 60  # minutes
DAYS: Final = 24 * HOURS

pytestmark = [pytest.mark.process, by_promtool]


def fired(
    folder: Path,
    missed_a_minute: Callable[[int], float],
    read_a_minute: float = 500,
    *,
    since: int = 0,
) -> list[int]:
    """Return the minutes at which the alert fires, in the three hours after two days of samples.

    Minute 0 is the end of the two days.

    missed_a_minute   returns the number of calls missed in a minute
    read_a_minute     the number of calls read in each minute
    since             the minute, from the start of the two days, of the first sample
    """
    missed, read, now = [0.0], [0.0], 2 * DAYS
    for minute in range(since, now + 3 * HOURS):
        missed.append(missed[-1] + missed_a_minute(minute - now))
        read.append(read[-1] + read_a_minute)
    series = {
        f'{METRIC}{{program="{program}",outcome="{outcome}"}}': " ".join(
            ["_"] * since + [f"{each:.10g}" for each in counts]
        )
        for program, outcome, counts in (
            ("a", "missed", missed),
            ("a", "read", read),
            ("b", "read", read),
        )
    }
    times_s = [60 * (now + minute) for minute in range(0, 181, 5)]
    found = values_at(folder, RULE["expr"], series, times_s)
    assert not any('program="b"' in values for values in found.values())
    return [at_s // 60 - now for at_s in found]


def test_the_alert_fires_within_minutes_once_a_program_is_upgraded(tmp_path: Path) -> None:
    found = fired(tmp_path, lambda at: 400 if at >= 0 else 0.2)
    assert found[0] <= 10
    assert found == list(range(found[0], 181, 5))


def test_the_alert_fires_within_half_an_hour_if_few_calls_are_missed(tmp_path: Path) -> None:
    """From minute 0 on, 1 call of a small program is missed for every 20 that are read."""
    found = fired(tmp_path, lambda at: 1 if at >= 0 else 0, read_a_minute=20)
    assert 20 <= found[0] <= 30


@pytest.mark.parametrize("usual", [0.0, 1.0, 30.0])
def test_the_alert_does_not_fire_at_a_constant_rate(usual: float, tmp_path: Path) -> None:
    assert fired(tmp_path, lambda _: usual) == []


def test_the_alert_does_not_fire_at_twice_the_usual_rate(tmp_path: Path) -> None:
    assert fired(tmp_path, lambda at: 60 if at >= 0 else 30) == []


def test_the_alert_does_not_fire_below_a_hundredth_of_all_calls(tmp_path: Path) -> None:
    assert fired(tmp_path, lambda at: 4 if at >= 0 else 0) == []


def test_the_alert_fires_shortly_after_a_restart_of_ingest(tmp_path: Path) -> None:
    found = fired(tmp_path, lambda at: 400 if at >= 0 else 0, since=2 * DAYS - 5)
    assert found[0] <= 10
