"""JSON-RPC 2.0 over HTTP: one route, single calls and batches."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from mintscope.devchain.faults import Faults
from mintscope.devchain.methods.rpc import INVALID_REQUEST, PARSE_ERROR, Chain, Methods, RpcError
from mintscope.devchain.methods.table import VmMethods
from mintscope.devchain.methods.wire import FaultyWire

BODY_MAX: Final = 50 * 1_024
BODY_TIMEOUT_S: Final = 10
BATCH_MAX: Final = 100


class _Call(msgspec.Struct):
    """One request object."""

    jsonrpc: str
    method: str
    id: str | int | float | None = None
    params: list[object] | None = None


def application(chain: Chain) -> Starlette:
    """Return *chain* as an ASGI application that answers POST / and GET /health."""
    return answering(Methods(chain, VmMethods(chain.vm).by_name), chain.vm.faults)


class Calls(Protocol):
    """What answers calls."""

    def call(self, method: str, params: Sequence[object]) -> object:
        """Return the result of *method*, or raise RpcError."""
        ...


def answering(calls: Calls, faults: Faults) -> Starlette:
    """Return the application in which *calls* answers, over a wire with *faults*."""
    return Starlette(
        routes=[
            Route("/", Rpc(calls).post, methods=["POST"]),
            Route("/health", _health, methods=["GET"]),
        ],
        middleware=[
            # Wallets call from any page, as they may with a public node.
            Middleware(
                CORSMiddleware, allow_origins=["*"], allow_methods=["POST"], allow_headers=["*"]
            ),
            Middleware(FaultyWire, faults=faults),
        ],
    )


class Rpc:
    """Reads bodies and writes answers."""

    def __init__(self, methods: Calls) -> None:
        self._methods = methods

    async def post(self, request: Request) -> Response:
        """Answer a call, or each one of a batch."""
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _body(request)
        except (TimeoutError, ClientDisconnect):  # who hung up does not hear it
            return Response(status_code=408)
        if body is None:
            return Response(status_code=413)
        return Response(await self._answer(body), media_type="application/json")

    async def _answer(self, body: bytes) -> bytes:
        try:
            given = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _encode(_error(None, PARSE_ERROR, "Parse error"))
        if not isinstance(given, list):
            return _encode(self._one(given))
        if not 0 < len(given) <= BATCH_MAX:
            message = f"Invalid request: a batch has 1 to {BATCH_MAX} calls, was {len(given)}"
            return _encode(_error(None, INVALID_REQUEST, message))
        answers = []
        for each in given:
            answers.append(_encode(self._one(each)))
            await asyncio.sleep(0)  # a batch of blocks must not hold up everybody else
        return b"[" + b",".join(answers) + b"]"

    def _one(self, given: object) -> dict[str, object]:
        try:
            call = msgspec.convert(given, _Call)
        except msgspec.ValidationError as error:
            return _error(_id(given), INVALID_REQUEST, f"Invalid request: {error}")
        if call.jsonrpc != "2.0":
            return _error(call.id, INVALID_REQUEST, "Invalid request: jsonrpc is not 2.0")
        try:
            result = self._methods.call(call.method, call.params or [])
        except RpcError as error:
            return _error(call.id, error.code, error.message, error.data)
        return {"jsonrpc": "2.0", "result": result, "id": call.id}


async def _health(_: Request) -> Response:
    return Response("ok", media_type="text/plain")


async def _body(request: Request) -> bytes | None:
    """Return the body, None where it is too large."""
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


_encode = msgspec.json.encode
