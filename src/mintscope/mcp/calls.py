"""Tool calls as requests to the API, the JSON Schemas of the tools, and the MCP endpoint.

The `mcp` package is imported when the first client connects, because the import takes a second and
25 MB, and most processes serve no client.

The schemas are derived from the OpenAPI document, so that both agree.  They use only keywords that
every host supports: Gemini refuses `additionalProperties`, unknown formats and enums of integers
(python-genai#2393, gemini-cli#2237), so `read_arguments` refuses unknown arguments.

Source    specs/transports-v2/mcp.md of x402, for `_meta` and for paid calls
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Message, Scope

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.application import ErrorWriter, HttpApplication
from mintscope.kit.http.rate_limit import AddressLimit, AddressLimits
from mintscope.kit.http.request import (
    HAND_OVER,
    PAYMENT_SCHEME,
    ClientAddresses,
    ClientDisconnected,
    Request,
)
from mintscope.kit.http.response import NO_STORE, Header, Response
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.limits import Limits
from mintscope.mcp.arguments import ApiAnswer, ApiExchange, Arguments, BadArguments, read_arguments
from mintscope.mcp.budget import (
    HEADER,
    CallPrice,
    OverBudget,
    Reservation,
    StatedBudgets,
    UnreadableBudget,
    expect_within,
    price_of,
    read_budget,
)
from mintscope.mcp.tools import Page, Tool, ToolCost, table_of

PAYMENT: Final = "x402/payment"
PAYMENT_RESPONSE: Final = "x402/payment-response"
NEWER_PAYMENT: Final = "org.x402/payment"  # for terms and payments in the newer specification
NEWER_PAYMENT_RESPONSE: Final = "org.x402/payment-response"
PAYMENTS: Final = (PAYMENT, NEWER_PAYMENT)
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
CHARGED: Final = {"x-credits-remaining", "payment-response"}  # headers of a charged response
REPLAYED: Final = "idempotent-replayed"  # the header of an answer that is sent again for free
NUMBERS: Final = {  # headers with numbers, by name in `meta`
    "creditsRemaining": "x-credits-remaining",
    "dataSlot": "x-data-slot",
    "dataAgeMs": "x-data-age-ms",
}
TO_PAY: Final = (
    "This call must be paid for: by a payment on the terms of `accepts`, sent in"
    " _meta['x402/payment'] of the same call; or, unless it buys credits, by a credit of a credit"
    " token (svc_credit_<64 hex>) in the Authorization header. Nothing was charged."
)
POINTLESS: Final = " Paying would be pointless now: the token is {status}."


class CallResult(msgspec.Struct, frozen=True):
    """The outcome of a call.

    structured   conforms to the tool's output schema, also for errors; None for rows without an app
    text         the content for models; for rows with an app, only the newest row
    meta         content of `_meta`; None for none
    """

    structured: Mapping[str, Any] | None
    text: str
    is_error: bool = False
    meta: Mapping[str, Any] | None = None


def failed(code: str, message: str, **more: Any) -> CallResult:
    """Return the result of a call that is refused free of charge.

    more   further fields of the error
    """
    error = {"code": code, "message": message, **more}
    return CallResult({"error": error, "charged": False}, f"{code}: {message}", is_error=True)


def result_of(answer: ApiAnswer, tool: Tool, arguments: Arguments, price: CallPrice) -> CallResult:
    """Convert *answer*, the API's response, into a result of the MCP tool *tool*.

    price   cost of the call if it succeeds
    """
    if not answer.is_success:
        return _refused(answer)
    delivered = _delivered(answer, price)
    if tool.page is None:
        return delivered
    rows = _as_rows(delivered, tool.page, arguments.fields)
    return _for_app(rows, tool.page) if tool.app else rows


def is_charged(answer: ApiAnswer) -> bool:
    """Return whether *answer* was charged, or may be charged because its payment is pending.

    A repetition for the same idempotency key takes no credit and no payment.
    """
    if answer.is_success:
        return not CHARGED.isdisjoint(answer.headers) and REPLAYED not in answer.headers
    return _is_pending(answer)


def _is_pending(answer: ApiAnswer) -> bool:
    return not answer.is_success and answer.content()["error"]["code"] == "PAYMENT_PENDING"


def _delivered(answer: ApiAnswer, price: CallPrice) -> CallResult:
    envelope = answer.content()
    headers = answer.headers
    is_new = REPLAYED not in headers
    takes_credits = "x-credits-remaining" in headers and is_new
    settled = _decoded(headers.get("payment-response"))
    meta: dict[str, Any] = {
        "timestamp": envelope["meta"]["timestamp"],
        "requestId": headers["x-request-id"],
        "creditsCharged": price.credits if takes_credits else 0,
        "usdPaid": float(price.usd) if settled is not None and is_new else 0.0,
    }
    meta |= {name: int(headers[field]) for name, field in NUMBERS.items() if field in headers}
    if "x-data-status" in headers:
        meta["dataStatus"] = headers["x-data-status"]
    structured = {"data": envelope["data"], "meta": meta}
    text = msgspec.json.encode(structured).decode()
    receipt = {PAYMENT_RESPONSE: settled, NEWER_PAYMENT_RESPONSE: settled}
    return CallResult(structured, text, meta=None if settled is None else receipt)


def _as_rows(result: CallResult, page: Page, fields: Sequence[str]) -> CallResult:
    """Return *result* with its list as a table, as text only, because all clients read text."""
    assert result.structured is not None
    data = dict(result.structured["data"])
    data[page.name] = table_of(data[page.name], fields or page.default)
    text = msgspec.json.encode({"data": data, "meta": result.structured["meta"]}).decode()
    return msgspec.structs.replace(result, structured=None, text=text)


def _for_app(result: CallResult, page: Page) -> CallResult:
    """Return *result* with the whole table for an app, and the newest row as text for models."""
    reported = msgspec.json.decode(result.text)
    table = reported["data"][page.name]
    newest = {**table, "rows": table["rows"][-1:]}
    short = {"data": {**reported["data"], page.name: newest}, "meta": reported["meta"]}
    return CallResult(reported, msgspec.json.encode(short).decode(), meta=result.meta)


def _refused(answer: ApiAnswer) -> CallResult:
    headers = answer.headers
    error = answer.content()["error"]
    required = _decoded(headers.get("payment-required"))
    code = error["code"]
    message = error["message"]
    if code == "PAYMENT_REQUIRED":
        status = headers.get("x-token-status", "ready")
        message = TO_PAY + (POINTLESS.format(status=status) if status != "ready" else "")
    more: dict[str, Any] = {"requestId": headers["x-request-id"]}
    if "retry-after" in headers:
        more["retryAfterS"] = int(headers["retry-after"])
    if "idempotency-key" in headers:
        more["idempotencyKey"] = headers["idempotency-key"]
    if required is None:
        result = failed(code, message, **more)
        return result if not _is_pending(answer) else _undecided(result)
    response = _decoded(headers.get("payment-response"))
    required["error"] = message
    if response is not None:
        required[PAYMENT_RESPONSE] = response
    structured = {**required, "code": code, "charged": False, **more}
    text = msgspec.json.encode(structured).decode()
    return CallResult(structured, text, is_error=True, meta={NEWER_PAYMENT: required})


def _undecided(result: CallResult) -> CallResult:
    """Return *result* with `charged` null, because the payment is pending and may still succeed."""
    assert result.structured is not None
    error = result.structured["error"]
    return msgspec.structs.replace(result, structured={"error": error, "charged": None})


def _decoded(header: str | None) -> dict[str, Any] | None:
    """Return the JSON in an x402 header, or None if *header* is None."""
    if header is None:
        return None
    return dict(msgspec.json.decode(b64decode(header)))


KEPT: Final = frozenset({"type", "description", "enum", "items", "default", "minimum", "maximum"})
INT32_MAX: Final = 2**31 - 1
MAX_CREDITS: Final[Mapping[str, Any]] = {"type": "integer"}  # the name needs no description
MAX_USD: Final[Mapping[str, Any]] = {"type": "number"}
IDEMPOTENCY_KEY: Final[Mapping[str, Any]] = {
    "type": "string",
    "description": "Secret, 16 to 128 of A-Za-z0-9-_; reuse on retry.",
}
KEY_OF_A_READ: Final[Mapping[str, Any]] = {"type": "string"}  # the instructions describe it
# Clients of the official TypeScript package before version 2 also check errors against the schema,
# so it must accept successes (`data`, `meta`) and errors (`error`, `charged`).
OUTPUT: Final[Mapping[str, Any]] = {"type": "object"}

# The parameters of the API that tools omit.  The descriptions of all tools must fit in 15 kB.
LEFT_OUT: Final = frozenset({"at", "format"})
# The parameters that tools with an app omit, too.
OF_PAGES: Final = frozenset({"from", "to", "cursor", "candles", "fill", "in"})
# Shorter descriptions, by argument; empty if the name or the instructions of the server are
# sufficient.
SHORTER: Final = {
    "mint": "",
    "cursor": "The last nextCursor.",
    "limit": "How many; same cost.",
    "from": "Unix seconds, included.",
    "to": "Unix seconds, included.",
    "partial": "true: young tokens, too.",
    "candles": "all: the open ones, too.",
    "tradeUsd": "Its estimated price impact is subtracted.",
    "order": "asc: the least first.",
    "in": "",
    "tf": "",
    "timeframes": "More frames.",
    "pool": "Of this pool (get_pools) alone: m5 or wider, two days, final, usd or marketcap.",
    "profile": "Bins of volumeProfile, the volume by price; 0: none.",
    "names": "Which.",
    "fill": "previous: gaps repeat the close.",
}


def input_schema(
    tool: Tool, operation: Mapping[str, Any], shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the schema of the arguments of *tool*.

    operation   the operation that *tool* calls, in the OpenAPI document
    shapes      component schemas of the OpenAPI document
    """
    names = {field: name for name, field in tool.arguments.items()}
    properties: dict[str, Any] = {}
    required = []
    for parameter in operation.get("parameters", ()):
        is_asked = parameter["in"] in {"path", "query"} and parameter["name"] not in tool.chosen
        left_out = LEFT_OUT | (OF_PAGES if tool.app else set())
        if tool.cost is ToolCost.NOTHING:
            left_out |= {"timeframes"}
        if not is_asked or parameter["name"] in left_out:
            continue
        name = names.get(parameter["name"], parameter["name"])
        description = SHORTER.get(name, parameter["description"])
        described = {**parameter["schema"], "description": description}
        properties[name] = _readable_by_all(described)
        if parameter.get("required"):
            required.append(name)
    if tool.body is not None:
        shape = shapes[tool.body.schema]
        properties |= {
            name: _readable_by_all(_plain(shape["properties"][name], shapes) | {"description": of})
            for name, of in tool.body.fields.items()
        }
        required += [name for name in shape["required"] if name in properties]
    if tool.page is not None and tool.page.fields:
        properties |= {"fields": _choice_of(tool.page.fields)}
    if tool.cost is ToolCost.CREDIT:
        properties |= {"max_credits": MAX_CREDITS}
        properties |= {"max_usd": MAX_USD, "idempotency_key": KEY_OF_A_READ}
    if tool.cost is ToolCost.BUNDLE:
        properties |= {"max_usd": MAX_USD, "idempotency_key": IDEMPOTENCY_KEY}
        required.append("max_usd")
    return {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """Return the JSON schema of results and errors of *tool*; None if it returns a table."""
    return dict(OUTPUT) if tool.page is None else None


def _readable_by_all(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* reduced to keywords that every host supports and that clients need."""
    kept = {name: value for name, value in schema.items() if name in KEPT}
    if kept.get("maximum", 0) > INT32_MAX:
        kept = {name: value for name, value in kept.items() if name not in {"maximum", "default"}}
    if kept.get("default") in ("", []):
        del kept["default"]
    if kept.get("description") == "":
        del kept["description"]
    if kept.get("minimum", 2) <= 1:  # not needed: the API refuses smaller numbers
        del kept["minimum"]
    values = kept.pop("enum", None)
    if values is None:
        return kept | ({"items": _readable_by_all(kept["items"])} if "items" in kept else {})
    if all(isinstance(value, str) for value in values):
        return kept | {"type": "string", "enum": values}
    listed = ", ".join(map(str, values))
    return kept | {"description": f"{kept['description']} One of {listed}."}


def _plain(schema: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* with its reference resolved, and without its `null` alternative."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    found = {**schema, **kinds[0]} if kinds else dict(schema)
    found |= shapes.get(schema.get("$ref", "").rpartition("/")[-1], {})
    return {name: value for name, value in found.items() if value is not None}


def _choice_of(fields: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string", "enum": list(fields)},
        "description": "Columns; else the usual ones.",
    }


BUDGET_HEADER: Final = HEADER.lower().encode()


class ToolCalls:
    """Answers calls of tools by requests to the API, within the budgets of the callers."""

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

        given    arguments of the call
        known    names of the tool's arguments
        meta     `_meta` of the request
        client   ASGI scope of the HTTP request
        Raises   ClientDisconnected if the client has left; nothing was charged
        """
        try:
            arguments = read_arguments(tool, given, known)
            payment = _payment(meta)
            credential = " ".join(_values(client, b"authorization"))
            is_mpp = credential[: len(PAYMENT_SCHEME)].lower().encode() == PAYMENT_SCHEME
            presented = payment or (credential if is_mpp else "")
            is_by_credits = bool(credential) and not presented
            price = price_of(tool.cost, arguments, is_by_credits=is_by_credits)
            expect_within(arguments, price)
            stated = read_budget(_values(client, BUDGET_HEADER))
            call = partial(self._ask, tool, arguments, payment, client)
            if stated is None or tool.cost is ToolCost.NOTHING:
                return result_of(await call(), tool, arguments, price)
            # The budget belongs to the credential, or to the address if there is no credential: a
            # payment of MPP is another text for each call.
            is_holder = bool(credential) and not is_mpp
            caller = credential if is_holder else self._addresses.key(client)
            reserved = await self._budgets.reserve(stated, price, caller=caller, payment=presented)
            return result_of(await _within(reserved, call), tool, arguments, price)
        except (BadArguments, UnreadableBudget) as flaw:
            return failed(INVALID_ARGUMENTS, f"{flaw}. Nothing was charged.")
        except OverBudget as refusal:
            wait_s = refusal.retry_after_s
            more = {} if wait_s is None else {"retryAfterS": wait_s}
            return failed(BUDGET_EXCEEDED, str(refusal), **more)

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


async def _within(reserved: Reservation, call: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
    """Return the result of *call*, and give *reserved* back if nothing was charged."""
    try:
        answer = await call()
    except ClientDisconnected:  # after any other error, the call may have been charged
        await reserved.give_back()
        raise
    if not is_charged(answer):
        await reserved.give_back()
    return answer


def _payment(meta: Mapping[str, Any]) -> str:
    """Return the payment in `_meta` as the value of an HTTP header, or "" if there is no payment.

    The API checks the payment.  Raises BadArguments if it cannot be encoded.
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


def _values(client: Scope, name: bytes) -> list[str]:
    """Return all values of the header *name* in the client's request."""
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
OF_THE_PACKAGE: Final = {b"content-type", b"allow"}  # headers kept from the package's responses
# The scope of a request that this process sends for itself, without a client.
ITSELF: Final[Scope] = {"type": "http", "scheme": "http", "client": None, "headers": []}


class McpEndpoint:
    """Answers MCP requests while `run` is running.

    calls       answers the calls of tools
    exchange    sends a request for the OpenAPI document
    on_loaded   called after the `mcp` package is loaded
    """

    def __init__(
        self, calls: ToolCalls, exchange: ApiExchange, on_loaded: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._exchange = exchange
        self._on_loaded = on_loaded
        self._is_wanted = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._manager: Any = None  # the manager's module is imported later

    async def run(self) -> None:
        """Load the `mcp` package when the first client connects, and serve until cancelled."""
        await self._is_wanted.wait()
        # In a thread, because the import takes a second.
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
        """Return the response to the MCP message in *request*.

        Raises PayloadTooLarge, and ServiceUnavailable if `mcp` is not loaded within START_S_MAX.
        """
        self._is_wanted.set()
        body = await request.body()
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._is_ready.wait()
        except TimeoutError as cause:
            raise ServiceUnavailable("MCP is not available right now") from cause
        pieces: list[Message] = []
        is_reported = False

        async def receive() -> Message:
            nonlocal is_reported
            if is_reported:  # the package waits for the client to leave
                return await request.receive()
            is_reported = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            pieces.append(message)

        extensions = {**(request.scope.get("extensions") or {}), HAND_OVER: request.take_over}
        scope = {**request.scope, "extensions": extensions}
        await self._manager.handle_request(scope, receive, send)
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
    """Return an application that passes POST requests at the MCP path to *endpoint*."""
    router = Router([Route("POST", PATH, endpoint.answer)])
    return HttpApplication(router, limit=limit, write_error=write_error, cors=CORS)


def create_endpoint(
    api: ASGIApp, limits: AddressLimits, on_loaded: Callable[[], None]
) -> McpEndpoint:
    """Return the MCP endpoint, whose tools send requests to *api*.

    limits      the store that counts the budgets of callers, and the rule for their IP addresses
    on_loaded   called after the `mcp` package is loaded
    """
    exchange = ApiExchange(api)
    calls = ToolCalls(exchange, limits.limits, limits.addresses)
    return McpEndpoint(calls, exchange, on_loaded)
