"""WebSockets at /v1/stream have the events and the price of GET /v1/stream."""

import asyncio
import json
import re
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mintscope.app.config.groups import StreamsConfig
from mintscope.kit.http.application import Draining
from mintscope.kit.http.response import Bounds
from support.fakes.reports import TRACKED
from support.processes.served import served
from support.scenes.live_market import SECOND, TOO_NEW, TRADED
from support.scenes.service import credit_token
from support.scenes.sockets import Socket, socket, stream
from support.scenes.streaming import PATIENCE_S, Event, Streaming, streaming_service

AUTH = {"type": "auth", "mints": [TRACKED]}
UPGRADE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


async def refusal(opened: Socket) -> tuple[int, str, int | None]:
    """Read the error that refuses *opened*; return its status, its code, and the close code."""
    error = await opened.message()
    assert error["type"] == "error"
    with pytest.raises(ConnectionClosed):
        await opened.message()
    return error["status"], error["error"]["code"], await opened.close_code()


@pytest.mark.parametrize("seed", range(8))
async def test_a_websocket_has_the_events_and_the_price_of_server_sent_events(
    streaming: Streaming, seed: int
) -> None:
    """Trades and minutes are random; both connections get the same events and cost the same."""
    random, credit_count = Random(seed), 12
    one, two = [await streaming.service.issue(credit_count) for _ in range(2)]

    async with (
        streaming.open(one, TRADED) as events,
        stream(streaming, two, TRADED) as messages,
    ):
        await streaming.until_open(2)
        telling, saying = [asyncio.create_task(each.rest()) for each in (events, messages)]
        await streaming.trade()
        for _ in range(40):
            match random.randrange(6):
                case 0:
                    await streaming.pass_time(random.choice([1, 15, 60]))
                case 1:
                    await streaming.trade(*TRADED, after_ms=random.choice([0, 250]))
                case _:
                    await streaming.trade(random.choice(TRADED), after_ms=random.choice([0, 250]))
        streaming.service.streams.stop()
        reported, said = [each for each in await telling if each.name], await saying
    await streaming.until_closed()

    assert {each.name for each in said} == {"minute", "snapshot", "update", "end"}
    # The time after which each client reconnects is random.
    assert [*said[:-1], replace(said[-1], retry_ms=None)] == [
        *reported[:-1], replace(reported[-1], retry_ms=None)
    ]  # fmt: skip
    assert (said[-1].retry_ms is None) == (reported[-1].retry_ms is None)
    left = await streaming.service.left(two)
    assert left == await streaming.service.left(one) < credit_count


async def test_the_handshake_has_the_headers_of_a_stream(streaming: Streaming) -> None:
    token = await streaming.service.issue(5)

    async with stream(streaming, token, TRADED, origin="https://elsewhere.example") as opened:
        minute, *snapshots = await opened.some(3)

    response = opened.connection.response
    assert response is not None
    assert response.headers["x-credits-remaining"] == "3"
    assert response.headers["x-request-id"]
    assert response.headers["access-control-allow-origin"] == "*"
    assert "content-type" not in response.headers
    assert minute == Event("minute", None, {"credits": 2, "creditsRemaining": 3}, 2_000)
    assert [each.data["token"] for each in snapshots] == list(TRADED)


async def test_the_first_message_has_the_credential_and_the_query(streaming: Streaming) -> None:
    token = await streaming.service.issue(2)

    async with socket(streaming) as opened:
        await opened.say(AUTH | {"token": token, "mints": list(TRADED), "partial": True})
        minute, *snapshots = await opened.some(3)

    assert minute.data == {"credits": 2, "creditsRemaining": 0}
    assert [each.data["token"] for each in snapshots] == list(TRADED)


async def test_the_query_may_be_in_the_address_and_not_in_the_first_message(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(1)

    async with socket(streaming, f"?mints={TRACKED}") as opened:
        # In two frames, because a client may split a message.
        text = json.dumps({"type": "auth", "token": token})
        await opened.connection.send([text[:9], text[9:]])

        assert [each.name for each in await opened.some(2)] == ["minute", "snapshot"]


@pytest.mark.parametrize("is_in_head", [True, False])
async def test_a_client_that_comes_back_gets_a_snapshot_after_its_last_event(
    streaming: Streaming, *, is_in_head: bool
) -> None:
    token, service = await streaming.service.issue(2), streaming.service
    async with stream(streaming, token, TRADED[:1]) as opened:
        await opened.some(2)
        await streaming.trade()
        last = await opened.next()
    await streaming.trade(is_seen=False)  # another process has sent it already
    since = str(service.log.seq)

    if is_in_head:
        async with stream(streaming, token, TRADED[:1], last_event_id=since) as opened:
            _, ahead = await opened.some(2)
    else:
        async with socket(streaming) as opened:
            await opened.say(AUTH | {"token": token, "lastEventId": since})
            _, ahead = await opened.some(2)

    assert last.event_id is not None
    assert (ahead.name, ahead.event_id) == ("snapshot", last.event_id + 1)


async def test_a_client_that_closes_pays_no_further_minute(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(3)

    async with stream(streaming, token, TRADED[:1]) as opened:
        await opened.some(2)
    await streaming.until_closed()
    await streaming.pass_time(60)

    assert opened.connection.close_code == 1000
    assert await streaming.service.left(token) == 2


async def test_a_websocket_ends_with_an_end_event_if_credits_are_too_few(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(1)

    async with stream(streaming, token, TRADED[:1]) as opened:
        await opened.some(2)
        await streaming.pass_time(60)
        end = (await opened.rest())[-1]

    assert (end.name, end.data["reason"]) == ("end", "insufficient_credits")


async def test_a_heartbeat_is_a_ping_and_pings_are_answered(streaming: Streaming) -> None:
    token = await streaming.service.issue(1)

    async with streaming.server.connection() as client:
        head = UPGRADE.replace(b"/v1/stream", b"/v1/stream?mints=" + TRACKED.encode())
        await client.send(head + b"Authorization: Bearer " + token.encode() + b"\r\n\r\n")
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        await streaming.until_open(1)
        # A ping with the payload `a`, masked with zeros.
        await client.send(b"\x89\x81\x00\x00\x00\x00a")
        async with asyncio.timeout(PATIENCE_S):
            await client.reader.readuntil(b"\x8a\x01a")  # a pong
            await streaming.pass_time(15)
            await client.reader.readuntil(b"\x89\x00")  # a ping


# Refusals, by status and code.
REFUSED: list[tuple[str | None, Any, tuple[int, str]]] = [
    ("", True, (400, "INVALID_TOKEN_ADDRESS")),
    (None, True, (400, "BAD_REQUEST")),
    (f"{TRACKED},{SECOND},{TOO_NEW}", True, (400, "BAD_REQUEST")),
    (TRACKED, None, (402, "PAYMENT_REQUIRED")),
    (TRACKED, "", (401, "MISSING_TOKEN")),
    (TRACKED, "nothing", (401, "INVALID_TOKEN")),
    (TRACKED, credit_token(999), (401, "INVALID_TOKEN")),
    ("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", True, (404, "TOKEN_NOT_FOUND")),
    (f"{TRACKED},{SECOND}", True, (402, "INSUFFICIENT_CREDITS")),
]


@pytest.mark.parametrize(("mints", "token", "expected"), REFUSED)
async def test_a_refused_websocket_costs_nothing(
    tmp_path: Path, mints: str | None, token: Any, expected: tuple[int, str]
) -> None:
    """A refused handshake gets an HTTP response, a refused message an error and a close code."""
    async with streaming_service(tmp_path, streams=StreamsConfig(mints_max=2)) as streaming:
        own = await streaming.service.issue(1)
        shown = own if token is True else token
        asked = {} if mints is None else {"mints": mints}

        async with socket(streaming) as opened:
            await opened.say(
                {"type": "auth", **asked} | ({} if shown is None else {"token": shown})
            )
            status, code, closed = await refusal(opened)
        if shown is not None:
            query = "" if mints is None else f"?mints={mints}"
            with pytest.raises(InvalidStatus) as refused:
                await socket(streaming, query, {"authorization": f"Bearer {shown}"}).__aenter__()
            body = json.loads(refused.value.response.body or b"")
            assert (refused.value.response.status_code, body["error"]["code"]) == expected
            assert refused.value.response.headers["connection"] == "close"

        assert (status, code) == expected
        assert closed == 4_000 + status
        assert await streaming.service.left(own) == 1


async def test_the_error_of_one_stream_too_many_has_a_time_to_retry(tmp_path: Path) -> None:
    bounds = StreamsConfig(per_account_max=1)
    async with streaming_service(tmp_path, streams=bounds) as streaming:
        token = await streaming.service.issue(2)
        async with stream(streaming, token, TRADED[:1]), socket(streaming) as second:
            await second.say(AUTH | {"token": token})
            error = await second.message()

    assert (error["status"], error["error"]["code"]) == (429, "RATE_LIMITED")
    assert error["retryAfterS"] > 0


@pytest.mark.parametrize(
    "message",
    ["", "{", "[]", '"auth"', "{}", '{"type": "subscribe"}', '{"type": "auth", "token": 1}',
     '{"type": "auth", "mints": {"a": 1}}', '{"type": "auth", "mints": null}',
     '{"type": "auth", "lastEventId": "\\u0000", "typo": 1}', "[" * 4_000],
)  # fmt: skip
async def test_an_invalid_first_message_is_refused(streaming: Streaming, message: str) -> None:
    async with socket(streaming) as opened:
        await opened.connection.send(message)

        assert (await refusal(opened))[::2] == (400, 4400)


@pytest.mark.parametrize(
    ("sent", "closed"),
    [("x" * 4_097, 1009), (b"{}", 1003), (["{"] * 200, 1008)],
    ids=["too large", "binary", "too many frames"],
)
async def test_frames_beyond_the_bounds_close_a_websocket(
    streaming: Streaming, sent: Any, closed: int
) -> None:
    async with socket(streaming) as opened:
        with suppress(ConnectionClosed):
            await opened.connection.send(sent)
            await opened.message()

        assert await opened.close_code() == closed


async def test_messages_after_the_first_are_ignored_up_to_a_limit(
    streaming: Streaming,
) -> None:
    token = await streaming.service.issue(1)

    async with stream(streaming, token, TRADED[:1]) as opened:
        await opened.some(2)
        for _ in range(100):
            await opened.connection.send("ping")
        await streaming.trade()
        assert (await opened.next()).name == "update"
        with suppress(ConnectionClosed):
            for _ in range(100):
                await opened.connection.send("ping")
        assert await opened.close_code() == 1008
    await streaming.until_closed()


@pytest.mark.parametrize(
    "head",
    [
        UPGRADE.replace(b"Version: 13", b"Version: 8"),
        UPGRADE.replace(b"AAAA", b""),
        UPGRADE.replace(b"AAAA==", b"?==="),
        UPGRADE[: UPGRADE.index(b"Sec-WebSocket-Key")],
    ],
)
async def test_an_invalid_handshake_is_refused(streaming: Streaming, head: bytes) -> None:
    async with streaming.server.connection() as client:
        await client.send(head + b"\r\n")
        status, headers, body = await client.answer()

    assert (status, headers["connection"]) == (400, "close")
    assert json.loads(body)["error"]["code"] == "BAD_REQUEST"


async def test_other_paths_and_methods_do_not_become_a_websocket(streaming: Streaming) -> None:
    for asked in (b"GET /v1/health", b"GET /v1/streams", b"HEAD /v1/stream", b"POST /v1/stream"):
        async with streaming.server.connection() as client:
            await client.send(UPGRADE.replace(b"GET /v1/stream", asked) + b"\r\n")
            line = await client.reader.readline()
            assert b" 101 " not in line


async def test_a_websocket_is_closed_if_no_first_message_comes_in_time(
    streaming: Streaming,
) -> None:
    bounds = Bounds(first_message_s_max=0.05)
    async with (
        served(streaming.service.app, bounds, clock=streaming.service.clock) as server,
        socket(replace(streaming, server=server)) as opened,
    ):
        assert await refusal(opened) == (408, "REQUEST_TIMEOUT", 4408)


async def test_the_oldest_websocket_without_a_first_message_is_closed_for_others(
    streaming: Streaming,
) -> None:
    bounds = Bounds(connections_per_client_max=2)
    async with served(streaming.service.app, bounds, clock=streaming.service.clock) as server:
        here = replace(streaming, server=server)
        async with socket(here) as first, socket(here), socket(here) as third:
            assert await first.close_code() == 1013
            await third.say({"type": "auth"})
            assert (await refusal(third))[0] == 400


async def test_a_shutdown_ends_streaming_and_waiting_websockets(streaming: Streaming) -> None:
    token, service = await streaming.service.issue(2), streaming.service
    draining = Draining(at_end=service.streams.stop)
    async with AsyncExitStack() as stack:
        async with served(service.app, Bounds(), clock=service.clock, draining=draining) as server:
            here = replace(streaming, server=server)
            telling = await stack.enter_async_context(stream(here, token, TRADED[:1]))
            waiting = await stack.enter_async_context(socket(here))
            await telling.some(2)

        assert (await telling.rest())[-1].data["reason"] == "shutting_down"
        assert await waiting.close_code() == 1001


async def test_llms_txt_has_the_address_and_the_first_message_of_a_websocket(
    streaming: Streaming,
) -> None:
    index = (await streaming.service.client.get("/llms.txt")).text
    address = re.findall(r"`(wss?://\S+)` is a WebSocket", index)
    (first,) = re.findall(r'`(\{"type": "auth".*\})`', index)

    assert [urlsplit(each).path for each in address] == ["/v1/stream"]
    assert json.loads(first).keys() == {"token", *AUTH}
    assert len(index.encode()) <= 6 * 1024
