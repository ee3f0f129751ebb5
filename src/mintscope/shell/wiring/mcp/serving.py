"""/mcp on the listener of an api process."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit
from mintscope.edges.api.failures import ENVELOPE, ErrorWriter
from mintscope.edges.mcp.app import PATH, create_endpoint, create_mcp
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.shell.config.mcp import McpConfig
from mintscope.shell.wiring.maintenance import running


class WithMcp:
    """The ASGI application in front of both: MCP at its path, all else as it was."""

    def __init__(self, app: ASGIApp, mcp: ASGIApp) -> None:
        self._app = app
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        app = self._mcp if scope["path"] == PATH else self._app
        await app(scope, receive, send)


def has_mcp(config: McpConfig) -> bool:
    """Say whether MCP clients are served: it is enabled, and the extra is installed."""
    return config.enabled and find_spec("mcp") is not None


@dataclass(frozen=True, slots=True)
class McpService:
    """Where MCP clients are served: on the listener of the API, or nowhere.

    limit   of messages, by address; what a tool asks is counted by the API as well
    """

    config: McpConfig
    limits: AddressLimits
    limit: Limit
    clock: Clock

    @asynccontextmanager
    async def beside(self, app: ASGIApp, api: ASGIApp) -> AsyncIterator[ASGIApp]:
        """Yield *app* with MCP beside it, whose tools ask *api*; or *app* alone."""
        if not has_mcp(self.config):
            yield app
            return
        endpoint = create_endpoint(api, self.limits, on_loaded=gc.freeze)
        errors = ErrorWriter(lambda _path: ENVELOPE, self.clock)
        mcp = create_mcp(endpoint, limit=self.limits.of(self.limit), write_error=errors)
        async with running(endpoint.run, "mcp"):
            yield WithMcp(app, mcp)
