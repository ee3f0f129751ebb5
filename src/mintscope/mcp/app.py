"""MCP endpoint.

MCP on standard input and output: what comes is asked of a service over HTTP.

The service says which tools there are, and counts the budget; nothing is known of either here.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParamsMeta,
)

from mcp import Client
from mintscope import __version__
from mintscope.mcp.results import PAYMENTS

ANSWER_S_MAX: Final = 90.0  # the service waits 60 s for the chain


class NoService(Exception):
    """The service cannot be reached, or does not serve MCP."""


async def bridge(url: str, headers: Mapping[str, str]) -> None:
    """Answer messages from standard input on standard output until the input ends.

    url       of the service's MCP endpoint
    headers   sent with every request
    Raises    NoService
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx2.AsyncClient(headers=dict(headers), timeout=ANSWER_S_MAX))
        try:
            transport = streamable_http_client(url, http_client=http)
            service = await enter(Client(transport, read_timeout_seconds=ANSWER_S_MAX))
        except (MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as cause:
            raise NoService(f"expected an MCP service at {url}; {_why(cause)}") from cause
        server = _server_like(service)
        read, write = await enter(stdio_server())
        await server.run(read, write, server.create_initialization_options())


def _server_like(service: Client) -> Server[Any]:
    """Return a server with the tools of *service*."""

    async def list_tools(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return await service.list_tools(cursor=None if params is None else params.cursor)

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        meta = (context.params or {}).get("_meta") or {}
        payment = {name: meta[name] for name in PAYMENTS if name in meta} or None
        try:
            return await service.call_tool(
                params.name, params.arguments, meta=cast("RequestParamsMeta | None", payment)
            )
        except MCPError:
            raise
        except (httpx2.HTTPError, OSError, RuntimeError, ExceptionGroup) as cause:
            raise MCPError(INTERNAL_ERROR, f"the service does not answer: {_why(cause)}") from cause

    async def list_resources(_: Any, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await service.list_resources(cursor=None if params is None else params.cursor)

    async def read_resource(_: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
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
    """Return the message of the first of several errors."""
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return str(cause) or type(cause).__name__
