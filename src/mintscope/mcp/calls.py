"""Tool calls as requests to the API.

A call of a tool: arguments, budget, the request to the API, and the result.

POST /mcp: the API for MCP clients, by streamable HTTP without sessions.

The `mcp` package is imported when the first client comes: it takes a second and 25 MB, and most
processes serve none.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Message, Scope

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.application import ErrorWriter, HttpApplication
from mintscope.kit.http.rate_limit import AddressLimit, AddressLimits
from mintscope.kit.http.request import ClientAddresses, ClientDisconnected, Request
from mintscope.kit.http.response import NO_STORE, Header, Response
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.limits import Limits
from mintscope.mcp.arguments import ApiAnswer, ApiExchange, Arguments, BadArguments, read_arguments
from mintscope.mcp.budget import (
    HEADER,
    OverBudget,
    Reservation,
    StatedBudgets,
    UnreadableBudget,
    expect_within,
    price_of,
    read_budget,
)
from mintscope.mcp.results import (
    INVALID_ARGUMENTS,
    PAYMENT,
    PAYMENTS,
    CallResult,
    failed,
    is_charged,
    over_budget,
    result_of,
)
from mintscope.mcp.tools import Tool, ToolCost

BUDGET_HEADER: Final = HEADER.lower().encode()


class ToolCalls:
    """Answers calls of tools."""

    def __init__(self, exchange: ApiExchange, limits: Limits, addresses: ClientAddresses) -> None:
        self._exchange = exchange
        self._budgets = StatedBudgets(limits)
        self._addresses = addresses

    async def call(
        self,
        tool: Tool,
        given: Mapping[str, Any],
        meta: Mapping[str, Any],
        client: Scope,
        *,
        known: Collection[str],
    ) -> CallResult:
        """Return the result of a call of *tool*.

        given    the arguments
        known    the names of those that there are
        meta     `_meta` of the request
        client   the scope of the HTTP request
        """
        try:
            arguments = read_arguments(tool, given, known)
            payment = _payment(meta)
            is_by_credits = not payment and _has_credential(client)
            price = price_of(tool.cost, arguments, is_by_credits=is_by_credits)
            expect_within(arguments, price)
            stated = read_budget(_values(client, BUDGET_HEADER))
            call = partial(self._ask, tool, arguments, payment, client)
            if stated is None or tool.cost is ToolCost.NOTHING:
                return result_of(await call(), tool, arguments, price)
            caller = self._caller(client)
            reserved = await self._budgets.reserve(stated, price, caller=caller, payment=payment)
            return result_of(await _within(reserved, call), tool, arguments, price)
        except (BadArguments, UnreadableBudget) as flaw:
            return failed(INVALID_ARGUMENTS, f"{flaw}. Nothing was charged.")
        except OverBudget as refusal:
            return over_budget(refusal)

    async def _ask(
        self, tool: Tool, arguments: Arguments, payment: str, client: Scope
    ) -> ApiAnswer:
        headers: list[Header] = []
        if payment:
            headers.append((b"payment-signature", payment.encode()))
        if arguments.idempotency_key is not None:
            headers.append((b"idempotency-key", arguments.idempotency_key.encode()))
        return await self._exchange.ask(
            tool.method,
            arguments.target,
            client=client,
            headers=tuple(headers),
            body=arguments.body,
        )

    def _caller(self, client: Scope) -> str:
        """Return the holder of a budget: a credential, else an address."""
        return " ".join(_values(client, b"authorization")) or self._addresses.key(client)


async def _within(reserved: Reservation, call: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
    """Return the result of *call*, and release the reservation if nothing was charged."""
    try:
        answer = await call()
    except ClientDisconnected:
        await reserved.give_back()
        raise
    if is_charged(answer):
        reserved.keep()
    else:
        await reserved.give_back()
    return answer


def _payment(meta: Mapping[str, Any]) -> str:
    """Return the payment in `_meta` as the text of an HTTP header, or "" if there is none.

    The API says whether it is a good one.  Raises BadArguments for what no header can hold.
    """
    name = next((each for each in PAYMENTS if meta.get(each) is not None), PAYMENT)
    payment = meta.get(name)
    if payment is None:
        return ""
    try:
        content = payment.encode() if isinstance(payment, str) else msgspec.json.encode(payment)
    except (UnicodeEncodeError, RecursionError, TypeError) as cause:
        raise BadArguments(f"_meta[{name!r}]: expected a payment of x402 version 2") from cause
    return b64encode(content).decode()


def _has_credential(client: Scope) -> bool:
    return bool(_values(client, b"authorization"))


def _values(client: Scope, name: bytes) -> list[str]:
    """Return every value of a header of the client's request."""
    return [value.decode("latin-1") for other, value in client["headers"] if other == name]


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
        """Get ready when the first client connects, and stay ready; never returns."""
        await self._is_wanted.wait()
        protocol = await asyncio.to_thread(import_module, "mintscope.mcp.protocol")
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
            raise ServiceUnavailable("MCP is not available right now") from cause
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
    """Return the application at PATH."""
    router = Router([Route("POST", PATH, endpoint.answer)])
    return HttpApplication(router, limit=limit, write_error=write_error, cors=CORS)


def create_endpoint(
    api: ASGIApp, limits: AddressLimits, on_loaded: Callable[[], None]
) -> McpEndpoint:
    """Return the endpoint of MCP, whose tools ask *api*."""
    exchange = ApiExchange(api)
    calls = ToolCalls(exchange, limits.limits, limits.addresses)
    return McpEndpoint(calls, exchange, on_loaded)
