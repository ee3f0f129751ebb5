"""Streams of the client by WebSocket have the same reports as streams of server-sent events."""

import asyncio
import json
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from mintscope_client import AsyncClient, Client, CreditBudget, errors
from mintscope_client.calls.opening import open_session
from mintscope_client.streams import sockets
from mintscope_client.streams.live import LiveReport
from mintscope_client.streams.streaming import LiveCall
from support.scenes.live_market import TRADED
from support.scenes.service import credit_token
from support.scenes.streaming import Streaming

TOKENS = [*TRADED]


def url_of(streaming: Streaming) -> str:
    return f"http://127.0.0.1:{streaming.server.port}"


async def first(streaming: Streaming, count: int, **options: Any) -> list[LiveReport]:
    """Return the first *count* reports of a client for asyncio; a trade follows each report."""
    found = []
    async with AsyncClient(url_of(streaming), patience_s=2, **options) as client:
        async for live in client.stream(TOKENS[:1]):
            found.append(live)
            if len(found) == count:
                return found
            await streaming.trade()
    raise AssertionError("expected further reports")


async def test_a_websocket_gives_the_same_reports_as_events(streaming: Streaming) -> None:
    tokens = [await streaming.service.issue(3) for _ in range(3)]
    budget = CreditBudget(credits_in_all=2)
    by_socket = await first(streaming, 3, credential=tokens[0], by_websocket=True, budget=budget)
    by_events = await first(streaming, 1, credential=tokens[1])

    def waiting() -> LiveReport:
        with Client(url_of(streaming), credential=tokens[2], by_websocket=True) as client:
            return next(iter(client.stream(TOKENS[:1])))

    by_thread = await asyncio.to_thread(waiting)
    assert [each.credits_left for each in (*by_socket, *by_events, by_thread)] == [2] * 5
    assert by_socket[0].slot < by_socket[-1].slot == by_events[0].slot == by_thread.slot
    assert by_socket[-1].report == by_events[0].report == by_thread.report
    assert budget.spent == 1
    await streaming.until_closed()
    assert [await streaming.service.left(token) for token in tokens] == [2] * 3


async def test_a_websocket_is_reopened_with_the_id_of_the_last_event(streaming: Streaming) -> None:
    session = open_session(url_of(streaming), credential=await streaming.service.issue(5))
    live = LiveCall(session, TOKENS[:1])
    address, message = live.opening()
    seen = []
    async with aclosing(sockets.reports_later(live)) as reports:
        async for each in reports:
            seen.append(each)
            if len(seen) == 2:
                break
            await streaming.trade()

    assert address.startswith("ws://127.0.0.1")
    assert "lastEventId" not in message
    assert f'"lastEventId":"{streaming.service.log.seq}"' in live.opening()[1]
    assert seen[0].slot < seen[1].slot


@pytest.mark.parametrize("kind", ["waits", "asyncio"])
@pytest.mark.parametrize(
    ("mint", "credits_held", "expected"),
    [
        ("nope", 1, errors.InvalidTokenAddressError),
        (TOKENS[0], 0, errors.CredentialRefusedError),
        (f"{TOKENS[0]},{TOKENS[1]}", 1, errors.NoCreditsError),
    ],
)
async def test_a_refusal_is_raised_by_its_code(
    streaming: Streaming, kind: str, mint: str, credits_held: int, expected: type[Exception]
) -> None:
    token = await streaming.service.issue(1) if credits_held else credit_token(999)
    options: dict[str, Any] = {"credential": token, "by_websocket": True}

    def wait() -> None:
        with Client(url_of(streaming), **options) as client:
            next(iter(client.stream(mint.split(","))))

    async def ask() -> None:
        async with AsyncClient(url_of(streaming), **options) as client:
            await anext(aiter(client.stream(mint.split(","))))

    with pytest.raises(expected):
        await (asyncio.to_thread(wait) if kind == "waits" else ask())


async def test_a_service_that_does_not_answer_is_given_up(streaming: Streaming) -> None:
    url = "http://127.0.0.1:9"
    options: dict[str, Any] = {"by_websocket": True, "patience_s": 0}
    token = await streaming.service.issue(1)
    async with AsyncClient(url, credential=token, **options) as client:
        with pytest.raises(errors.UnreachableError):
            await anext(aiter(client.stream(TOKENS)))

    assert client.budget.spent == 0


async def test_a_minute_that_may_have_been_charged_is_counted() -> None:
    async def break_off(socket: ServerConnection) -> None:
        await socket.recv()

    async with serve(break_off, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncClient(url, by_websocket=True, patience_s=0) as client:
            with pytest.raises(errors.UnreachableError):
                await anext(aiter(client.stream(TOKENS[:1])))

    assert client.budget.spent == 1


async def refuse_message(socket: ServerConnection) -> None:
    await socket.recv()
    error = {"code": "RATE_LIMITED", "message": "too many streams"}
    await socket.send(
        json.dumps({"type": "error", "status": 429, "retryAfterS": 20, "error": error})
    )
    await socket.close(4429)


def refuse_handshake(socket: ServerConnection, _: Request) -> Response:
    body = {"error": {"code": "RATE_LIMITED", "message": "too many streams"}}
    response = socket.respond(HTTPStatus.TOO_MANY_REQUESTS, json.dumps(body))
    response.headers["Retry-After"] = "20"
    response.headers["X-Request-Id"] = "r-1"
    return response


@pytest.mark.parametrize("kind", ["waits", "asyncio"])
@pytest.mark.parametrize(
    ("process_request", "request_id"), [(None, None), (refuse_handshake, "r-1")]
)
async def test_a_429_keeps_its_retry_after_and_its_request_id(
    kind: str, process_request: Any, request_id: str | None
) -> None:
    options: dict[str, Any] = {"by_websocket": True, "patience_s": 10}

    def wait(url: str) -> None:
        with Client(url, **options) as client:
            next(iter(client.stream(TOKENS)))

    async def ask(url: str) -> None:
        async with AsyncClient(url, **options) as client:
            await anext(aiter(client.stream(TOKENS)))

    async with serve(refuse_message, "127.0.0.1", 0, process_request=process_request) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(errors.TooManyRequestsError, match="too many streams") as raised:
            await (asyncio.to_thread(wait, url) if kind == "waits" else ask(url))

    assert (raised.value.retry_after_s, raised.value.request_id) == (20, request_id)


async def test_a_websocket_is_closed_before_a_minute_beyond_the_budget(
    streaming: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The WebSocket is closed even if there are no trades, and therefore no messages."""
    monkeypatch.setattr(sockets, "LOOK_S", 0.01)
    monkeypatch.setattr("mintscope_client.streams.streaming.LEAVE_AFTER_S", 0.05)
    token = await streaming.service.issue(5)
    for budget in (CreditBudget(credits_in_all=1), CreditBudget(credits_in_all=0)):
        options: dict[str, Any] = {"credential": token, "by_websocket": True, "budget": budget}
        async with AsyncClient(url_of(streaming), **options) as client:
            with pytest.raises(errors.OverBudgetError):
                async for _ in client.stream(TOKENS[:1]):
                    pass
    await streaming.until_closed()
    assert await streaming.service.left(token) == 4
