"""MCP clients of the official package, against an application in this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, RequestParamsMeta
from starlette.types import ASGIApp

from mcp import Client
from mintscope.app.config.groups import McpConfig
from mintscope.app.mcp import with_mcp
from mintscope.app.web_api import OTHER
from mintscope.kit.clock import Clock
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import Limit, Limits, MemoryLimits
from mintscope.mcp.calls import PAYMENT

LEGACY = "legacy"  # the client first sends `initialize`, like clients from before July 2026
AUTO = "auto"


@asynccontextmanager
async def mcp_beside(
    api: ASGIApp, clock: Clock, *, limit: Limit = OTHER, limits: Limits | None = None
) -> AsyncIterator[ASGIApp]:
    """Yield an application that answers MCP clients of *api*, and passes other requests to it.

    limits   the store of the limits; None: a new store in memory
    """
    counted = AddressLimits(limits or MemoryLimits(clock), ClientAddresses())
    async with with_mcp(McpConfig(), api, api, counted, limit, clock) as app:
        yield app


@asynccontextmanager
async def mcp_client(
    app: ASGIApp, headers: Mapping[str, str] | None = None, *, mode: str = AUTO
) -> AsyncIterator[Client]:
    """Yield an MCP client of *app* that sends *headers* with all its requests."""
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, headers=headers) as http:
        streams = streamable_http_client("http://test/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            yield client


def error_of(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error, result
    return dict(result.structured_content["error"])


def paying(payment: object) -> RequestParamsMeta:
    """Return the `_meta` of a call that presents *payment*."""
    return cast("RequestParamsMeta", {PAYMENT: payment})
