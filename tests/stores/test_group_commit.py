"""One commit for many requests: the outcome of each request, for any fault of the writer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.sql.group_commit import WAITING_MAX, GroupCommit

HOUR_S = 3_600.0  # longer than any machine is busy


class Writer:
    """A writer that doubles numbers; a test can hold it, or make it fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.taken = threading.Event()
        self.unheard: list[tuple[int, int]] = []
        self.heard_of_it = asyncio.Event()
        self.rests = 0
        self.rested = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    def commit(self, items: Sequence[int]) -> Sequence[int]:
        self.taken.set()
        assert self.go_on.wait(10)
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(items))
        return [item * 2 for item in items]

    def note_delivered(self, unheard: Sequence[tuple[int, int]]) -> None:
        self.unheard += unheard
        self.heard_of_it.set()

    def rest(self) -> None:
        self.rests += 1
        self.rested.set()


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
async def group(writer: Writer) -> AsyncIterator[GroupCommit[int, int]]:
    group = GroupCommit(
        writer.commit, delivered=writer.note_delivered, rest=writer.rest, patience_s=0.3
    )
    yield group
    writer.go_on.set()
    await group.close()


async def held(writer: Writer, group: GroupCommit[int, int], item: int) -> asyncio.Future[int]:
    """Submit *item*; return once the writer has taken it and is held."""
    writer.go_on.clear()
    future = group.submit(item)
    assert await asyncio.to_thread(writer.taken.wait, 10)
    return future


async def test_requests_that_arrive_during_a_commit_are_the_next_batch(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    first = await held(writer, group, 1)
    rest = [group.submit(item) for item in range(2, 100)]
    writer.go_on.set()

    assert await asyncio.gather(first, *rest) == list(range(2, 200, 2))
    assert writer.batches == [[1], list(range(2, 100))]


async def test_a_job_runs_between_two_batches(writer: Writer, group: GroupCommit[int, int]) -> None:
    await held(writer, group, 1)
    before = group.submit(2)
    seen = asyncio.ensure_future(group.run(lambda: list(writer.batches)))
    await asyncio.sleep(0)
    after = group.submit(3)
    writer.go_on.set()

    assert await seen == [[1], [2]]
    assert (await before, await after) == (4, 6)


async def test_consecutive_jobs_run_without_an_iteration_of_the_loop(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    await held(writer, group, 1)
    done = threading.Event()
    jobs = [asyncio.ensure_future(group.run(work)) for work in (lambda: None, done.set)]
    await asyncio.sleep(0)
    writer.go_on.set()

    assert done.wait(10)  # the loop stands still here
    assert await asyncio.gather(*jobs) == [None, None]


async def test_a_failed_commit_fails_every_waiter_of_its_batch_and_no_other(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.failure = ServiceUnavailable("disk full")
    outcomes = await asyncio.gather(*map(group.submit, range(3)), return_exceptions=True)
    writer.failure = None

    assert [str(outcome) for outcome in outcomes] == ["disk full"] * 3
    assert await group.submit(4) == 8
    assert writer.unheard == []


async def test_an_outcome_that_is_an_exception_is_raised_to_its_waiter_alone() -> None:
    def commit(items: Sequence[int]) -> Sequence[int | Exception]:
        return [ZeroDivisionError() if item == 0 else 1 // item for item in items]

    group: GroupCommit[int, int] = GroupCommit(commit, rest=lambda: None)
    outcomes = await asyncio.gather(*map(group.submit, (1, 0, -1)), return_exceptions=True)
    await group.close()

    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [1, ZeroDivisionError, -1]


async def test_a_bug_in_the_writer_reaches_every_waiter(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.failure = ZeroDivisionError("a bug")
    outcomes = await asyncio.gather(*map(group.submit, range(3)), return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {ZeroDivisionError}


async def test_waiters_fail_after_the_patience_and_their_outcomes_are_unheard(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    first = await held(writer, group, 1)
    queued = group.submit(2)
    outcomes = await asyncio.gather(first, queued, return_exceptions=True)
    with pytest.raises(ServiceUnavailable):
        group.submit(3)  # nothing queues behind a writer that does not answer
    writer.go_on.set()
    await writer.heard_of_it.wait()

    assert {type(outcome) for outcome in outcomes} == {ServiceUnavailable}
    assert await group.submit(4) == 8
    assert writer.unheard == [(1, 2)]
    assert writer.batches == [[1], [4]]  # the queued one was left out


async def test_a_request_cancelled_before_its_batch_is_left_out(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    first = await held(writer, group, 1)
    leaving, staying = group.submit(2), group.submit(3)
    leaving.cancel()
    writer.go_on.set()

    assert (await first, await staying) == (2, 6)
    assert writer.batches == [[1], [3]]


async def test_a_request_cancelled_within_its_batch_is_committed_unheard(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    (await held(writer, group, 1)).cancel()
    writer.go_on.set()
    await writer.heard_of_it.wait()

    assert writer.unheard == [(1, 2)]


async def test_nothing_is_committed_if_all_requests_of_a_batch_are_cancelled(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    first = await held(writer, group, 1)
    group.submit(2).cancel()
    writer.go_on.set()

    assert await first == 2
    assert await group.submit(3) == 6
    assert writer.batches == [[1], [3]]


async def test_a_full_queue_refuses_further_requests(writer: Writer) -> None:
    group = GroupCommit(
        writer.commit, delivered=writer.note_delivered, rest=writer.rest, patience_s=HOUR_S
    )
    first = await held(writer, group, 1)
    waiting = [group.submit(item) for item in range(WAITING_MAX - 1)]

    with pytest.raises(ServiceUnavailable):
        group.submit(1)
    writer.go_on.set()
    assert len(await asyncio.gather(first, *waiting)) == WAITING_MAX
    assert await group.submit(1) == 2
    await group.close()


async def test_waiting_for_a_slow_job_ends_after_the_patience(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.go_on.clear()

    with pytest.raises(ServiceUnavailable):
        await group.run(lambda: writer.go_on.wait(10))


async def test_closing_commits_queued_requests_and_rests_once(writer: Writer) -> None:
    group = GroupCommit(writer.commit, delivered=writer.note_delivered, rest=writer.rest)
    waiting = [group.submit(item) for item in range(3)]
    await group.close()

    assert [future.result() for future in waiting] == [0, 2, 4]
    assert writer.rests == 1
    with pytest.raises(ServiceUnavailable):
        group.submit(1)


async def test_the_writer_rests_when_no_request_waits(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    await group.submit(1)

    assert await asyncio.to_thread(writer.rested.wait, 5)


async def test_the_writer_goes_on_after_an_unexpected_error_of_rest() -> None:
    rested = threading.Event()

    def rest() -> None:
        rested.set()
        raise KeyError

    group = GroupCommit(Writer().commit, rest=rest)
    await group.submit(1)
    assert await asyncio.to_thread(rested.wait, 5)

    assert await group.submit(2) == 4
    await group.close()


async def test_the_writer_rests_again_after_rest_soon(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    await group.submit(1)
    assert await asyncio.to_thread(writer.rested.wait, 5)
    writer.rested.clear()
    group.rest_soon()

    assert await asyncio.to_thread(writer.rested.wait, 5)
    assert await group.submit(2) == 4


class Reported:
    """A waiter that is no task: it may have left already, or fail when it gets its outcome."""

    def __init__(self, *, has_left: bool = False, failure: Exception | None = None) -> None:
        self.has_left = has_left
        self.failure = failure
        self.results: list[int] = []

    def done(self) -> bool:
        return self.has_left

    def set_result(self, outcome: int, /) -> None:
        if self.failure is not None:
            raise self.failure
        self.results.append(outcome)

    def set_exception(self, failure: Exception, /) -> None:
        raise failure


async def test_a_failing_waiter_is_unheard_and_the_others_get_their_outcomes(
    writer: Writer, group: GroupCommit[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    waiters = [Reported(), Reported(failure=ZeroDivisionError("a bug")), Reported()]
    for item, waiter in enumerate(waiters):
        group.submit_for(item, waiter)
    await group.submit(3)
    await writer.heard_of_it.wait()

    assert [waiter.results for waiter in waiters] == [[0], [], [4]]
    assert writer.unheard == [(1, 2)]


async def test_a_request_of_a_departed_waiter_is_left_out(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    group.submit_for(1, Reported(has_left=True))
    await group.submit(2)

    assert writer.batches == [[2]]
    assert writer.unheard == []


async def test_requests_in_one_iteration_of_the_loop_are_one_batch(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    await asyncio.gather(*map(group.submit, range(50)))

    assert writer.batches == [list(range(50))]
