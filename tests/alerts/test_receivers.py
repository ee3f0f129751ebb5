"""Limits of webhooks per host and account, and the pauses of hosts that do not answer."""

import pytest

from mintscope.alerts.webhooks import SILENT_HOSTS_MAX, Receivers
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import MemoryLimits
from support.scenes.service import NOW

HOST = "hooks.example"
ALICE, BOB, CAROL = UserId(1), UserId(2), UserId(3)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def receivers(clock: ManualClock, per_minute: int) -> Receivers:
    return Receivers(MemoryLimits(clock), clock, per_minute=per_minute)


async def admitted(found: Receivers, host: str, user_id: UserId) -> int:
    """Return the number of admitted attempts to send to *host*, of 100 made in a row."""
    return [await found.admit(host, user_id) for _ in range(100)].count(None)


async def test_a_host_gets_60_attempts_a_minute_and_half_of_them_from_one_account(
    clock: ManualClock,
) -> None:
    found = Receivers(MemoryLimits(clock), clock)

    assert await admitted(found, HOST, ALICE) == 30
    assert await admitted(found, "other.example", ALICE) == 0
    assert await admitted(found, HOST, BOB) == 30
    assert await admitted(found, HOST, CAROL) == 0
    assert await admitted(found, "other.example", CAROL) == 30


async def test_an_account_has_one_attempt_if_hosts_have_one(clock: ManualClock) -> None:
    found = receivers(clock, 1)

    assert await admitted(found, HOST, ALICE) == 1
    assert await admitted(found, "other.example", ALICE) == 0


async def test_an_ip_address_has_a_limit_of_its_own_beside_its_hosts(clock: ManualClock) -> None:
    found = receivers(clock, 2)
    waits_s = [await found.admit_address("203.0.113.1") for _ in range(3)]

    assert waits_s == [None, None, 60]
    assert await found.admit_address("203.0.113.2") is None
    assert await found.admit("203.0.113.1", ALICE) is None


async def test_a_silent_host_pauses_longer_after_each_attempt(clock: ManualClock) -> None:
    found = receivers(clock, 10_000)
    for _ in range(3):
        assert await found.admit(HOST, ALICE) is None
        found.note(HOST, is_silent=True)
    for rest_s in (10, 20, 40, 60, 60):
        assert await found.admit(HOST, ALICE) == rest_s
        clock.advance(rest_s * 1_000 - 400)
        assert await found.admit(HOST, ALICE) == 1
        clock.advance(400)
        assert await found.admit(HOST, ALICE) is None, "one attempt finds out"
        assert await found.admit(HOST, BOB) == 60, "others wait for it"
        assert await found.admit("other.example", BOB) is None
        found.note(HOST, is_silent=True)


async def test_a_silent_host_is_tried_again_if_an_attempt_has_no_outcome(
    clock: ManualClock,
) -> None:
    found = receivers(clock, 100)
    for _ in range(3):
        found.note(HOST, is_silent=True)
    for wait_ms in (10_000, 60_000, 60_000):
        clock.advance(wait_ms)
        assert await found.admit(HOST, ALICE) is None
        assert await found.admit(HOST, ALICE) == 60


async def test_a_host_that_answers_has_three_attempts_again(clock: ManualClock) -> None:
    found = receivers(clock, 100)
    for is_silent in (True, True, False, True, True):
        found.note(HOST, is_silent=is_silent)
    assert await found.admit(HOST, ALICE) is None
    found.note(HOST, is_silent=True)

    assert await found.admit(HOST, ALICE) == 10


async def test_the_oldest_of_too_many_silent_hosts_is_forgotten(clock: ManualClock) -> None:
    found = receivers(clock, 100)
    for _ in range(3):
        found.note(HOST, is_silent=True)
    for number in range(SILENT_HOSTS_MAX - 1):
        found.note(f"{number}.example", is_silent=True)
    assert await found.admit(HOST, ALICE) == 10
    found.note("one-more.example", is_silent=True)

    assert await found.admit(HOST, ALICE) is None
