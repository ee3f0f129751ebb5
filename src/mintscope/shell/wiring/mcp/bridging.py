"""`mintscope mcp`: MCP on standard input and output, by a service over HTTP."""

import secrets

from mintscope.base.errors import UnusableStore
from mintscope.edges.mcp.app import PATH
from mintscope.edges.mcp.budget import HEADER, UnreadableBudget, read_budget
from mintscope.shell.wiring.storage.extras import extra


class CannotBridge(Exception):
    """The message says what was expected and what was there."""


async def run_bridge(
    url: str, credential: str | None, *, max_credits: int | None, max_usd: str | None
) -> None:
    """Serve standard input and output until the first ends.

    url                    of the service, without a path
    max_credits, max_usd   the most that all calls together may take, within 24 hours
    Raises                 CannotBridge
    """
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    parts = [] if max_credits is None else [f"credits={max_credits}"]
    parts += [] if max_usd is None else [f"usd={max_usd}"]
    try:
        if parts:
            headers[HEADER] = ", ".join([*parts, f"session={secrets.token_hex(8)}"])
            read_budget([headers[HEADER]])
        with extra("mcp", "mcp", "mcp"):
            from mintscope.edges.mcp.bridge import NoService, bridge  # noqa: PLC0415 - extra
    except (UnreadableBudget, UnusableStore) as cause:
        raise CannotBridge(str(cause)) from cause
    try:
        await bridge(url.rstrip("/") + PATH, headers)
    except NoService as cause:
        raise CannotBridge(str(cause)) from cause
