"""Serves an ASGI application, such as a devchain, on a socket, for clients that use HTTP."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from mintscope.kit.http.application import Server, serving_beside


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serve *app* on the loopback address, and yield its URL."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving_beside(Server(config), listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def addresses_in(log: str) -> list[str]:
    """Return the addresses of the api processes that wrote *log*."""
    return [line["address"] for line in json_lines(log) if line["event"] == "serving"]


def json_lines(log: str) -> list[dict[str, Any]]:
    """Return the complete lines of *log*, each of which is one JSON object."""
    return [json.loads(line) for line in log.splitlines(keepends=True) if line.endswith("\n")]
