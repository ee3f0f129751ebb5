"""The tools as an MCP server.  This module is imported on demand: importing `mcp` takes a second.

No request depends on an earlier one, so any replica answers any request.  `bridge` gets the tools
from a remote service, which also applies the budgets.
"""

import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, cast

import httpx2
import mcp_types as types
import structlog
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.types import Scope
from typing_extensions import override

from mcp import Client
from mintscope import __version__
from mintscope.kit.errors import InternalError
from mintscope.kit.http.request import ClientDisconnected, next_request_id
from mintscope.mcp.calls import PAYMENTS, CallResult, ToolCalls, input_schema, output_schema
from mintscope.mcp.tools import CHART, TOOLS, Tool
from mintscope.payments.pricing import BUNDLES

# The app of `show_chart`: one HTML document that hosts of MCP Apps show.  The app loads nothing and
# connects to nothing: its policy allows only its own style and script, by hash.
#
# Source    https://github.com/modelcontextprotocol/ext-apps, specification 2026-01-26

MEDIA_TYPE: Final = "text/html;profile=mcp-app"
NOWHERE: Final[dict[str, Any]] = {
    "connectDomains": [],
    "resourceDomains": [],
    "frameDomains": [],
    "baseUriDomains": [],
}
META: Final = {"ui": {"csp": NOWHERE, "prefersBorder": True}}


def chart_document() -> str:
    """Return the HTML page that chat clients show for `show_chart`.

    It shows the price of the smallest bundle of credits.
    """
    folder = files("mintscope.mcp") / "static"
    style = (folder / "chart.css").read_text("utf-8")
    script = (folder / "chart.js").read_text("utf-8")
    bundle = min(BUNDLES, key=lambda each: each.credits)
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    page = (folder / "chart.html").read_text("utf-8")
    # Style and script are inserted last: a replacement within them would invalidate their hashes.
    for name, text in {
        "policy": policy,
        "credits": str(bundle.credits),
        "usd": f"{bundle.usd.normalize():f}",
        "style": style,
        "script": script,
    }.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _source(content: str) -> str:
    """Return the CSP source of *content*, an inline style or script."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


ANSWER_S_MAX: Final = 90.0  # longer than the service waits for the chain: up to 60 s


class NoService(Exception):
    """The service is unreachable or does not serve MCP."""


async def bridge(url: str, headers: Mapping[str, str]) -> None:
    """Answer messages from standard input on standard output until the input ends.

    url       MCP endpoint of the service
    headers   headers of every request
    Raises    NoService
    """
    async with reached(url, headers) as service, stdio_server() as (read, write):
        server = server_like(service)
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def reached(url: str, headers: Mapping[str, str]) -> AsyncIterator[Client]:
    """Yield a client of the MCP service at *url*, which sends *headers* with all requests.

    Raises    NoService
    """
    async with (
        _HttpClient(headers=dict(headers), timeout=ANSWER_S_MAX) as http,
        AsyncExitStack() as stack,
    ):
        transport = streamable_http_client(url, http_client=http)
        try:
            service = await stack.enter_async_context(
                Client(transport, read_timeout_seconds=ANSWER_S_MAX)
            )
        except (MCPError, OSError, ExceptionGroup) as cause:
            raise NoService(f"expected an MCP service at {url}; {_why(cause)}") from cause
        yield service


class _HttpClient(httpx2.AsyncClient):
    """An HTTP client that returns an error of JSON-RPC if no answer arrives.

    If it raised the error instead, the MCP client would end, and no later call could succeed.
    """

    @override
    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **how)
            await response.aread()
        except httpx2.RequestError as cause:
            message = f"the service does not answer: {_why(cause)}"
            error = {"code": types.INTERNAL_ERROR, "message": message}
            content = {"jsonrpc": "2.0", "id": None, "error": error}
            return httpx2.Response(HTTPStatus.BAD_GATEWAY, json=content, request=request)
        return response


def server_like(service: Client) -> Server[Any]:
    """Return a server with the tools and resources of *service*."""

    async def list_tools(
        _: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await service.list_tools(cursor=None if params is None else params.cursor)

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta = (context.params or {}).get("_meta") or {}
        payment = {name: meta[name] for name in PAYMENTS if name in meta} or None
        return await service.call_tool(
            params.name, params.arguments, meta=cast("types.RequestParamsMeta | None", payment)
        )

    async def list_resources(
        _: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await service.list_resources(cursor=None if params is None else params.cursor)

    async def read_resource(
        _: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await service.read_resource(params.uri)

    return Server(
        "mintscope",
        version=__version__,
        title="mintscope",
        instructions=service.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _why(cause: BaseException) -> str:
    """Return the message of *cause*, or of its first error if *cause* is a group of errors."""
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return str(cause) or type(cause).__name__


log = structlog.get_logger()

INSTRUCTIONS: Final = (
    "Real-time analytics of Solana tokens: price, indicators, pressure. A token is named by its"
    " mint, a base58 address. Reading costs credits: send a credit token (svc_credit_<64 hex>) or"
    " an API key as Authorization: Bearer, or pay a call by x402 in _meta['x402/payment']; buy"
    " credits with buy_credits. Errors cost nothing, whatever they are. To spend no more than you"
    " mean to, give max_credits or max_usd with a call, or the HTTP header Mintscope-Budget:"
    " credits=20, usd=0.05, session=<any name> for all of them; a call that would exceed it is"
    " refused, free of charge. On retry reuse the same idempotency_key and the same payment. Times"
    " are Unix seconds in UTC, prices USD or SOL of one whole token."
)


LIST_TTL_MS: Final = 3_600_000  # tools change only with a new version
Context = ServerRequestContext[Any, Any]


def create_manager(
    calls: ToolCalls, description: Mapping[str, Any]
) -> StreamableHTTPSessionManager:
    """Return the manager of MCP sessions over HTTP.

    description   OpenAPI document; tools without an operation in the document are omitted
    """
    tools = dict(_described(description))

    async def list_tools(
        _: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[listed for _, listed in tools.values()],
            ttl_ms=LIST_TTL_MS,
            cache_scope="public",
        )

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in tools:
            names = ", ".join(tools)
            raise MCPError(
                types.INVALID_PARAMS, f"expected one of {names}; was {params.name[:50]!r}"
            )
        tool, listed = tools[params.name]
        known = listed.input_schema["properties"]
        call = partial(calls.call, tool, params.arguments or {}, known=known)
        return await _call(call, context)

    # The log of the package would contain clients' requests; this module logs errors itself.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    server = Server(
        "mintscope",
        version=__version__,
        title="mintscope",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=_list_resources,
        on_read_resource=_read_resource,
    )
    # Requests use no cookies, so pages from any origin may send them, as they may to /v1.
    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, security_settings=open_to_all
    )


async def _list_resources(
    _: Context, _params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    chart = types.Resource(uri=CHART, name="chart", title="Chart of a token", mime_type=MEDIA_TYPE)
    return types.ListResourcesResult(resources=[chart], ttl_ms=LIST_TTL_MS, cache_scope="public")


async def _read_resource(
    _: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    if params.uri != CHART:
        raise MCPError(types.INVALID_PARAMS, f"expected {CHART}; was {params.uri[:50]!r}")
    page = types.TextResourceContents(
        uri=CHART, mime_type=MEDIA_TYPE, text=chart_document(), _meta=dict(META)
    )
    return types.ReadResourceResult(contents=[page], ttl_ms=LIST_TTL_MS, cache_scope="public")


async def _call(
    call: Callable[[Mapping[str, Any], Scope], Awaitable[CallResult]], context: Context
) -> types.CallToolResult:
    assert context.request is not None
    meta = (context.params or {}).get("_meta")
    shown = meta if isinstance(meta, Mapping) else {}
    result = await _reported_as_an_error(call(shown, context.request.scope))
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)],
        structured_content=result.structured,
        is_error=result.is_error,
        _meta=None if result.meta is None else dict(result.meta),
    )


async def _reported_as_an_error(call: Awaitable[CallResult]) -> CallResult:
    """Return the result of *call*, and raise its errors as MCPError.

    A bug is logged, and the client gets only the request ID.
    """
    try:
        return await call
    except ClientDisconnected as cause:
        raise MCPError(types.INTERNAL_ERROR, "the client has left; nothing was charged") from cause
    except Exception as bug:
        request_id = next_request_id().decode()
        log.exception("request failed", request_id=request_id)
        raise MCPError(types.INTERNAL_ERROR, f"{InternalError()} Request {request_id}.") from bug


def _described(description: Mapping[str, Any]) -> Iterable[tuple[str, tuple[Tool, types.Tool]]]:
    for tool in TOOLS:
        operation = description["paths"].get(tool.path, {}).get(tool.method.lower())
        if operation is not None:
            shapes = description["components"]["schemas"]
            yield tool.name, (tool, _listed(tool, input_schema(tool, operation, shapes)))


def _listed(tool: Tool, schema: dict[str, Any]) -> types.Tool:
    # A read costs at most one credit, within the caller's budget.  Hosts ask for confirmation of
    # calls that are not read-only, and a read needs no confirmation.
    is_read = tool.method == "GET"
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema,
        output_schema=output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=is_read,
            destructive_hint=None if is_read else False,  # not applicable to reads
        ),
        _meta={"ui": {"resourceUri": tool.app}} if tool.app else None,
    )
