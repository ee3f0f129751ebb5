"""The queue of webhooks, on every engine."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mintscope.alerts.alert import FiringId, QueueLength, SignalId
from mintscope.alerts.queue_store import (
    DueWanted,
    NewWebhook,
    SqlWebhookQueue,
    WebhookOutcome,
)
from mintscope.kit.primitives import UnixMs
from support.scenes.account_stores import QUEUES

ONE, OTHER, THIRD = SignalId(1), SignalId(2), SignalId(3)


def at(number: int) -> UnixMs:
    return UnixMs(1_700_000_000_000 + number)


def new(signal: SignalId, *numbers: int) -> list[NewWebhook]:
    return [NewWebhook(FiringId(each), signal, at(each)) for each in numbers]


@pytest.fixture(params=QUEUES)
async def two(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[SqlWebhookQueue, SqlWebhookQueue]]:
    """Yield two queues over one database, as in two processes."""
    async with AsyncExitStack() as stack:
        opener = QUEUES[request.param]
        here, there = [await stack.enter_async_context(opener(tmp_path)) for _ in range(2)]
        yield here, there


async def take_in(queue: SqlWebhookQueue, webhooks: Sequence[NewWebhook], now: int = 100) -> None:
    until = max(each.firing_id for each in webhooks)
    await queue.transact(lambda rows: rows.take_in(until, webhooks, at(now)))


async def claimed(queue: SqlWebhookQueue, now: int, until: int = 1_000, **wanted: Any) -> list[Any]:
    asked = DueWanted(**{"webhooks": 99, "of_each": 2, **wanted})
    found = await queue.transact(lambda rows: rows.claim(at(now), at(until), asked))
    return [(each.signal_id, [one.firing_id for one in each.webhooks]) for each in found]


async def test_a_webhook_that_is_taken_in_twice_waits_once(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    assert await there.read(lambda queue: queue.taken_until()) is None
    late = NewWebhook(FiringId(4), ONE, at(4), 2, at(5), "late")
    await take_in(here, [*new(ONE, 1, 2), *new(OTHER, 3), late])
    await take_in(there, [*new(ONE, 2), *new(THIRD, 5)])
    assert await there.read(lambda queue: queue.taken_until()) == 5
    assert await there.read(lambda queue: queue.length()) == QueueLength(4, at(1))
    reported = await here.read(
        lambda queue: queue.outcomes([FiringId(1), FiringId(4), FiringId(9)])
    )
    assert reported == {
        1: WebhookOutcome(at(100), 0, None, None, None),
        4: WebhookOutcome(None, 2, None, at(5), "late"),
    }


async def test_webhooks_are_due_and_leased_by_signal_and_not_by_firing(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, 1, 2, 3), *new(OTHER, 4)])
    assert not await there.read(lambda queue: queue.is_due(at(99)))
    assert await there.read(lambda queue: queue.is_due(at(100)))
    assert await claimed(here, 100) == [(ONE, [1, 2]), (OTHER, [4])]
    assert await claimed(there, 100) == [], "it is leased"
    assert not await there.read(lambda queue: queue.is_due(at(999)))
    await here.transact(lambda rows: rows.schedule(ONE, 1, at(200)))
    await take_in(here, new(ONE, 6), now=150)
    assert not await there.read(lambda queue: queue.is_due(at(199))), "what is new waits, too"
    assert await claimed(there, 200) == []
    assert await claimed(there, 200, of_each=1, is_failing=True) == [(ONE, [1])]
    assert await claimed(there, 1_000, without=[ONE]) == [(OTHER, [4])]


async def test_a_claim_takes_at_most_its_number_of_webhooks(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, 1, 2, 3), *new(OTHER, 4, 5), *new(THIRD, 6)])
    assert await claimed(here, 100, webhooks=3) == [(ONE, [1, 2]), (OTHER, [4])]
    assert await claimed(there, 100, webhooks=3) == [(THIRD, [6])]


async def test_sent_and_given_up_webhooks_are_not_due_again(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, 1, 2), *new(OTHER, 3, 4)])
    done = WebhookOutcome(None, 1, at(101), None, None)
    await here.transact(lambda rows: rows.note({FiringId(1): done, FiringId(2): done}))
    await here.transact(lambda rows: rows.schedule(ONE, 0, at(101)))
    await here.transact(lambda rows: rows.give_up(OTHER, at(102), "enough"))
    assert await claimed(there, 5_000) == []
    assert not await there.read(lambda queue: queue.is_due(at(5_000)))
    reported = await there.read(lambda queue: queue.outcomes([FiringId(2), FiringId(4)]))
    assert reported == {2: done, 4: WebhookOutcome(None, 0, None, at(102), "enough")}
    assert await there.read(lambda queue: queue.length()) == QueueLength(0, None)


async def test_the_oldest_webhooks_beyond_the_limit_are_dropped_except_the_first(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, *range(1, 9)), *new(OTHER, *range(11, 19)), *new(THIRD, 20, 21)])
    many = [SignalId(number) for number in range(-600, 0)]  # no webhook belongs to these

    async def drop(queue: SqlWebhookQueue) -> int:
        signals = [ONE, OTHER, *many]
        return await queue.transact(lambda rows: rows.drop_oldest(signals, 4, at(99), "enough"))

    assert [await drop(here), await drop(there)] == [8, 0]
    assert (await there.read(lambda queue: queue.length())).waiting == 4 + 4 + 2
    assert await claimed(there, 100, of_each=9) == [
        (ONE, [1, 6, 7, 8]),
        (OTHER, [11, 16, 17, 18]),
        (THIRD, [20, 21]),
    ]


async def test_webhooks_are_purged_by_age_and_by_number(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, *range(1, 9)), *new(OTHER, 9)])
    done = {FiringId(each): WebhookOutcome(None, 1, at(101), None, None) for each in range(1, 7)}
    await here.transact(lambda rows: rows.note(done))
    await here.transact(lambda rows: rows.purge(at(3), 4))
    numbers = [FiringId(each) for each in range(1, 10)]
    assert sorted(await there.read(lambda queue: queue.outcomes(numbers))) == [5, 6, 7, 8, 9]
    await here.transact(lambda rows: rows.purge(at(9), 4))
    assert sorted(await there.read(lambda queue: queue.outcomes(numbers))) == [9]


async def test_webhooks_of_deleted_signals_are_purged(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [*new(ONE, 1, 2), *new(OTHER, 3), *new(THIRD, 4)])
    assert sorted(await there.read(lambda queue: queue.signals())) == [ONE, OTHER, THIRD]
    await here.transact(lambda rows: rows.purge(at(0), 9, {ONE, THIRD}))
    numbers = [FiringId(each) for each in range(1, 5)]
    assert sorted(await there.read(lambda queue: queue.outcomes(numbers))) == [3]
    assert await there.read(lambda queue: queue.signals()) == [OTHER]


async def test_webhooks_that_were_too_late_are_purged_like_others(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    late = [*new(ONE, 1, 2, 3), *new(OTHER, 4)]
    await take_in(here, [each._replace(given_up_at=at(9), reason="late") for each in late])
    assert sorted(await there.read(lambda queue: queue.signals())) == [ONE, OTHER]
    assert await claimed(there, 5_000) == []

    await here.transact(lambda rows: rows.purge(at(0), 2, {OTHER}))
    numbers = [each.firing_id for each in late]
    assert sorted(await there.read(lambda queue: queue.outcomes(numbers))) == [2, 3]
    await take_in(there, new(ONE, 5))
    assert await claimed(here, 100) == [(ONE, [5])]


async def test_each_webhook_is_claimed_by_only_one_of_two_processes(
    two: tuple[SqlWebhookQueue, SqlWebhookQueue],
) -> None:
    here, there = two
    await take_in(here, [each for n in range(6) for each in new(SignalId(1 + n), 1 + n)])
    taken = [await claimed(queue, 100, webhooks=2) for queue in (here, there, here, there)]
    assert [len(each) for each in taken] == [2, 2, 2, 0]
    assert len({signal for each in taken for signal, _ in each}) == 6
