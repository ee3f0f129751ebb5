"""Many requests, one commit: who is told what, whatever the writer does."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from mintscope.errors import ServiceUnavailable
from mintscope.storage.group_commit import WAITING_MAX, GroupCommit


class Writer:
    """Doubles numbers; can be held, and told to fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.unheard: list[tuple[int, int]] = []
        self.rests = 0
        self.rested = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    def commit(self, items: Sequence[int]) -> Sequence[int]:
        assert self.go_on.wait(10)
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(items))
        return [item * 2 for item in items]

    def note_unheard(self, unheard: Sequence[tuple[int, int]]) -> None:
        self.unheard += unheard

    def rest(self) -> None:
        self.rests += 1
        self.rested.set()


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
async def group(writer: Writer) -> AsyncIterator[GroupCommit[int, int]]:
    group = GroupCommit(
        writer.commit, unheard=writer.note_unheard, rest=writer.rest, patience_s=0.3
    )
    yield group
    writer.go_on.set()
    await group.close()


async def test_what_arrives_together_is_committed_together(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    assert await asyncio.gather(*map(group.submit, range(100))) == list(range(0, 200, 2))
    assert writer.batches == [list(range(100))]


async def test_what_arrives_during_a_commit_is_the_next_batch(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.go_on.clear()
    first = group.submit(1)
    await asyncio.sleep(0)  # the first batch is handed over
    await asyncio.sleep(0)
    rest = [group.submit(item) for item in (2, 3)]
    writer.go_on.set()

    assert await asyncio.gather(first, *rest) == [2, 4, 6]
    assert writer.batches == [[1], [2, 3]]


async def test_a_failed_commit_fails_every_waiter_of_its_batch_and_no_other(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.failure = ServiceUnavailable("disk full")
    outcomes = await asyncio.gather(*map(group.submit, range(3)), return_exceptions=True)
    writer.failure = None

    assert [str(outcome) for outcome in outcomes] == ["disk full"] * 3
    assert await group.submit(4) == 8
    assert writer.unheard == []


async def test_a_bug_in_the_writer_reaches_every_waiter(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.failure = ZeroDivisionError("a bug")
    outcomes = await asyncio.gather(*map(group.submit, range(3)), return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {ZeroDivisionError}


async def test_waiters_are_given_up_on_in_time_and_their_outcomes_are_unheard(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.go_on.clear()
    first = group.submit(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    queued = group.submit(2)
    outcomes = await asyncio.gather(first, queued, return_exceptions=True)
    with pytest.raises(ServiceUnavailable):
        group.submit(3)
    writer.go_on.set()
    await group.run(lambda: None)  # its turn comes after the late commit

    assert {type(outcome) for outcome in outcomes} == {ServiceUnavailable}
    assert writer.unheard == [(1, 2)]  # the queued one was never handed over
    assert await group.submit(4) == 8


async def test_who_leaves_before_the_hand_over_is_left_out(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    leaving, staying = group.submit(1), group.submit(2)
    leaving.cancel()

    assert await staying == 4
    assert writer.batches == [[2]]


async def test_who_leaves_after_the_hand_over_is_unheard(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.go_on.clear()
    leaving, staying = group.submit(1), group.submit(2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leaving.cancel()
    writer.go_on.set()

    assert await staying == 4
    assert writer.unheard == [(1, 2)]


async def test_when_everyone_leaves_nothing_is_committed(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    group.submit(1).cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert writer.batches == []
    assert await group.submit(2) == 4


async def test_the_queue_has_an_end(writer: Writer, group: GroupCommit[int, int]) -> None:
    waiting = [group.submit(item) for item in range(WAITING_MAX)]

    with pytest.raises(ServiceUnavailable):
        group.submit(1)
    assert len(await asyncio.gather(*waiting)) == WAITING_MAX
    assert len(writer.batches) == 1


async def test_a_slow_job_is_not_waited_for_forever(
    writer: Writer, group: GroupCommit[int, int]
) -> None:
    writer.go_on.clear()

    with pytest.raises(ServiceUnavailable):
        await group.run(lambda: writer.go_on.wait(10))


async def test_closing_finishes_what_is_queued_and_rests_once(writer: Writer) -> None:
    group = GroupCommit(writer.commit, unheard=writer.note_unheard, rest=writer.rest)
    waiting = [group.submit(item) for item in range(3)]
    await group.close()

    assert [future.result() for future in waiting] == [0, 2, 4]
    assert writer.rests == 1
    with pytest.raises(ServiceUnavailable):
        group.submit(1)


async def test_it_rests_when_nobody_waits(writer: Writer, group: GroupCommit[int, int]) -> None:
    await group.submit(1)

    assert await asyncio.to_thread(writer.rested.wait, 5)
