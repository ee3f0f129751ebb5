"""POST /mcp: the API for MCP clients, by streamable HTTP without sessions.

The `mcp` package is imported when the first client comes: it takes a second and 25 MB, and most
processes serve none.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from starlette.types import ASGIApp, Message, Scope

from mintscope.base.errors import ServiceUnavailable
from mintscope.edges.mcp.calls import ToolCalls
from mintscope.edges.mcp.exchange import ApiExchange
from mintscope.edges.server.application import ErrorWriter, HttpApplication
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.rate_limit import AddressLimit, AddressLimits
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import NO_STORE, Header, Response
from mintscope.edges.server.routes import Route, Router

PATH: Final = "/mcp"
START_S_MAX: Final = 20.0
CORS: Final = Cors(
    paths=[PATH],
    methods=["POST"],
    request_headers=[
        "Authorization", "Content-Type", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version",
        "Mcp-Session-Id", "Mintscope-Budget",
    ],
    exposed=["Retry-After", "RateLimit", "RateLimit-Policy", "X-Request-Id"],
)  # fmt: skip
OF_THE_PACKAGE: Final = {b"content-type", b"allow"}  # headers that are passed on
ITSELF: Final[Scope] = {"type": "http", "scheme": "http", "client": None, "headers": []}


class McpEndpoint:
    """Answers MCP requests; `run` must run beside it.

    on_loaded   called once the package is in memory
    """

    def __init__(
        self, calls: ToolCalls, exchange: ApiExchange, on_loaded: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._exchange = exchange
        self._on_loaded = on_loaded
        self._is_wanted = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._manager: Any = None  # of a module that is not imported yet

    async def run(self) -> None:
        """Get ready when the first client comes, and be so from then on; has no end."""
        await self._is_wanted.wait()
        protocol = await asyncio.to_thread(import_module, "mintscope.edges.mcp.protocol")
        self._on_loaded()
        described = await self._exchange.ask("GET", "/openapi.json", client=ITSELF)
        self._manager = protocol.create_manager(self._calls, described.content())
        async with self._manager.run():
            self._is_ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._is_ready.clear()

    async def answer(self, request: Request) -> Response:
        """Answer one message.  Raises ServiceUnavailable while the package cannot be used."""
        self._is_wanted.set()
        body = await request.body()
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._is_ready.wait()
        except TimeoutError as cause:
            raise ServiceUnavailable("MCP is not served just now") from cause
        pieces: list[Message] = []
        is_told = False

        async def receive() -> Message:
            nonlocal is_told
            if is_told:
                return await request.receive()
            is_told = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            pieces.append(message)

        await self._manager.handle_request(request.scope, receive, send)
        return _response(pieces)


def _response(pieces: list[Message]) -> Response:
    headers: list[Header] = [
        header for header in pieces[0]["headers"] if header[0] in OF_THE_PACKAGE
    ]
    body = b"".join([piece.get("body", b"") for piece in pieces[1:]])
    return Response(pieces[0]["status"], body, (*headers, NO_STORE))


def create_mcp(
    endpoint: McpEndpoint, *, limit: AddressLimit, write_error: ErrorWriter
) -> HttpApplication:
    """Return what answers at PATH."""
    router = Router([Route("POST", PATH, endpoint.answer)])
    return HttpApplication(router, limit=limit, write_error=write_error, cors=CORS)


def create_endpoint(
    api: ASGIApp, limits: AddressLimits, on_loaded: Callable[[], None]
) -> McpEndpoint:
    """Return what answers MCP requests by asking *api*."""
    exchange = ApiExchange(api)
    calls = ToolCalls(exchange, limits.limits, limits.addresses)
    return McpEndpoint(calls, exchange, on_loaded)
