"""Serves MCP in the api process, and bridges a client on standard input to a service."""

import gc
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.api.failures import ENVELOPE, ErrorWriter
from mintscope.app.config.groups import McpConfig
from mintscope.app.engine import extra
from mintscope.app.maintenance import running
from mintscope.kit.clock import Clock
from mintscope.kit.errors import UnusableStore
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.limits import Limit
from mintscope.mcp.budget import HEADER, UnreadableBudget, read_budget
from mintscope.mcp.calls import PATH, create_endpoint, create_mcp


@asynccontextmanager
async def with_mcp(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: McpConfig, app: ASGIApp, api: ASGIApp, limits: AddressLimits, limit: Limit, clock: Clock
) -> AsyncIterator[ASGIApp]:
    """Yield *app* with MCP, whose tools call *api*; if MCP is not served, yield *app* alone.

    limit   the limit of MCP messages from one address; the API also counts the requests of tools
    """
    if not config.is_served:
        yield app
        return
    # The package is loaded for the first client, after the objects of the start were frozen.
    endpoint = create_endpoint(api, limits, on_loaded=gc.freeze)
    errors = ErrorWriter(lambda _path: ENVELOPE, clock)
    mcp = create_mcp(endpoint, limit=limits.of(limit), write_error=errors)

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = mcp if scope["path"] == PATH else app
        await chosen(scope, receive, send)

    async with running(endpoint.run, "mcp"):
        yield choose


class CannotBridge(Exception):
    """The bridge cannot run; the message gives the expected and the actual state."""


async def run_bridge(
    url: str, credential: str | None, *, max_credits: int | None, max_usd: str | None
) -> None:
    """Serve an MCP client on standard input and output until standard input ends.

    url                    the URL of the service, without a path
    credential             the credit token or API key; None: requests have no credential
    max_credits, max_usd   maximum cost of all calls together within 24 hours; None: no limit
    Raises                 CannotBridge if a limit is malformed, the extra `mcp` is missing, or the
                           service does not respond or does not serve MCP
    """
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    parts = [] if max_credits is None else [f"credits={max_credits}"]
    parts += [] if max_usd is None else [f"usd={max_usd}"]
    try:
        if parts:
            # The service counts the budget of each session apart: this run does not share one with
            # others.
            headers[HEADER] = ", ".join([*parts, f"session={secrets.token_hex(8)}"])
            # The result is not needed: this only reports a malformed limit before the bridge
            # starts.
            read_budget([headers[HEADER]])
        with extra("mcp", "mcp", "mcp"):
            from mintscope.mcp.protocol import NoService, bridge  # noqa: PLC0415 - extra
    except (UnreadableBudget, UnusableStore) as cause:
        raise CannotBridge(str(cause)) from cause
    try:
        await bridge(url.rstrip("/") + PATH, headers)
    except NoService as cause:
        raise CannotBridge(str(cause)) from cause
