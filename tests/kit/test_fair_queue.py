"""The queue resumes one waiting task in each iteration of the event loop, in order."""

import asyncio

from structlog.testing import capture_logs

from mintscope.kit.fair_queue import FairQueue

COUNT = 20


async def test_one_task_continues_in_each_turn_of_the_loop_and_in_order() -> None:
    turns, turn, went = FairQueue(), 0, list[tuple[int, int]]()

    async def work(number: int) -> None:
        await turns.next()
        went.append((number, turn))

    workers = [asyncio.create_task(work(number)) for number in range(COUNT)]
    while not all(worker.done() for worker in workers):
        turn += 1
        await asyncio.sleep(0)

    assert [number for number, _ in went] == list(range(COUNT))
    assert len({turn for _, turn in went}) == COUNT


async def test_a_task_without_others_does_not_wait() -> None:
    turns = FairQueue()
    for _ in range(3):
        waiting = turns.next()
        try:
            waiting.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("expected no waiting")
        for _ in range(2):
            await asyncio.sleep(0)


async def test_a_cancelled_task_does_not_stop_others() -> None:
    turns = FairQueue()
    _, impatient, patient = (asyncio.create_task(turns.next()) for _ in range(3))
    await asyncio.sleep(0)
    impatient.cancel()

    async with asyncio.timeout(5):
        await patient
    assert impatient.cancelled()


async def test_a_callback_that_fails_is_logged_and_does_not_stop_others() -> None:
    turns = FairQueue()

    def fail() -> bool:
        raise OSError("not connected")

    assert turns.take()
    turns.wait(fail)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await turns.next()

    assert [line["event"] for line in logs] == ["queued work failed"]
    await asyncio.sleep(0)
    assert turns.take()
