"""One request being answered: its head, read once, and its reply."""

import secrets
from typing import Final, NamedTuple

from starlette.types import Scope, Send

from mintscope.errors import BadRequest

Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")
NO_STORE: Final[Header] = (b"cache-control", b"no-store")
ANY_ORIGIN: Final[Header] = (b"access-control-allow-origin", b"*")
EXPOSED: Final[Header] = (
    b"access-control-expose-headers",
    (
        b"PAYMENT-REQUIRED, PAYMENT-RESPONSE, Retry-After, RateLimit, RateLimit-Policy,"
        b" X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id,"
        b" X-Credits-Remaining, X-Data-Slot, X-Data-Age-Ms, X-Data-Status, X-Token-Status"
    ),
)
GONE: Final = "mintscope.gone"  # ASGI extension: a callable that says whether the client left


class Reply(NamedTuple):
    """What a handler answers; the headers are collected in `Call.reply_headers`."""

    status: int
    body: bytes


class ClientGone(Exception):
    """Nobody is there to read an answer; nothing was charged."""


class Call:
    """A request's head, and the headers its reply will carry, whatever it is."""

    __slots__ = ("headers", "reply_headers", "request_id", "scope", "status")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = secrets.token_hex(8).encode()
        self.reply_headers: list[Header] = []
        self.status = 0  # until it is answered

    @property
    def parameter(self) -> str:
        """The variable segment of the path."""
        return str(self.scope["path_parameter"])

    def bearer(self) -> str | None:
        """Return the Bearer value: None without Authorization, "" with one that holds none.

        Raises BadRequest for two Authorization headers: they could say two things.
        """
        value = self.headers.get(b"authorization")
        if value is None:
            return None
        if len(self.headers) < len(self.scope["headers"]):
            times = sum(name == b"authorization" for name, _ in self.scope["headers"])
            if times > 1:
                raise BadRequest(f"expected one Authorization header; there were {times}")
        scheme, _, text = value.decode("latin-1").partition(" ")
        return text.strip() if scheme.lower() == "bearer" else ""

    def expect_client(self) -> None:
        """Raise ClientGone if the connection is closed already."""
        extensions = self.scope.get("extensions")
        if extensions and GONE in extensions and extensions[GONE]():
            raise ClientGone

    async def answer(self, send: Send, reply: Reply) -> None:
        """Send *reply*."""
        self.status = reply.status
        headers = [
            JSON,
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-request-id", self.request_id),
            *self.reply_headers,
        ]
        if b"origin" in self.headers and self.scope["path"].startswith("/v1/"):
            headers += [ANY_ORIGIN, EXPOSED]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
