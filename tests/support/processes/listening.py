"""An application, such as a devchain, behind a socket, for what speaks to it over HTTP."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from mintscope.edges.server.server import Server, serving_beside


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serve *app* on the loopback and yield where."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving_beside(Server(config), listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
