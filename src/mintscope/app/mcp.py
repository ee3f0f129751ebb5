"""Serves MCP in the api process, and bridges a client on standard input to a service."""

import gc
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.api.failures import ENVELOPE, ErrorWriter
from mintscope.app.config.groups import McpConfig
from mintscope.app.maintenance import running
from mintscope.app.stores.places import extra
from mintscope.kit.clock import Clock
from mintscope.kit.errors import UnusableStore
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.limits import Limit
from mintscope.mcp.budget import HEADER, UnreadableBudget, read_budget
from mintscope.mcp.calls import PATH, create_endpoint, create_mcp


class WithMcp:
    """An ASGI application that passes requests for MCP's path to *mcp*, and others to *app*."""

    def __init__(self, app: ASGIApp, mcp: ASGIApp) -> None:
        self._app = app
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request to MCP or to the other application."""
        app = self._mcp if scope["path"] == PATH else self._app
        await app(scope, receive, send)


def has_mcp(config: McpConfig) -> bool:
    """Return whether MCP clients are served: whether MCP is enabled and the extra is installed."""
    return config.enabled and find_spec("mcp") is not None


@dataclass(frozen=True, slots=True)
class McpService:
    """The server for MCP clients on the listener of the API, if MCP is enabled.

    limit   the limit of MCP messages from one address; the API also counts the requests of tools
    """

    config: McpConfig
    limits: AddressLimits
    limit: Limit
    clock: Clock

    @asynccontextmanager
    async def beside(self, app: ASGIApp, api: ASGIApp) -> AsyncIterator[ASGIApp]:
        """Yield *app* with MCP, whose tools call *api*; without MCP, yield *app* alone."""
        if not has_mcp(self.config):
            yield app
            return
        endpoint = create_endpoint(api, self.limits, on_loaded=gc.freeze)
        errors = ErrorWriter(lambda _path: ENVELOPE, self.clock)
        mcp = create_mcp(endpoint, limit=self.limits.of(self.limit), write_error=errors)
        async with running(endpoint.run, "mcp"):
            yield WithMcp(app, mcp)


class CannotBridge(Exception):
    """The bridge cannot run; the message gives the expected and the actual state."""


async def run_bridge(
    url: str, credential: str | None, *, max_credits: int | None, max_usd: str | None
) -> None:
    """Serve an MCP client on standard input and output until standard input ends.

    url                    the URL of the service, without a path
    credential             the credit token or API key; None: requests have no credential
    max_credits, max_usd   maximum cost of all calls together within 24 hours; None: no limit
    Raises                 CannotBridge if a limit is malformed, the extra `mcp` is missing,
                           or the service does not respond
    """
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    parts = [] if max_credits is None else [f"credits={max_credits}"]
    parts += [] if max_usd is None else [f"usd={max_usd}"]
    try:
        if parts:
            headers[HEADER] = ", ".join([*parts, f"session={secrets.token_hex(8)}"])
            read_budget([headers[HEADER]])
        with extra("mcp", "mcp", "mcp"):
            from mintscope.mcp.protocol import NoService, bridge  # noqa: PLC0415 - extra
    except (UnreadableBudget, UnusableStore) as cause:
        raise CannotBridge(str(cause)) from cause
    try:
        await bridge(url.rstrip("/") + PATH, headers)
    except NoService as cause:
        raise CannotBridge(str(cause)) from cause
