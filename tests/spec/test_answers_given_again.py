"""A request with the same Idempotency-Key gets its paid answer again for ten minutes, for free."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from mintscope.accounts.wallets.credits import Deposited
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.response import Bounds
from support.fakes.reports import TRACKED, UNTRACKED
from support.processes.served import Served, served
from support.scenes.conversations import (
    MINTS,
    ROUTES,
    add_swap,
    break_off,
    left_count,
    list_token,
    reset,
    settled,
    standing_still,
    until_left,
    until_seen,
    written,
)
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, running_service

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only the length of the test
CONVERSATIONS = 10_000 if FULL else 120
KEY, OTHER_KEY = "k" * 24, "o" * 24
MINUTE_MS = 60_000
AT_ONCE = 8
CHANGED = b'{"token":"changed"}'
ABREAST = 6  # conversations of up to four requests: the limit admits 30 a minute


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        add_swap(service)
        await list_token(service)
        yield service


@pytest.fixture
async def server(shop: Service) -> AsyncIterator[Served]:
    async with served(shop.app, Bounds(pause_s=0.0), clock=shop.clock) as server:
        yield server


async def answered(
    server: Served, route: str, token: str, key: str | None = KEY, mints: Sequence[str] = MINTS[:1]
) -> tuple[dict[str, str], bytes]:
    """Request *route*; return the headers and the body up to `meta`, which always differs."""
    async with server.connection() as client:
        await client.send(written(route, token, key=key, mints=mints))
        status, headers, body = await client.answer()
    assert status == 200, body
    return headers, body.partition(b',"meta":')[0]


@pytest.mark.parametrize("route", ROUTES)
async def test_requests_with_the_same_idempotency_key_take_one_credit(
    shop: Service, server: Served, route: str
) -> None:
    token = await shop.issue(10)
    first = await answered(server, route, token)
    again = await answered(server, route, token)

    assert again[1] == first[1]
    assert "idempotent-replayed" not in first[0]
    assert again[0]["idempotent-replayed"] == "true"
    assert again[0]["x-credits-remaining"] == first[0]["x-credits-remaining"] == "9"
    assert await shop.left(token) == 9
    await answered(server, route, token, OTHER_KEY)
    await answered(server, route, token, None)
    assert await shop.left(token) == 7


@pytest.mark.parametrize("route", ROUTES)
async def test_the_same_answer_is_sent_again_if_the_data_have_changed(
    shop: Service, server: Served, route: str
) -> None:
    token = await shop.issue(10)
    first = await answered(server, route, token)
    shop.reports.body = CHANGED
    shop.clock.advance(9 * MINUTE_MS)

    headers, body = await answered(server, route, token)
    assert body == first[1]
    assert int(headers["x-data-age-ms"]) >= int(first[0]["x-data-age-ms"]) + 9 * MINUTE_MS
    assert await shop.left(token) == 9


async def test_a_repeated_request_costs_a_credit_after_ten_minutes(
    shop: Service, server: Served
) -> None:
    token = await shop.issue(10)
    first = await answered(server, "report", token)
    shop.reports.body = CHANGED
    shop.clock.advance(10 * MINUTE_MS + 1)

    headers, body = await answered(server, "report", token)
    assert "idempotent-replayed" not in headers
    assert body != first[1]
    assert await shop.left(token) == 8


async def test_a_second_credit_buys_a_new_answer_after_a_slow_debit(
    shop: Service, server: Served
) -> None:
    """The ten minutes in which an answer can be repeated begin before its debit, slow or not."""
    token = await shop.issue(10)
    async with server.connection() as client:
        async with standing_still(shop) as store:
            await client.send(written("report", token, key=KEY))
            await store.until_taken()
            shop.clock.advance(1_000)
        first = await client.answer()
    shop.reports.body = CHANGED
    # Ten minutes and 1 ms after the request, but less than ten minutes after its debit.
    shop.clock.advance(10 * MINUTE_MS - 999)

    _, body = await answered(server, "report", token)
    assert CHANGED in body
    assert CHANGED not in first[2]
    assert await shop.left(token) == 8


async def test_the_same_answer_is_sent_again_if_reports_are_unavailable(
    shop: Service, server: Served
) -> None:
    token = await shop.issue(10)
    first = await answered(server, "report", token)
    shop.reports.bug = ServiceUnavailable("no report can be read")

    assert (await answered(server, "report", token))[1] == first[1]


async def test_a_client_that_leaves_before_its_repeated_answer_gets_no_refund(
    shop: Service, server: Served
) -> None:
    token = await shop.issue(10)
    await answered(server, "batch", token)
    since = left_count()
    async with server.connection() as client, standing_still(shop) as store:
        await client.send(written("batch", token, key=KEY))
        await store.until_taken()
        await until_seen(server, 5)
        await reset(client)
        await until_seen(server, 20)
    await until_left(since + 1)
    await settled(shop)

    assert await shop.left(token) == 9


async def test_an_answer_paid_with_the_last_credit_is_sent_again(
    shop: Service, server: Served
) -> None:
    token = await shop.issue(1)
    first = await answered(server, "report at once", token)

    assert (await answered(server, "report at once", token))[1] == first[1]


async def test_an_idempotency_key_applies_to_one_request_of_one_account(
    shop: Service, server: Served
) -> None:
    token, other = await shop.issue(10), await shop.issue(10)
    for route in ("report at once", "report", "candles", "indicators", "batch"):
        await answered(server, route, token)
    await answered(server, "report", other)
    await answered(server, "batch", token, mints=[TRACKED, UNTRACKED])

    assert await shop.left(token) == 4
    assert await shop.left(other) == 9


@pytest.mark.parametrize("route", ROUTES)
async def test_concurrent_requests_with_one_idempotency_key_take_one_credit(
    shop: Service, server: Served, route: str
) -> None:
    token = await shop.issue(10)
    found = await asyncio.gather(*(answered(server, route, token) for _ in range(AT_ONCE)))

    assert len({body for _, body in found}) == 1
    assert await shop.left(token) == 9


async def test_a_concurrent_repeat_gets_the_answer_that_was_paid_for(
    shop: Service, server: Served
) -> None:
    token = await shop.issue(10)
    asked = written("report", token, key=KEY)
    async with server.connection() as first, server.connection() as second:
        async with standing_still(shop) as store:
            await first.send(asked)
            await store.until_taken()
            shop.reports.body = CHANGED
            reads = shop.reports.reads
            await second.send(asked)
            while shop.reports.reads == reads:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.001)
        answers = [await each.answer() for each in (first, second)]

    bodies = [body.partition(b',"meta":')[0] for _, _, body in answers]
    assert bodies[0] == bodies[1]
    assert CHANGED not in bodies[0]
    assert ["idempotent-replayed" in headers for _, headers, _ in answers] == [False, True]
    assert await shop.left(token) == 9


@pytest.mark.parametrize("route", ROUTES)
async def test_another_replica_takes_no_second_credit_for_the_same_key(
    tmp_path: Path, shop: Service, server: Served, route: str
) -> None:
    """The other replica shares the store, but has no copy of the answer."""
    token = await shop.issue(10)
    await answered(server, route, token)
    async with (
        running_service(tmp_path, clock=shop.clock) as replica,
        served(replica.app, Bounds(pause_s=0.0), clock=shop.clock) as other,
    ):
        add_swap(replica)
        await list_token(replica)
        headers, _ = await answered(other, route, token)
        assert await replica.left(token) == 9

    assert headers["idempotent-replayed"] == "true"


async def test_an_answer_made_again_by_another_replica_expires_with_its_debit(
    tmp_path: Path, shop: Service, server: Served
) -> None:
    """The answer is made again nine minutes after the debit, and is kept for one minute more."""
    token = await shop.issue(10)
    await answered(server, "report", token)
    shop.clock.advance(9 * MINUTE_MS)
    async with (
        running_service(tmp_path, clock=shop.clock) as replica,
        served(replica.app, Bounds(pause_s=0.0), clock=shop.clock) as other,
    ):
        first = await answered(other, "report", token)
        replica.reports.body = CHANGED
        assert (await answered(other, "report", token))[1] == first[1]
        shop.clock.advance(2 * MINUTE_MS)
        headers, body = await answered(other, "report", token)
        assert await replica.left(token) == 8

    assert "idempotent-replayed" not in headers
    assert CHANGED in body


async def test_a_repeated_request_costs_a_credit_if_the_first_was_refunded(
    shop: Service, server: Served
) -> None:
    token, since = await shop.issue(10), left_count()
    async with server.connection() as client, standing_still(shop) as store:
        await client.send(written("batch", token, key=KEY))
        await store.until_taken()
        await until_seen(server, 5)
        await reset(client)
        await until_seen(server, 20)
    await until_left(since + 1)
    await settled(shop)
    assert await shop.left(token) == 10

    shop.reports.body = CHANGED
    headers, body = await answered(server, "batch", token)
    assert "idempotent-replayed" not in headers
    assert CHANGED in body
    assert await shop.left(token) == 9


async def test_a_request_and_its_repeat_cost_nothing_if_both_clients_leave(
    shop: Service, server: Served
) -> None:
    token, since = await shop.issue(10), left_count()
    async with (
        server.connection() as first,
        server.connection() as again,
        standing_still(shop) as store,
    ):
        await first.send(written("batch", token, key=KEY))
        await store.until_taken()
        await until_seen(server, 5)
        await again.send(written("batch", token, key=KEY))
        await until_seen(server, 20)
        await reset(first)
        await reset(again)
        await until_seen(server, 20)
    await until_left(since + 2)
    await settled(shop)

    assert await shop.left(token) == 10


async def test_an_api_key_spends_one_credit_for_one_idempotency_key(
    shop: Service, server: Served
) -> None:
    key = await Agent(shop).key()
    ((user_id,),) = shop.accounts.rows('SELECT id FROM "user"')
    bought = await shop.ledger.find(await shop.issue(10))
    assert bought is not None
    credits_ = shop.accounts.built.credits
    assert isinstance(await credits_.deposit(UserId(user_id), bought, None, None), Deposited)
    for _ in range(3):
        await answered(server, "candles", key)

    assert shop.accounts.rows("SELECT sum(credits) FROM key_month") == [(1,)]


@pytest.mark.timeout(1_800)
@pytest.mark.storm
async def test_each_answer_is_paid_for_once_though_connections_break(tmp_path: Path) -> None:
    """Each request is broken off up to three times at either of two replicas, and then answered."""
    random, limit_clock = Random(7), ManualClock(NOW)
    async with AsyncExitStack() as stack:
        replicas = []
        clock = ManualClock(NOW)
        for _ in range(2):
            service = await stack.enter_async_context(
                running_service(tmp_path, clock=clock, limit_clock=limit_clock)
            )
            add_swap(service)
            await list_token(service)
            served_here = served(service.app, Bounds(pause_s=0.0), clock=clock)
            replicas.append((service, await stack.enter_async_context(served_here)))
        first = replicas[0][0]
        token = await first.issue(CONVERSATIONS + 1_000)

        async def converse(number: int) -> None:
            own, route = Random(number), list(ROUTES)[number % len(ROUTES)]
            request = written(route, token, key=f"conversation-{number:016}")
            for _ in range(own.randrange(1, 4)):
                await break_off(own.choice(replicas)[1], request, own)
            last = own.choice(replicas)[1]
            await answered(last, route, token, f"conversation-{number:016}")

        for begin in range(0, CONVERSATIONS, ABREAST):
            limit_clock.advance(MINUTE_MS)
            clock.advance(random.randrange(100))
            numbers = range(begin, min(begin + ABREAST, CONVERSATIONS))
            await asyncio.gather(*(converse(number) for number in numbers))
        for service, _ in replicas:
            await service.ledger.expect_writable()
        await asyncio.sleep(0.2)

        assert await first.left(token) == 1_000
