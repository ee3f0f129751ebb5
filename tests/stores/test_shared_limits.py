"""Limits shared by processes: exact over all of them; without the store, each has a share."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from typing_extensions import override

from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.limits import Admitted, Denied, Limit, MovingWindow
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import limits as limit_batches
from mintscope.kit.sql import limits as shared_limits
from mintscope.kit.sql.limits import (
    AskedWindow,
    FoundWindow,
    LimitBatches,
    LimitStoreAway,
    SharedLimits,
    WindowStore,
)
from support.scenes.limits import database, empty_postgres, shared

START = UnixMs(1_750_000_000_000)
THIRTY = Limit(name="test", count=30, window_s=60)


@dataclass
class PlainStore:
    """A fake `WindowStore` for limits, which admits everything, fails, or waits, as a test sets."""

    failures: int = 0
    moving: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[Sequence[AskedWindow]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moving.set()

    async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
        self.calls.append(asked)
        await self.moving.wait()
        if self.failures:
            self.failures -= 1
            raise LimitStoreAway("as the test says")
        return [FoundWindow(0, 0) for _ in asked]

    async def aclose(self) -> None:
        self.moving.set()

    def asked(self) -> list[Sequence[AskedWindow]]:
        """Return the calls of `settle` that asked about at least one window."""
        return [call for call in self.calls if call]


@asynccontextmanager
async def limits_of(
    store: WindowStore,
    *,
    replicas: int = 1,
    patience_s: float = 30,
    clock: ManualClock | None = None,
) -> AsyncGenerator[SharedLimits, None]:
    clock = clock or ManualClock(START)
    batches = LimitBatches(store, clock, patience_s=patience_s, pause_s=0)
    async with aclosing(SharedLimits(batches, clock, replicas=replicas)) as limits:
        yield limits


def is_shared() -> float | None:
    return REGISTRY.get_sample_value("mintscope_limits_shared")


async def until_shared() -> None:
    for _ in range(1_000):  # iterations of the event loop
        if is_shared():
            return
        await asyncio.sleep(0)
    pytest.fail("expected limits to be shared again")


async def test_200_requests_at_once_at_three_processes_admit_exactly_30() -> None:
    empty_postgres()
    async with AsyncExitStack() as stack:
        # The clocks of the processes differ; the clock of the server decides.
        clocks = [ManualClock(START), ManualClock(START), ManualClock(START)]
        clocks[1].advance(3_600_000)
        opened = [shared(clock, store_clock=None, replicas=3) for clock in clocks]
        windows = [(await stack.enter_async_context(each)).limiter(THIRTY) for each in opened]
        verdicts = await asyncio.gather(*(windows[n % 3].take("one") for n in range(200)))

    admitted = [verdict for verdict in verdicts if isinstance(verdict, Admitted)]
    assert sorted(each.remaining for each in admitted) == list(range(30))
    assert {each.reset_s for each in admitted} == {60}
    waits = {each.retry_after_s for each in verdicts if isinstance(each, Denied)}
    assert waits <= set(range(30, 61)), waits  # 60, unless the machine stands still


async def test_a_unit_that_one_process_gives_back_is_available_to_another() -> None:
    empty_postgres()
    clock, one = ManualClock(START), Limit(name="test", count=1, window_s=60)
    async with (
        shared(clock, store_clock=clock) as first,
        shared(clock, store_clock=clock) as second,
    ):
        await first.limiter(one).take("one")
        assert await second.limiter(one).take("one") == Denied(60)
        await first.limiter(one).give_back("one")
        clock.advance(1_000)  # a refusal is remembered for a second

        assert await second.limiter(one).take("one") == Admitted(0, 60)
        assert await first.limiter(one).take("one") == Denied(60)


async def test_similar_keys_are_counted_separately() -> None:
    empty_postgres()
    async with shared(SystemClock(), store_clock=None) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        verdicts = [await window.take(key) for key in (1, "1", "one\0", "one", "\udcff", "é")]

    assert verdicts == [Admitted(0, 60)] * 6


async def test_admissions_far_ahead_of_the_server_s_clock_do_not_count() -> None:
    empty_postgres()
    set_forward, set_back = ManualClock(START), ManualClock(START)
    set_forward.advance(86_400_000)
    one = Limit(name="test", count=1, window_s=60)
    async with (
        shared(set_back, store_clock=set_forward) as before,
        shared(set_back, store_clock=set_back) as after,
    ):
        await before.limiter(one).take("one")

        assert await after.limiter(one).take("one") == Admitted(0, 60)
        assert await after.limiter(one).take("one") == Denied(60)


async def test_expired_windows_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    empty_postgres()
    monkeypatch.setattr("mintscope.kit.sql.postgres_limits.SWEPT_AFTER", 3)
    clock, own = ManualClock(START), ManualClock(START)
    async with shared(own, store_clock=clock) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        await window.take("old")
        clock.advance(60_000)
        await asyncio.gather(window.take("new"), window.take("newer"))

    assert database().execute("SELECT count(*) FROM limit_window").fetchone() == (2,)


async def test_all_requests_in_one_iteration_of_the_loop_are_one_call() -> None:
    store = PlainStore()
    async with limits_of(store) as limits:
        window, other = limits.limiter(THIRTY), limits.limiter(THIRTY, window="other")
        await asyncio.gather(
            *(window.take(n % 10) for n in range(100)), other.take(1), window.give_back(1)
        )

    (call,) = store.calls
    assert [(each.returned, each.taken) for each in call] == [(n == 1, 10) for n in range(10)] + [
        (0, 1)
    ]
    assert len({each.key for each in call}) == 11


async def test_no_call_holds_more_keys_than_a_batch() -> None:
    store = PlainStore()
    async with limits_of(store) as limits:
        window = limits.limiter(THIRTY)
        await asyncio.gather(*(window.take(n) for n in range(2 * limit_batches.BATCH_MAX + 1)))

    assert [len(call) for call in store.calls] == [limit_batches.BATCH_MAX] * 2 + [1]


async def test_a_refused_key_is_not_requested_again_within_a_second() -> None:
    clock, store = ManualClock(START), FullStore()
    async with limits_of(store, clock=clock) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        verdicts = [await window.take("one")]
        for _ in range(3):
            clock.advance(333)
            verdicts.append(await window.take("one"))
        assert len(store.calls) == 1
        clock.advance(1)
        await window.take("one")

    assert verdicts == [Denied(50), Denied(50), Denied(50), Denied(50)]
    assert len(store.calls) == 2


async def test_a_key_without_room_is_not_read_again_within_a_second() -> None:
    clock, store = ManualClock(START), FullStore()
    async with limits_of(store, clock=clock) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        found = [await window.room("one"), await window.room("one"), await window.take("one")]
        assert len(store.calls) == 1
        clock.advance(1_000)
        await window.room("one")

    assert found == [0, 0, Denied(50)]
    assert len(store.calls) == 2
    assert {(each.returned, each.taken) for call in store.calls for each in call} == {(0, 0)}


async def test_a_refusal_ends_before_a_second_if_its_window_does() -> None:
    clock, store = ManualClock(START), FullStore(age_us=59_900_000)
    async with limits_of(store, clock=clock) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        await window.take("one")
        clock.advance(100)
        await window.take("one")

    assert len(store.calls) == 2


async def test_at_most_refusals_max_refusals_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_limits, "REFUSALS_MAX", 2)
    store = FullStore()
    async with limits_of(store) as limits:
        window = limits.limiter(Limit(name="test", count=1, window_s=60))
        for key in ("a", "b", "a", "b", "c", "a"):
            await window.take(key)

    assert len(store.calls) == 4


async def test_a_failed_call_is_retried_once_and_limits_stay_shared() -> None:
    store = PlainStore(failures=1)
    async with limits_of(store, replicas=30) as limits:
        window = limits.limiter(THIRTY)

        assert await window.take("one") == Admitted(29, 60)
        assert is_shared() == 1


async def test_a_unit_is_not_given_back_twice_if_the_answer_was_lost() -> None:
    store = PlainStore()
    async with limits_of(store) as limits:
        window = limits.limiter(THIRTY)
        store.failures = 1
        await window.give_back("one")

    assert [call[0].returned for call in store.asked()] == [1, 0]


@pytest.mark.parametrize(("replicas", "share"), [(1, 30), (3, 10), (4, 7), (100, 1)])
async def test_a_process_without_the_store_admits_its_share_but_at_least_one(
    replicas: int, share: int
) -> None:
    store = PlainStore(failures=1_000_000)
    async with limits_of(store, replicas=replicas) as limits:
        window = limits.limiter(THIRTY)
        verdicts = [await window.take("one") for _ in range(31)]

        assert is_shared() == 0
    assert verdicts == [Admitted(left, 60) for left in reversed(range(share))] + [Denied(60)] * (
        31 - share
    )


async def test_a_process_without_the_store_reports_the_room_of_its_share() -> None:
    store = PlainStore(failures=1_000_000)
    async with limits_of(store, replicas=3) as limits:
        window = limits.limiter(THIRTY)
        found = [await window.room("one")]
        await window.take("one")
        found.append(await window.room("one"))

    assert found == [10, 9]


async def test_requests_wait_for_a_frozen_store_only_for_its_patience() -> None:
    store = PlainStore()
    store.moving.clear()
    async with limits_of(store, replicas=3, patience_s=0.01) as limits:
        window = limits.limiter(THIRTY)
        with capture_logs() as logs:
            verdicts = await asyncio.gather(*(window.take("one") for _ in range(20)))

        assert sum(isinstance(each, Admitted) for each in verdicts) == 10
        assert [each["event"] for each in logs] == ["limits_away"]
        assert len(store.asked()) == 1


async def test_requests_behind_a_failed_call_are_decided_locally_at_once() -> None:
    store = PlainStore(failures=1_000_000)
    store.moving.clear()
    async with limits_of(store, replicas=30) as limits:
        window = limits.limiter(THIRTY)
        first = asyncio.ensure_future(window.take("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(store.asked()) == 1
        second = asyncio.ensure_future(window.take("other"))
        await asyncio.sleep(0)
        store.moving.set()

        async with asyncio.timeout(10):
            assert [await first, await second] == [Admitted(0, 60)] * 2


async def test_limits_are_shared_again_once_the_store_answers() -> None:
    store = PlainStore(failures=5)
    async with limits_of(store, replicas=30) as limits:
        window = limits.limiter(THIRTY)
        assert await window.take("one") == Admitted(0, 60)
        with capture_logs() as logs:
            await until_shared()

        assert [each["event"] for each in logs] == ["limits_back"]
        assert await window.take("one") == Admitted(29, 60)


async def test_a_unit_admitted_without_the_store_is_given_back_without_it() -> None:
    store = PlainStore(failures=5)
    async with limits_of(store, replicas=30) as limits:
        window = limits.limiter(THIRTY)
        await window.take("one")
        await until_shared()
        await window.give_back("one")
        await window.give_back("one")

    assert [call[0].returned for call in store.asked()] == [0, 0, 1]


async def test_a_blocked_event_loop_does_not_count_as_a_failed_store() -> None:
    class StoppingStore(PlainStore):
        @override
        async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
            # The answer comes a few iterations after the one that blocks the loop.
            asyncio.get_running_loop().call_soon(stand_still)
            for _ in range(10):
                await asyncio.sleep(0)
            return await super().settle(asked)

    async with limits_of(StoppingStore(), replicas=30, patience_s=0.2) as limits:
        assert await limits.limiter(THIRTY).take("one") == Admitted(29, 60)


async def test_requests_beyond_waiting_max_are_decided_locally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_batches, "WAITING_MAX", 5)
    store = PlainStore()
    async with limits_of(store, replicas=30) as limits:
        window = limits.limiter(THIRTY)
        verdicts = await asyncio.gather(*(window.take(n) for n in range(8)))

    assert sorted(each.remaining for each in verdicts if isinstance(each, Admitted)) == [
        *[0] * 3,
        *[29] * 5,
    ]


async def test_a_request_cancelled_before_its_call_is_not_counted() -> None:
    store = PlainStore()
    async with limits_of(store) as limits:
        window = limits.limiter(THIRTY)
        takes = [asyncio.ensure_future(window.take("one")) for _ in range(3)]
        await asyncio.sleep(0)
        store.moving.clear()
        takes[0].cancel()
        store.moving.set()
        await asyncio.gather(*takes, return_exceptions=True)

    assert sum(each.taken for call in store.calls for each in call) == 2


async def test_a_waiting_request_is_decided_locally_when_limits_are_closed() -> None:
    store = PlainStore()
    store.moving.clear()
    async with limits_of(store) as limits:
        take = asyncio.ensure_future(limits.limiter(THIRTY).take("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert await take == Admitted(29, 60)


async def test_a_shared_window_is_not_a_moving_window() -> None:
    async with limits_of(PlainStore()) as limits:
        assert not isinstance(limits.limiter(THIRTY), MovingWindow)


@dataclass
class FullStore(PlainStore):
    """A WindowStore in which every window of one admission is full."""

    age_us: int = 10_000_000

    @override
    async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
        self.calls.append(asked)
        return [FoundWindow(1, self.age_us) for _ in asked]


def stand_still() -> None:
    """Block the event loop for 0.3 s: longer than the store may take to answer."""
    until_s = SystemClock().monotonic_s() + 0.3
    while SystemClock().monotonic_s() < until_s:
        pass
