"""A request to the API in this process: the routes, limits and checkout of every HTTP client."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Message, Scope

from mintscope.edges.server.request import ClientDisconnected
from mintscope.edges.server.response import Header

# The API gets this of the MCP request: who sends it, by which proxies, with which credential.
PASSED_ON: Final = {b"authorization", b"x-forwarded-for"}


class ApiAnswer(msgspec.Struct, frozen=True):
    """The answer of the API.

    headers   by their names in lower case
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Say whether what was asked for was delivered."""
        return self.status < 400  # noqa: PLR2004 - HTTP's own number

    def content(self) -> Any:
        """Return the body, decoded."""
        return msgspec.json.decode(self.body)


class ApiExchange:
    """Asks *api*, an ASGI application."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api

    async def ask(
        self, method: str, target: str, *, client: Scope, headers: tuple[Header, ...] = ()
    ) -> ApiAnswer:
        """Return the answer to a request without a body.

        target    path and query, percent-encoded
        client    the scope of the request that the client sent
        Raises    ClientDisconnected if the client has left; nothing was charged
        """
        pieces: list[Message] = []

        async def send(message: Message) -> None:
            pieces.append(message)

        await self._api(_scope(method, target, client, headers), _nothing, send)
        if not pieces:
            raise ClientDisconnected
        named = {name.decode(): value.decode("latin-1") for name, value in pieces[0]["headers"]}
        body = b"".join(piece.get("body", b"") for piece in pieces[1:])
        return ApiAnswer(pieces[0]["status"], named, body)


def _scope(method: str, target: str, client: Scope, headers: tuple[Header, ...]) -> Scope:
    path, _, query = target.partition("?")
    passed_on = [header for header in client["headers"] if header[0] in PASSED_ON]
    return {
        **client,
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*passed_on, *headers],
    }


async def _nothing() -> Message:
    """Report that the request has no body."""
    return {"type": "http.request", "body": b"", "more_body": False}
