"""The contract of every Limits: a limiter agrees with its definition, which is the oracle.

To test another engine, add it to `ENGINES` of `support.scenes.limits`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.clock import Clock, ManualClock
from mintscope.kit.limits import Admitted, Denied, Limit, Limiter, LimitKey
from mintscope.kit.primitives import UnixMs
from support.scenes.limits import ENGINES

START = UnixMs(1_750_000_000_000)
engines = pytest.mark.parametrize("engine", ENGINES)


@asynccontextmanager
async def limiter(
    engine: str, clock: Clock, *, count: int, window_s: int = 60
) -> AsyncGenerator[Limiter, None]:
    async with ENGINES[engine](clock) as limits:
        yield limits.limiter(Limit(name="test", count=count, window_s=window_s))


class Naive:
    """A limiter by definition: it counts all admissions that are younger than the window."""

    def __init__(self, count: int, window_ms: int) -> None:
        self.count, self.window_ms = count, window_ms
        self.admitted: list[tuple[LimitKey, int]] = []

    def take(self, key: LimitKey, now_ms: int) -> Admitted | Denied:
        young = [at for owner, at in self.admitted if owner == key and now_ms - at < self.window_ms]
        if len(young) == self.count:
            return Denied(ceil((self.window_ms - (now_ms - young[0])) / 1000))
        young.append(now_ms)
        self.admitted.append((key, now_ms))
        return Admitted(
            self.count - len(young), ceil((self.window_ms - (now_ms - young[0])) / 1000)
        )


# Steps in multiples of 125 ms are exact in binary fractions of a second.
steps = st.integers(0, 8 * 90).map(lambda eighths: eighths * 125)
calls = st.lists(st.tuples(steps, st.sampled_from([1, 2, "10.0.0.1"])), max_size=120)


@engines
@settings(max_examples=150, deadline=None, derandomize=True)
@given(calls, st.integers(1, 5), st.sampled_from([1, 60]))
async def test_a_limiter_decides_as_its_definition_does(
    engine: str, calls: list[tuple[int, LimitKey]], count: int, window_s: int
) -> None:
    clock, now_ms = ManualClock(START), 0
    async with limiter(engine, clock, count=count, window_s=window_s) as window:
        naive = Naive(count, window_s * 1000)
        for step_ms, key in calls:
            clock.advance(step_ms)
            now_ms += step_ms

            assert await window.take(key) == naive.take(key, now_ms)


@engines
@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=200))
async def test_no_60_seconds_have_more_than_30_admitted_requests(
    engine: str, waits_ms: list[int]
) -> None:
    clock, now_ms = ManualClock(START), 0
    async with limiter(engine, clock, count=30) as window:
        admitted = []
        for wait_ms in waits_ms:
            # Divided, so that more than 30 requests come within 60 seconds.
            clock.advance(wait_ms // 32)
            now_ms += wait_ms // 32
            if isinstance(await window.take("one"), Admitted):
                admitted.append(now_ms)

        assert all(
            later - earlier >= 60_000
            for earlier, later in zip(admitted, admitted[30:], strict=False)
        )


@engines
async def test_a_refused_request_does_not_count(engine: str) -> None:
    clock = ManualClock(START)
    async with limiter(engine, clock, count=1) as window:
        await window.take("one")
        for _ in range(59):
            clock.advance(1_000)
            assert isinstance(await window.take("one"), Denied)
        clock.advance(1_000)

        assert isinstance(await window.take("one"), Admitted)


@engines
async def test_retry_after_is_never_too_short(engine: str) -> None:
    clock = ManualClock(START)
    async with limiter(engine, clock, count=1) as window:
        await window.take("one")
        clock.advance(1)

        assert await window.take("one") == Denied(60)
        clock.advance(59_998)
        assert await window.take("one") == Denied(1)


@engines
async def test_a_request_that_is_given_back_can_be_taken_again(engine: str) -> None:
    clock = ManualClock(START)
    async with limiter(engine, clock, count=2) as window:
        await window.take("one")
        clock.advance(10_000)
        await window.take("one")
        await window.give_back("one")

        assert await window.take("one") == Admitted(0, 50)
        assert isinstance(await window.take("one"), Denied)


@engines
async def test_nothing_is_given_back_twice_or_to_an_unknown_key(engine: str) -> None:
    async with limiter(engine, ManualClock(START), count=1) as window:
        await window.give_back("one")
        await window.take("one")
        await window.give_back("one")
        await window.give_back("one")
        await window.take("one")

        assert isinstance(await window.take("one"), Denied)


@engines
async def test_the_room_of_a_key_is_read_without_counting(engine: str) -> None:
    clock = ManualClock(START)
    async with limiter(engine, clock, count=2) as window:
        assert [await window.room("one") for _ in range(3)] == [2, 2, 2]
        await window.take("one")
        clock.advance(10_000)
        await window.take("one")
        assert await window.room("one") == 0
        assert await window.room("other") == 2
        await window.give_back("one")
        assert await window.room("one") == 1
        clock.advance(49_999)
        assert await window.room("one") == 1
        clock.advance(1)

        assert await window.room("one") == 2
        assert await window.take("one") == Admitted(1, 60)


@engines
async def test_a_key_has_room_again_when_its_window_ends(engine: str) -> None:
    clock = ManualClock(START)
    async with limiter(engine, clock, count=1) as window:
        await window.take("one")
        clock.advance(59_999)
        assert await window.room("one") == 0
        clock.advance(1)

        assert await window.room("one") == 1


@engines
async def test_concurrent_readings_of_the_room_change_nothing(engine: str) -> None:
    async with limiter(engine, ManualClock(START), count=1) as window:
        read = await asyncio.gather(*(window.room("one") for _ in range(3)))
        taken, after = await asyncio.gather(window.take("one"), window.room("one"))

    assert read == [1, 1, 1]
    assert (taken, after) == (Admitted(0, 60), 0)


@engines
async def test_limiters_of_one_window_count_together(engine: str) -> None:
    limit = Limit(name="test", count=1, window_s=60)
    async with ENGINES[engine](ManualClock(START)) as limits:
        first, second = limits.limiter(limit), limits.limiter(limit, window="test")
        await first.take("one")

        assert first.limit == second.limit == limit
        assert await second.take("one") == Denied(60)
        await second.give_back("one")
        assert isinstance(await first.take("one"), Admitted)


@engines
async def test_windows_of_different_names_count_apart(engine: str) -> None:
    limit = Limit(name="test", count=1, window_s=60)
    async with ENGINES[engine](ManualClock(START)) as limits:
        first, second = limits.limiter(limit), limits.limiter(limit, window="test, too")
        await first.take("one")

        assert second.limit == limit
        assert isinstance(await second.take("one"), Admitted)


@engines
async def test_a_window_has_one_limit(engine: str) -> None:
    async with ENGINES[engine](ManualClock(START)) as limits:
        limits.limiter(Limit(name="test", count=1, window_s=60))

        with pytest.raises(ValueError, match=r"expected its limit .*count=1.*, got .*count=2"):
            limits.limiter(Limit(name="test", count=2, window_s=60))
