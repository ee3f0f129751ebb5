"""One request being answered: its head, read once, and its reply."""

import secrets
from itertools import count
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from mintscope.base.errors import PayloadTooLarge

Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")
NO_STORE: Final[Header] = (b"cache-control", b"no-store")
ANY_ORIGIN: Final[Header] = (b"access-control-allow-origin", b"*")
EXPOSED: Final[Header] = (
    b"access-control-expose-headers",
    (
        b"PAYMENT-REQUIRED, PAYMENT-RESPONSE, Retry-After, RateLimit, RateLimit-Policy,"
        b" X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id,"
        b" Idempotency-Key, X-Credits-Remaining, X-Data-Slot, X-Data-Age-Ms, X-Data-Status,"
        b" X-Token-Status"
    ),
)
UNROUTED: Final = "unrouted"
PROCESS: Final = secrets.token_hex(4).encode()  # so that two processes never share a request id
BODY_BYTES_MAX: Final = 16 * 1024
GONE: Final = "mintscope.gone"  # ASGI extension: a callable that says whether the client left


_numbers = count()


class Response(NamedTuple):
    """What a handler answers; the headers are collected in `Request.response_headers`."""

    status: int
    body: bytes


class ClientGone(Exception):
    """Nobody is there to read an answer; nothing was charged."""


class Request:
    """A request's head, and the headers its reply will carry, whatever it is."""

    __slots__ = (
        "_receive",
        "headers",
        "parameter",
        "request_id",
        "response_headers",
        "route",
        "scope",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = b"%b%08x" % (PROCESS, next(_numbers))
        self.response_headers: list[Header] = []
        self.route = UNROUTED
        self.parameter = ""  # the variable segment of the path

    def bearer(self) -> str | None:
        """Return the Bearer value: None without Authorization, "" with one that holds none."""
        value = self.headers.get(b"authorization")
        if value is None or self.is_ambiguous():
            return None
        scheme, _, text = value.decode("latin-1").partition(" ")
        return text.strip() if scheme.lower() == "bearer" else ""

    def is_ambiguous(self) -> bool:
        """Say whether there are several Authorization headers: they could say several things."""
        pairs = self.scope["headers"]
        return len(pairs) > len(self.headers) and (
            sum(name == b"authorization" for name, _ in pairs) > 1
        )

    def values(self, name: bytes) -> list[str]:
        """Return every value of the header *name* (lower case)."""
        if name not in self.headers:
            return []
        return [value.decode("latin-1") for other, value in self.scope["headers"] if other == name]

    def has_payment(self) -> bool:
        """Say whether the client presents an x402 payment, readable or not."""
        return b"payment-signature" in self.headers

    async def body(self) -> bytes:
        """Return the body, which has arrived already.

        Raises PayloadTooLarge, and ClientGone if nobody waits for an answer.
        """
        body, is_more = b"", True
        while is_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > BODY_BYTES_MAX:
                raise PayloadTooLarge(f"expected a body of at most {BODY_BYTES_MAX} bytes")
            is_more = message.get("more_body", False)
        return body

    def is_preflight(self) -> bool:
        """Say whether a browser asks if it may send a /v1 request from another origin."""
        return b"access-control-request-method" in self.headers and self.scope["path"].startswith(
            "/v1/"
        )

    def expect_client(self) -> None:
        """Raise ClientGone if the connection is closed already."""
        extensions = self.scope.get("extensions")
        if extensions and GONE in extensions and extensions[GONE]():
            raise ClientGone

    async def answer(self, send: Send, reply: Response) -> None:
        """Send *reply*."""
        headers = [
            JSON,
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-request-id", self.request_id),
            *self.response_headers,
        ]
        if b"origin" in self.headers and self.scope["path"].startswith("/v1/"):
            headers += [ANY_ORIGIN, EXPOSED]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
