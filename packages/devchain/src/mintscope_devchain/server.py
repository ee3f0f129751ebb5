"""Serves JSON-RPC 2.0 over HTTP: single calls and batches, with the faults that are set."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from mintscope.kit.errors import UNPARSABLE
from mintscope_devchain.faults import Answering, Faults
from mintscope_devchain.methods.params import RpcError

INVALID_REQUEST: Final = -32600
PARSE_ERROR: Final = -32700
TOO_MANY_REQUESTS: Final = 429
BODY_MAX: Final = 50 * 1_024
BODY_TIMEOUT_S: Final = 10
BATCH_MAX: Final = 100
HANG_S: Final = 600


class _Call(msgspec.Struct):
    """One call of a JSON-RPC request."""

    jsonrpc: str
    method: str
    id: str | int | float | None = None
    params: list[object] | None = None


class _Named(msgspec.Struct):
    """The parts of a JSON-RPC request that decide its fault; the other parts can be invalid."""

    method: str = ""
    id: str | int | float | None = None


class Calls(Protocol):
    """The JSON-RPC methods that a server answers."""

    def call(self, method: str, params: Sequence[object]) -> object:
        """Return the result of the JSON-RPC method *method*.  Raises RpcError."""
        ...


def answering(calls: Calls, faults: Faults) -> Starlette:
    """Return an ASGI application for the JSON-RPC methods *calls*, with *faults*.

    It has the routes POST / and GET /health.
    """
    # Pages of any origin can call it, as they can call a public node.
    cors = Middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["POST"], allow_headers=["*"]
    )
    post = Route("/", RpcRoute(calls, faults).post, methods=["POST"])
    return Starlette(routes=[post, Route("/health", _health, methods=["GET"])], middleware=[cors])


class RpcRoute:
    """Answers the HTTP requests of a JSON-RPC server.

    A batch has the first fault of any of its calls, and the longest latency of its calls.
    """

    def __init__(self, calls: Calls, faults: Faults) -> None:
        self._calls = calls
        self._faults = faults

    async def post(self, request: Request) -> Response:
        """Answer a JSON-RPC call or a batch, with the delay and the fault set for its methods."""
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _body(request)
        except (TimeoutError, ClientDisconnect):  # the client was too slow, or has disconnected
            return Response(status_code=408)
        if body is None:
            return Response(status_code=413)
        # Parsed twice only if a fault or a latency depends on the methods.
        calls = _named(body) if self._faults.on_wire else []
        named = calls if isinstance(calls, list) else [calls]
        latencies_ms = [self._faults.latency_ms(call.method) for call in named]
        await asyncio.sleep(max(latencies_ms, default=0) / 1_000)
        faults = [self._faults.answering(call.method) for call in named]
        fault = next((each for each in faults if each is not None), None)
        if fault is not None and fault.kind != "lost":
            return _refusal(fault, calls)
        answer = await self._answer(body)
        return Response(answer, media_type="application/json") if fault is None else _Cut()

    async def _answer(self, body: bytes) -> bytes:
        try:
            given = msgspec.json.decode(body)
        except UNPARSABLE:
            return _encode(_error(None, PARSE_ERROR, "Parse error"))
        if not isinstance(given, list):
            return _encode(self._one(given))
        if not 0 < len(given) <= BATCH_MAX:
            message = f"Invalid request: a batch has 1 to {BATCH_MAX} calls, was {len(given)}"
            return _encode(_error(None, INVALID_REQUEST, message))
        answers = []
        for each in given:
            answers.append(_encode(self._one(each)))
            await asyncio.sleep(0)  # a batch of blocks must not delay other clients
        return b"[" + b",".join(answers) + b"]"

    def _one(self, given: object) -> dict[str, object]:
        try:
            call = msgspec.convert(given, _Call)
        except msgspec.ValidationError as error:
            return _error(_id(given), INVALID_REQUEST, f"Invalid request: {error}")
        if call.jsonrpc != "2.0":
            return _error(call.id, INVALID_REQUEST, "Invalid request: jsonrpc is not 2.0")
        try:
            result = self._calls.call(call.method, call.params or [])
        except RpcError as error:
            return _error(call.id, error.code, error.message, error.data)
        return {"jsonrpc": "2.0", "result": result, "id": call.id}


async def _health(_: Request) -> Response:
    return Response("ok", media_type="text/plain")


async def _body(request: Request) -> bytes | None:
    """Return the body of *request*; None if it has more than BODY_MAX bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            return None
    return bytes(body)


def _id(given: object) -> object:
    found = given.get("id") if isinstance(given, dict) else None
    return found if isinstance(found, str | int | float) else None


def _error(call_id: object, code: int, message: str, data: object = None) -> dict[str, object]:
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "error": error, "id": call_id}


def _named(body: bytes) -> _Named | list[_Named]:
    """Return the JSON-RPC call or the batch in *body*; an empty batch if *body* is invalid."""
    try:
        return msgspec.json.decode(body, type=_Named | list[_Named])
    except UNPARSABLE:
        return []


def _refusal(fault: Answering, calls: _Named | list[_Named]) -> Response:
    if fault.kind == "hang":
        return _Silence()
    if fault.kind == "http":
        headers = {"Retry-After": "1"} if fault.status == TOO_MANY_REQUESTS else None
        return Response(fault.message, fault.status, headers, "text/plain")
    named = calls if isinstance(calls, list) else [calls]
    errors = [_error(call.id, fault.code, fault.message) for call in named]
    shown = errors if isinstance(calls, list) else errors[0]
    return Response(_encode(shown), media_type="application/json")


class _Silence(Response):
    """A response that is never sent: ends when the client disconnects, or after HANG_S seconds."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HANG_S):
                while (await receive())["type"] != "http.disconnect":
                    pass


class _Cut(Response):
    """A response that announces a body, but closes the connection instead of sending it."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})


_encode = msgspec.json.encode
