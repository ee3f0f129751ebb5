"""A missing rate of SOL is reported: by a metric, a line of the log, and the alert."""

from pathlib import Path
from typing import Final

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from structlog.testing import capture_logs

from mintscope.ingest.slots import RateWatch
from mintscope.kit.metrics import SetGauge
from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.log import SlotHeader
from mintscope.market.quotes import RATE_LATE_S, RateAge
from support.deployment import rule_of
from support.promtool import by_promtool, values_at

START: Final = 1_700_000_000


def header(at: int, rated_at: int | None) -> SlotHeader:
    return SlotHeader(
        slot=Slot(at),
        parent_slot=Slot(at - 1),
        blockhash=f"{at}",
        time=UnixS(START + at),
        sol_usd=None if rated_at is None else 150.0,
        sol_usd_time=None if rated_at is None else UnixS(START + rated_at),
    )


def age_s() -> float | None:
    return REGISTRY.get_sample_value("mintscope_sol_rate_age_s")


def test_the_loss_and_the_return_of_a_rate_are_logged_once_each() -> None:
    watch = RateWatch()
    with capture_logs() as lines:
        for at in range(10):
            watch.note(header(at, at))
        assert age_s() == 0
        for at in range(10, 10 + RATE_LATE_S):  # the last rate is still used for a minute
            watch.note(header(at, 9))
        assert lines == []
        for at in range(10 + RATE_LATE_S, 600):
            watch.note(header(at, None))
        assert age_s() == 590
        watch.note(header(600, 600))

    assert [line["event"] for line in lines] == ["sol_rate_missing", "sol_rate_back"]
    assert lines[0]["age_s"] == RATE_LATE_S + 1
    assert lines[1]["after_s"] == 590
    assert age_s() == 0


@pytest.mark.parametrize("never", [True, False])
def test_a_rate_that_never_existed_is_late_after_a_minute(never: bool) -> None:  # noqa: FBT001 - pytest names it
    age = RateAge()
    assert (age.seconds, age.is_late) == (0, False)
    for at in range(RATE_LATE_S + 2):
        assert not age.is_late
        age.note(UnixS(START + at), None if never else UnixS(START + at))
    assert age.is_late is never


def test_a_gauge_that_is_measured_does_not_freeze() -> None:
    """An example is the lag of ingest, which grows while no block is stored; its alert fires."""
    registry, now = CollectorRegistry(), [1.0]
    gauge = SetGauge("made_up_lag_s", "Made up", registry=registry)
    assert registry.get_sample_value("made_up_lag_s") is None
    gauge.measure(lambda: now[0])
    assert registry.get_sample_value("made_up_lag_s") == 1
    now[0] = 61.0
    assert registry.get_sample_value("made_up_lag_s") == 61


@pytest.mark.process
@by_promtool
def test_the_alert_fires_once_there_is_no_rate(tmp_path: Path) -> None:
    rule = rule_of("MintscopeNoSolRate")
    ages = {"mintscope_sol_rate_age_s": "0x20 15+15x18"}  # it ages from the second 300
    found = values_at(tmp_path, rule["expr"], ages, [300, 375], step_s=15)

    assert [*found] == [375]
