"""A request: its head, read once, and the headers that its response will carry."""

import secrets
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from starlette.types import Receive, Scope

from mintscope.base.errors import NotFound, PayloadTooLarge
from mintscope.edges.server.response import Header

BODY_BYTES_MAX: Final = 16 * 1024
ID_DIGITS_MAX: Final = 18  # an id fits 63 bits
UNROUTED: Final = "unrouted"
PROCESS: Final = secrets.token_hex(4).encode()  # so that two processes never share a request id
PAYMENT_SCHEME: Final = b"payment "  # of Authorization, in lower case: a payment of MPP
NO_PARAMS: Final[Mapping[str, str]] = {}
GONE: Final = "mintscope.gone"  # ASGI extension: a callable that says whether the client left
HAS_PAID: Final = "mintscope.has_paid"  # one that serves the connection before all that have not
SLOW_DOWN: Final = "mintscope.slow_down"  # and one that delays what the client asks next


_numbers = count()


def next_request_id() -> bytes:
    """Return the id of a request that begins."""
    return b"%b%08x" % (PROCESS, next(_numbers))


def parse_id(text: str) -> int:
    """Return the id that *text* is.

    Raises    NotFound: an address with anything else leads nowhere
    """
    if not (text.isascii() and text.isdigit() and len(text) <= ID_DIGITS_MAX):
        raise NotFound
    return int(text)


class ClientDisconnected(Exception):
    """The client closed the connection before the response; nothing was charged or changed."""


class Request:
    """A request's head, and the headers its response will carry, whatever it is.

    if_unsent    what is done if the response cannot be sent, or another one is: what was taken for
                 it is given back
    path_params  the texts of the variable segments of the path, by name
    route        the path of the route that fits, for the metrics
    state        what a group of routes has learned of the request
    """

    __slots__ = (
        "_body",
        "headers",
        "if_unsent",
        "path_params",
        "receive",
        "request_id",
        "response_headers",
        "route",
        "scope",
        "state",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = next_request_id()
        self.response_headers: list[Header] = []
        self.route = UNROUTED
        self.path_params: Mapping[str, str] = NO_PARAMS
        self.state: Any = None
        self.if_unsent: Callable[[], None] | None = None
        self._body: bytes | None = None

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The path, percent-decoded."""
        return str(self.scope["path"])

    @property
    def query(self) -> bytes:
        """The query, as it was sent."""
        return bytes(self.scope.get("query_string", b""))

    def bearer(self) -> str | None:
        """Return the Bearer value: None without Authorization, "" with one that holds none.

        A payment in Authorization is no credential.
        """
        value = self.headers.get(b"authorization")
        if value is None or self.is_ambiguous():
            return None
        scheme, _, text = value.decode("latin-1").partition(" ")
        if scheme.lower() == "payment":
            return None
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

    def value(self, name: bytes) -> str:
        """Return the last value of the header *name* (lower case), "" without one."""
        return self.headers.get(name, b"").decode("latin-1")

    def has_payment(self) -> bool:
        """Say whether the client presents a payment of x402 or MPP, readable or not."""
        return b"payment-signature" in self.headers or self.has_payment_of_mpp()

    def has_payment_of_mpp(self) -> bool:
        """Say whether Authorization holds a payment, readable or not."""
        value = self.headers.get(b"authorization", b"")
        return value[: len(PAYMENT_SCHEME)].lower() == PAYMENT_SCHEME

    async def body(self) -> bytes:
        """Return the body, of at most 16 KiB; the same one each time it is asked for.

        Raises PayloadTooLarge, and ClientDisconnected if the client has left.
        """
        if self._body is None:
            self._body = await self._receive_body()
        return self._body

    async def _receive_body(self) -> bytes:
        body = b""
        is_more = True
        while is_more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if len(body) > BODY_BYTES_MAX:
                raise PayloadTooLarge(f"expected a body of at most {BODY_BYTES_MAX} bytes")
            is_more = message.get("more_body", False)
        return body

    def tell_connection(self, event: str) -> None:
        """Notify the connection that its client HAS_PAID, or asks too often and must SLOW_DOWN."""
        extensions = self.scope.get("extensions")
        if extensions and event in extensions:
            extensions[event]()

    def take_back(self) -> None:
        """Do what `if_unsent` says, once."""
        undo = self.if_unsent
        self.if_unsent = None
        if undo is not None:
            undo()

    def expect_client(self) -> None:
        """Raise ClientDisconnected if the connection is closed already."""
        extensions = self.scope.get("extensions")
        if extensions and GONE in extensions and extensions[GONE]():
            raise ClientDisconnected
