"""MCP clients of the official package, against an application in this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import nan
from typing import Any, cast

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, RequestParamsMeta
from starlette.types import ASGIApp

from mcp import Client
from mintscope.app.config.groups import McpConfig
from mintscope.app.mcp import McpService
from mintscope.app.web_api import OTHER
from mintscope.kit.clock import Clock
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import Limit, MemoryLimits
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.kernels import READ
from mintscope.market.report import (
    CandleCounts,
    DataSpan,
    Indicators,
    Pressure,
    Price,
    TokenReport,
    timeframe_of,
)
from mintscope.mcp.calls import PAYMENT
from support.fakes.reports import TRACKED

LEGACY = "legacy"  # the client first sends `initialize`, like clients from before July 2026
AUTO = "auto"


@asynccontextmanager
async def mcp_beside(api: ASGIApp, clock: Clock, *, limit: Limit = OTHER) -> AsyncIterator[ASGIApp]:
    """Yield an application that answers MCP clients of *api*, and passes other requests to it."""
    limits = AddressLimits(MemoryLimits(clock), ClientAddresses())
    async with McpService(McpConfig(), limits, limit, clock).beside(api, api) as app:
        yield app


@asynccontextmanager
async def mcp_client(
    app: ASGIApp, headers: Mapping[str, str] | None = None, *, mode: str = AUTO
) -> AsyncIterator[Client]:
    """Yield a client that sends *headers* with all its requests."""
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, headers=headers) as http:
        streams = streamable_http_client("http://test/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            yield client


def error_of(result: CallToolResult) -> dict[str, Any]:
    """Return the error of *result*."""
    assert result.is_error, result
    return dict(result.structured_content["error"])


def paying(payment: object) -> RequestParamsMeta:
    """Return the `_meta` of a call that presents *payment*."""
    return cast("RequestParamsMeta", {PAYMENT: payment})


def whole_report() -> bytes:
    """Return a report with every field; some fields are null."""
    ema9 = [150.25, *[nan] * 3]
    timeframe = timeframe_of([*ema9, 55.5, *[nan] * (READ - 5)])
    return msgspec.json.encode(
        TokenReport(
            token=Mint(TRACKED),
            price=Price.of(150.5, 1.0, None, UnixS(1_750_000_000)),
            indicators=Indicators(
                m1=timeframe,
                m5=timeframe,
                m15=timeframe,
                h1=timeframe,
                buy_sell_pressure=Pressure(m1=0, m5=0.25, m15=0.5, h1=0.5, h4=0.75, d1=1),
            ),
            data_span=DataSpan(
                from_=UnixS(1_749_990_000),
                to=UnixS(1_750_000_000),
                candle_counts=CandleCounts(m1=9, m5=3, m15=2, h1=1),
            ),
        )
    )
