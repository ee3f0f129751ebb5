"""GET /v1/stream: events, minutes and their cost, and the end of a stream."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mintscope.accounts.wallets.credits import Deposited
from mintscope.app.config.groups import StreamsConfig
from mintscope.kit.audit import UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint
from support.fakes.reports import TRACKED
from support.oracles.merging import merged
from support.scenes.live_market import SECOND, TOO_NEW, TRADED
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, bearer, credit_token
from support.scenes.streaming import PATH, Event, Streaming, streaming_service

UNTRACKED = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"


async def now(streaming: Streaming, mint: Mint) -> dict[str, Any]:
    """Open a stream, and return its snapshot of *mint*."""
    token = await streaming.service.issue(1)
    async with streaming.open(token, [mint]) as reader:
        return dict((await reader.some(2))[1].data)


async def test_the_first_events_are_the_minute_and_a_whole_snapshot_of_each_mint(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(5)

    async with streaming.open(token, TRADED) as reader:
        minute, *snapshots = await reader.some(3)

    headers = reader.response.headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "private, no-store"
    assert headers["x-credits-remaining"] == "3"
    assert minute == Event("minute", None, {"credits": 2, "creditsRemaining": 3}, 2_000)
    assert [(each.name, each.event_id, each.data["token"]) for each in snapshots] == [
        ("snapshot", streaming.service.log.seq, mint) for mint in TRADED
    ]
    assert set(snapshots[0].data) == {"slot", "token", "price", "indicators", "dataSpan"}
    assert snapshots[0].data["slot"] == 12


async def test_updates_add_up_to_the_snapshot_of_a_new_client(streaming: Streaming) -> None:
    token = await streaming.service.issue(1)

    async with streaming.open(token) as reader:
        _, snapshot = await reader.some(2)
        reported = snapshot.data
        for number in range(20):
            if number % 5 == 0:  # clients that join later get other events
                await now(streaming, TRADED[0])
            await streaming.trade()
            update = await reader.next()
            assert (update.name, update.event_id) == ("update", streaming.service.log.seq)
            reported = merged(reported, update.data)

        assert reported == await now(streaming, TRADED[0])


async def test_an_update_has_only_fields_that_have_changed(streaming: Streaming) -> None:
    token = await streaming.service.issue(1)

    async with streaming.open(token) as reader:
        await reader.some(2)
        await streaming.trade()
        update = (await reader.next()).data

    assert set(update["indicators"]["m1"]) >= {"ema9"}
    assert "ema200" not in update["indicators"]["m1"]  # too little history before and after
    assert "candleCounts" not in update["dataSpan"]


async def test_updates_are_sent_only_for_mints_that_trade(streaming: Streaming) -> None:
    token = await streaming.service.issue(2)

    async with streaming.open(token, TRADED) as reader:
        await reader.some(3)
        await streaming.trade(SECOND)
        await streaming.trade(TRADED[0])

        assert [each.data["token"] for each in await reader.some(2)] == [SECOND, TRADED[0]]


async def test_a_stream_sends_at_most_four_updates_a_second_and_loses_no_trade(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(1), streaming.service

    async with streaming.open(token) as reader:
        _, snapshot = await reader.some(2)
        await streaming.trade()
        reported = merged(snapshot.data, (await reader.next()).data)
        for _ in range(3):
            await streaming.trade(after_ms=50)
        service.clock.advance(100)
        await service.follower.catch_up()
        update = await reader.next()

        assert update.event_id == service.log.seq
        assert merged(reported, update.data) == await now(streaming, TRADED[0])


async def test_a_retraction_is_followed_by_a_corrected_snapshot(streaming: Streaming) -> None:
    token, service = await streaming.service.issue(1), streaming.service

    async with streaming.open(token) as reader:
        _, before = await reader.some(2)
        await streaming.trade()
        update = await reader.next()
        service.clock.advance(250)
        service.log.retract()
        await service.follower.catch_up()
        corrected = await reader.next()

    assert update.data["price"] != before.data["price"]
    assert (corrected.name, corrected.event_id) == ("snapshot", service.log.seq)
    assert corrected.data == before.data


async def test_a_client_that_comes_back_gets_a_snapshot_after_its_last_event(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(3), streaming.service
    async with streaming.open(token) as reader:
        await reader.some(2)
        await streaming.trade()
        last = await reader.next()

    # As if another process had sent it to the client; this process has not read it yet.
    await streaming.trade(is_seen=False)
    async with streaming.open(token, last_event_id=str(service.log.seq)) as reader:
        _, ahead = await reader.some(2)
    async with streaming.open(token, last_event_id="9" * 18) as reader:  # an id of another log
        _, other = await reader.some(2)

    assert last.event_id is not None
    assert ahead.name == other.name == "snapshot"
    assert ahead.event_id == other.event_id == last.event_id + 1


async def test_a_stream_sends_a_heartbeat_every_15_s(streaming: Streaming) -> None:
    token = await streaming.service.issue(1)

    async with streaming.open(token) as reader:
        await reader.some(2)
        await streaming.pass_time(15)
        await streaming.pass_time(15)

        assert [each.name for each in await reader.some(2)] == ["", ""]


async def test_each_started_minute_costs_a_credit_for_each_mint(streaming: Streaming) -> None:
    token, service = await streaming.service.issue(5), streaming.service

    async with streaming.open(token, TRADED) as reader:
        first = (await reader.some(3))[0]
        assert first.data == {"credits": 2, "creditsRemaining": 3}
        assert first.retry_ms == 2_000
        await streaming.pass_time(59)
        assert await service.left(token) == 3
        await streaming.pass_time(1)
        minute = next(each for each in await reader.some(2) if each.name)

        assert minute == Event("minute", None, {"credits": 2, "creditsRemaining": 1})
        assert await service.left(token) == 1

        await streaming.pass_time(60)
        end = (await reader.rest())[-1]

    assert end.name == "end"
    assert end.data["reason"] == "insufficient_credits"
    assert end.data["message"] == "Too few credits are left for another minute of the stream."
    assert end.data["creditsReturned"] == 0
    assert await service.left(token) == 1


async def test_a_snapshot_follows_trades_that_came_while_a_minute_was_paid(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(2), streaming.service

    async with streaming.open(token) as reader:
        await reader.some(2)
        service.clock.advance(60_000)
        service.streams.look()  # the stream waits for the debit of its minute
        await streaming.trade()
        await streaming.settled()
        service.streams.look()
        beat, minute, snapshot = await reader.some(3)

        assert (beat.name, minute.name, snapshot.name) == ("", "minute", "snapshot")
        assert snapshot.data == await now(streaming, TRADED[0])


@pytest.mark.parametrize("ends_by", ["a trade", "leaving", "the next"])
async def test_the_row_of_a_minute_is_deleted_after_an_event_or_its_end(
    streaming: Streaming, ends_by: str
) -> None:
    service = streaming.service
    token, other = await service.issue(3), await service.issue(1)

    def under_way() -> set[int]:
        return {number for (number,) in service.accounts.rows("SELECT id FROM stream_minute")}

    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(streaming.open(token))
        await reader.some(2)
        await streaming.pass_time(60)
        (quiet,) = under_way()  # the first minute has no row: it had a snapshot
        match ends_by:
            case "a trade":
                await streaming.trade()
            case "leaving":
                await stack.aclose()
                await streaming.until_closed()
            case _:
                await streaming.pass_time(60)
                assert quiet not in under_way()
        # The commit of this stream includes the changes so far.
        reader = await stack.enter_async_context(streaming.open(other))
        await reader.some(2)
        assert quiet not in under_way()


async def test_a_client_that_left_before_its_next_minute_pays_nothing_for_it(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(2)

    async with streaming.open(token) as reader:
        await reader.some(2)
    await streaming.until_closed()
    await streaming.pass_time(60)

    assert await streaming.service.left(token) == 1


async def test_minutes_during_which_the_process_was_suspended_are_not_paid(
    streaming: Streaming,
) -> None:
    """When the process resumes, one minute begins, no matter how often the streams are checked."""
    token, service = await streaming.service.issue(10), streaming.service

    async with streaming.open(token) as reader:
        await reader.some(2)
        service.clock.advance(250_000)
        for _ in range(3):
            service.streams.look()
        for _ in range(3):
            await streaming.pass_time(1)

        assert await service.left(token) == 8


async def test_stale_data_end_a_stream_and_a_minute_without_events_is_refunded(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(10), streaming.service

    async with streaming.open(token) as reader:
        await reader.some(2)
        for _ in range(5):
            await streaming.pass_time(60)
        left = await service.left(token)
        await streaming.pass_time(1)
        events = await reader.rest()
    await streaming.until_closed()

    assert left == 4
    assert events[-1].data["reason"] == "stale"
    assert events[-1].data["creditsReturned"] == 1
    assert events[-1].retry_ms is not None
    assert await service.left(token) == 5


async def test_the_next_minute_is_not_charged_if_stale_data_end_the_stream(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(10), streaming.service

    async with streaming.open(token) as reader:
        await reader.some(2)
        for _ in range(4):
            await streaming.pass_time(60)
        left = await service.left(token)
        await streaming.pass_time(61)  # one check finds stale data and a minute that is due
        events = await reader.rest()
    await streaming.until_closed()

    assert left == 5
    assert events[-1].data["reason"] == "stale"
    assert events[-1].data["creditsReturned"] == 1
    assert await service.left(token) == 6


async def test_a_shutdown_ends_a_stream_and_refunds_no_minute_with_events(
    streaming: Streaming,
) -> None:
    token, service = await streaming.service.issue(10), streaming.service

    async with streaming.open(token) as reader:
        await reader.some(2)
        service.streams.stop()
        (end,) = await reader.rest()
    refused = await streaming.client.get(PATH, params={"mints": TRACKED}, headers=bearer(token))

    assert end.data["reason"] == "shutting_down"
    assert end.data["creditsReturned"] == 0
    assert refused.status_code == 503
    assert await service.left(token) == 9


async def test_a_stream_ends_if_one_of_its_mints_is_no_longer_tracked(streaming: Streaming) -> None:
    token, service = await streaming.service.issue(2), streaming.service

    async with streaming.open(token, TRADED) as reader:
        await reader.some(3)
        service.clock.advance(250)
        service.log.untrack(SECOND)
        await service.follower.catch_up()
        (end,) = await reader.rest()

    assert end.data["reason"] == "not_tracked"
    assert SECOND in end.data["message"]


async def test_a_stream_ends_if_the_ledger_is_unavailable_and_nothing_is_taken(
    streaming: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, service = await streaming.service.issue(2), streaming.service

    async def away(_debit: object) -> None:
        raise ServiceUnavailable("away")

    async with streaming.open(token) as reader:
        await reader.some(2)
        monkeypatch.setattr(service.ledger, "prepay", away)
        await streaming.pass_time(60)
        end = (await reader.rest())[-1]

    assert end.data["reason"] == "unavailable"
    assert await service.left(token) == 1


async def filled_key(streaming: Streaming, credit_count: int) -> str:
    """Return an API key whose account has *credit_count* credits."""
    service = streaming.service
    key = await Agent(service).key()
    ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
    account = await service.ledger.find(await service.issue(credit_count))
    assert account is not None
    moved = await service.accounts.built.credits.deposit(UserId(user_id), account, None, None)
    assert isinstance(moved, Deposited)
    return key


@pytest.mark.parametrize(
    ("change", "value", "reason"),
    [
        ("month_credits_max = ?", 3, "key_cap_reached"),
        ("revoked_at = ?", int(NOW), "credential_refused"),
        ("scopes = ?", '["wallets:read"]', "credential_refused"),
    ],
)
async def test_a_stream_ends_if_its_api_key_may_not_pay_for_the_next_minute(
    streaming: Streaming, change: str, value: object, reason: str
) -> None:
    key = await filled_key(streaming, 10)

    async with streaming.open(key, TRADED) as reader:
        minute = (await reader.some(3))[0]
        streaming.service.accounts.change(f"UPDATE api_key SET {change}", value)
        await streaming.pass_time(60)
        end = (await reader.rest())[-1]

    assert minute.data == {"credits": 2, "creditsRemaining": 8}
    assert (end.data["reason"], end.data["creditsReturned"]) == (reason, 0)


@pytest.mark.parametrize(
    ("mints", "headers", "expected"),
    [
        ("", True, (400, "INVALID_TOKEN_ADDRESS")),
        (None, True, (400, "BAD_REQUEST")),
        ("abc", True, (400, "INVALID_TOKEN_ADDRESS")),
        (f"{TRACKED},{TRACKED}", True, (400, "BAD_REQUEST")),
        (f"{TRACKED},{SECOND},{TOO_NEW}", True, (400, "BAD_REQUEST")),
        (TRACKED, False, (402, "PAYMENT_REQUIRED")),
        (TRACKED, {"authorization": "Basic x"}, (401, "MISSING_TOKEN")),
        (TRACKED, bearer(credit_token(999)), (401, "INVALID_TOKEN")),
        (TRACKED, {"PAYMENT-SIGNATURE": "x"}, (400, "INVALID_PAYMENT")),
        (f"{TRACKED},{UNTRACKED}", True, (404, "TOKEN_NOT_FOUND")),
        (f"{TRACKED},{TOO_NEW}", True, (404, "INSUFFICIENT_DATA")),
    ],
)
async def test_a_refused_stream_costs_nothing(
    tmp_path: Path, mints: str | None, headers: Any, expected: tuple[int, str]
) -> None:
    async with streaming_service(tmp_path, streams=StreamsConfig(mints_max=2)) as streaming:
        token = await streaming.service.issue(2)
        if isinstance(headers, bool):
            headers = bearer(token) if headers else {}

        response = await streaming.client.get(
            PATH, params={} if mints is None else {"mints": mints}, headers=headers
        )

        assert (response.status_code, response.json()["error"]["code"]) == expected
        assert await streaming.service.left(token) == 2


async def test_no_token_is_loaded_without_credits_for_the_first_minute(
    streaming: Streaming,
) -> None:
    service = streaming.service
    token = await service.issue(1)

    response = await streaming.client.get(
        PATH, params={"mints": ",".join(TRADED), "timeframes": "h4,d1"}, headers=bearer(token)
    )

    assert (response.status_code, response.json()["error"]["code"]) == (
        402,
        "INSUFFICIENT_CREDITS",
    )
    assert [service.follower.ready(mint) for mint in TRADED] == [None, None]
    assert await service.left(token) == 1


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_the_address_of_a_stream_may_have_50_mints(
    streaming: Streaming, *, is_repeated: bool
) -> None:
    token = await streaming.service.issue(50)
    mints = ["9" * 40 + f"{number:04}".replace("0", "a") for number in range(1, 51)]

    response = await streaming.client.get(
        PATH,
        params={"mints": mints if is_repeated else ",".join(mints), "timeframes": "m30"},
        headers=bearer(token),
    )

    assert (response.status_code, response.json()["error"]["code"]) == (404, "TOKEN_NOT_FOUND")


async def test_a_stream_of_stale_data_is_503_and_free(streaming: Streaming) -> None:
    token = await streaming.service.issue(1)
    streaming.service.clock.advance(300_001)

    response = await streaming.client.get(PATH, params={"mints": TRACKED}, headers=bearer(token))

    assert (response.status_code, response.json()["error"]["code"]) == (503, "DATA_STALE")
    assert await streaming.service.left(token) == 1


async def test_open_streams_are_limited_for_each_account_and_in_total(tmp_path: Path) -> None:
    bounds = StreamsConfig(open_max=2, per_account_max=1)
    async with streaming_service(tmp_path, streams=bounds) as streaming:
        one, two, three = [await streaming.service.issue(2) for _ in range(3)]
        async with streaming.open(one) as first, streaming.open(two):
            async with streaming.open(one) as again, streaming.open(three) as third:
                pass
            assert (again.response.status_code, third.response.status_code) == (429, 503)
            assert again.response.headers["retry-after"]
            assert await streaming.service.left(one) == 1
            assert await streaming.service.left(three) == 2
            await first.some(2)
        await streaming.until_closed()
        async with streaming.open(one) as last:
            assert last.response.status_code == 200
