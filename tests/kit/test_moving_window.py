"""The moving window of a rate limit forgets old requests and unused keys, no others."""

import tracemalloc

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import Admitted, Denied, Limit, MovingWindow
from mintscope.kit.primitives import UnixMs

START = UnixMs(1_750_000_000_000)


async def test_requests_that_still_count_survive_a_change_of_generation() -> None:
    clock = ManualClock(START)
    window = MovingWindow(Limit(name="test", count=1, window_s=60), clock)
    clock.advance(59_000)
    await window.take("early")
    clock.advance(2_000)
    await window.take("other")  # begins a new generation
    clock.advance(57_000)  # 59 s after the request of "early", which still counts

    assert isinstance(await window.take("early"), Denied)


@pytest.mark.parametrize("keys_max", [500, 1_000])
async def test_memory_is_bounded_for_any_number_of_keys(keys_max: int) -> None:
    tracemalloc.start()
    try:
        window = MovingWindow(
            Limit(name="test", count=1, window_s=60), ManualClock(START), keys_max=keys_max
        )
        for number in range(20 * keys_max):
            await window.take(number)
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used_bytes < 600 * keys_max


async def test_a_unit_is_given_back_to_the_older_generation_too() -> None:
    clock = ManualClock(START)
    window = MovingWindow(Limit(name="test", count=1, window_s=60), clock)
    clock.advance(59_000)
    await window.take("early")
    clock.advance(2_000)
    await window.take("other")  # begins a new generation
    await window.give_back("early")

    assert isinstance(await window.take("early"), Admitted)


async def test_a_key_counts_until_its_newest_request_is_a_window_old() -> None:
    clock = ManualClock(START)
    window = MovingWindow(Limit(name="test", count=2, window_s=60), clock)
    assert not window.is_counting("one")
    await window.take("one")
    clock.advance(30_000)
    await window.take("one")
    clock.advance(59_999)
    assert window.is_counting("one")
    clock.advance(1)

    assert not window.is_counting("one")


async def test_a_key_counts_as_long_as_its_newest_admission_in_any_generation() -> None:
    clock = ManualClock(START)
    window = MovingWindow(Limit(name="test", count=3, window_s=60), clock)
    assert not window.is_counting("one")
    for _ in range(3):
        await window.take("one")
        clock.advance(20_000)
    clock.advance(1_000)
    await window.take("other")  # begins a new generation
    clock.advance(38_875)
    assert window.is_counting("one")  # by its newest admission
    clock.advance(125)
    assert not window.is_counting("one")


async def test_a_key_whose_admission_was_given_back_no_longer_counts() -> None:
    window = MovingWindow(Limit(name="test", count=3, window_s=60), ManualClock(START))
    await window.take("one")
    window.give_back_now("one")
    assert not window.is_counting("one")


async def test_a_key_whose_admissions_were_given_back_is_forgotten() -> None:
    clock = ManualClock(START)
    window = MovingWindow(Limit(name="test", count=3, window_s=60), clock, keys_max=4)
    await window.take("one")
    for number in range(10):  # more than keys_max, but all of them are given back
        await window.take(number)
        await window.give_back(number)
    for _ in range(2):
        assert isinstance(await window.take("one"), Admitted)

    assert isinstance(await window.take("one"), Denied)
