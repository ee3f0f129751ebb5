"""Failed attempts in a row are reported until one succeeds, or until an hour after the last."""

import re

import pytest
from prometheus_client import CollectorRegistry, Counter

from mintscope.kit.checks import Attempts
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs


class Tried:
    """A metric that counts attempts, and the check `Attempts` that reads it."""

    def __init__(self, failures_max: int) -> None:
        self.clock = ManualClock(UnixMs(0))
        self.counter = Counter("tried", "Tried", ["outcome"], registry=CollectorRegistry())
        self.counter.labels("bad").inc(7)  # failures from before the check do not count
        self.attempts = Attempts(
            self.counter,
            self.clock,
            good="good",
            bad="bad",
            failures_max=failures_max,
            advice="look at the server",
        )

    async def is_reported(self) -> bool:
        try:
            await self.attempts.expect_success()
        except ServiceUnavailable as trouble:
            said = r"(the last attempt|\d+ attempts in a row) failed: look at the server"
            return re.fullmatch(said, str(trouble)) is not None
        return False


@pytest.mark.parametrize("failures_max", [1, 3])
async def test_failures_in_a_row_are_reported_until_an_attempt_succeeds(failures_max: int) -> None:
    tried = Tried(failures_max)
    assert not await tried.is_reported()
    for number in range(1, failures_max + 2):
        tried.counter.labels("bad").inc()
        assert await tried.is_reported() is (number >= failures_max)
    assert await tried.is_reported()
    tried.counter.labels("good").inc()
    assert not await tried.is_reported()
    assert not await tried.is_reported()


async def test_a_success_between_two_checks_ends_the_failures_in_a_row() -> None:
    tried = Tried(2)
    tried.counter.labels("bad").inc()
    assert not await tried.is_reported()
    tried.counter.labels("good").inc()
    tried.counter.labels("bad").inc()
    assert not await tried.is_reported()
    tried.counter.labels("bad").inc()
    assert not await tried.is_reported()
    tried.counter.labels("bad").inc()
    assert await tried.is_reported()


@pytest.mark.parametrize("failures_max", [1, 3])
async def test_the_count_of_failures_restarts_after_an_hour_without_a_failure(
    failures_max: int,
) -> None:
    tried = Tried(failures_max)
    for _ in range(2):  # an hour after the start, and an hour after failures in a row
        tried.clock.advance(60 * 60_000)
        for number in range(1, failures_max + 1):
            tried.counter.labels("bad").inc()
            assert await tried.is_reported() is (number == failures_max)


async def test_the_check_passes_an_hour_after_the_last_attempt() -> None:
    tried = Tried(1)
    tried.counter.labels("bad").inc()
    assert await tried.is_reported()
    tried.clock.advance(59 * 60_000)
    assert await tried.is_reported()
    tried.clock.advance(60_000)
    assert not await tried.is_reported()
