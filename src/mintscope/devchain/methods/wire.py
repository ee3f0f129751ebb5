"""The wire to a node, with the faults that are set: slow, refusing, silent, cut."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mintscope.devchain.faults import Answering, Faults

BODY_MAX: Final = 64 * 1_024
BODY_S: Final = 10
HANG_S: Final = 600
TOO_MANY: Final = 429


class _Call(msgspec.Struct):
    method: str = ""
    id: str | int | float | None = None


class FaultyWire:
    """ASGI middleware around a JSON-RPC application; not there while nothing is wrong.

    A batch suffers the first fault of any of its calls, and its longest latency.
    """

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or do what the knobs say."""
        if scope["type"] != "http" or not self._faults.on_wire:
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        with suppress(TimeoutError):  # the application gives up on the rest by itself
            async with asyncio.timeout(BODY_S):
                await _read(receive, read)
        receive = _replayed(read, receive)
        calls = _calls(read)
        latencies_ms = [self._faults.latency_ms(call.method) for call in calls]
        await asyncio.sleep(max(latencies_ms, default=0) / 1_000)
        faults = [self._faults.answering(call.method) for call in calls]
        fault = next((each for each in faults if each is not None), None)
        if fault is None:
            await self._app(scope, receive, send)
        elif fault.kind == "lost":
            await self._app(scope, receive, _nowhere)
            await _cut(send)
        elif fault.kind == "hang":
            await _silence(receive)
        else:
            refusal = _refusal(fault) if fault.kind == "http" else _error(fault, calls)
            await refusal(scope, receive, send)


def _refusal(fault: Answering) -> Response:
    headers = {"Retry-After": "1"} if fault.status == TOO_MANY else None
    return Response(fault.message, fault.status, headers, "text/plain")


def _error(fault: Answering, calls: list[_Call]) -> Response:
    error = {"code": fault.code, "message": fault.message}
    errors = [{"jsonrpc": "2.0", "id": call.id, "error": error} for call in calls]
    shown = errors[0] if len(errors) == 1 else errors
    return Response(msgspec.json.encode(shown), media_type="application/json")


async def _silence(receive: Receive) -> None:
    """Say nothing until the caller has had enough."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HANG_S):
            while (await receive())["type"] != "http.disconnect":
                pass


async def _cut(send: Send) -> None:
    """Promise an answer and leave: the server can only close the connection."""
    promise = [(b"content-length", b"1000")]
    await send({"type": "http.response.start", "status": 200, "headers": promise})
    await send({"type": "http.response.body", "body": b"", "more_body": True})


async def _nowhere(_: Message) -> None:
    pass


async def _read(receive: Receive, read: list[Message]) -> None:
    """Add the messages of the body to *read*, up to the first one beyond what is read here."""
    size = 0
    while size <= BODY_MAX:
        message = await receive()
        read.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break


def _replayed(read: list[Message], receive: Receive) -> Receive:
    waiting = iter(read)

    async def again() -> Message:
        message = next(waiting, None)
        return await receive() if message is None else message

    return again


def _calls(read: list[Message]) -> list[_Call]:
    """Return the calls of a body; none where it makes no sense, which its reader will say."""
    body = b"".join(message.get("body", b"") for message in read)
    try:
        return msgspec.json.decode(body, type=list[_Call])
    except msgspec.DecodeError:
        pass
    try:
        return [msgspec.json.decode(body, type=_Call)]
    except msgspec.DecodeError:
        return []
