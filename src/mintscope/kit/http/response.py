"""Bounds of requests, errors for faulty request heads, and the types of responses."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from mintscope.kit.errors import BadRequest, HeadersTooLarge, PayloadTooLarge, ServiceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of HTTP requests, WebSocket messages and connections."""

    head_bytes_max: int = 16 * 1024  # bytes of the request line and the headers in total
    url_bytes_max: int = 3_072  # bytes of the address: enough for a stream of 50 mints
    headers_max: int = 100  # each takes six times its bytes in memory, and a callback
    body_bytes_max: int = 64 * 1024
    body_pieces_max: int = 1_024  # number of pieces (chunks or packets) of a body
    # Time for a whole request, from its first byte; for the first request, from the opening of the
    # connection.
    request_s_max: float = 14.0
    unread_s_max: float = 14.0  # time for which a client may leave written data unread
    keep_alive_s_max: float = 10.0  # time after which an idle connection is closed
    waiting_max: int = 16  # requests of a connection that wait for the current one
    unread_bytes_max: int = 64 * 1024 * 1024  # bytes of incomplete and unread requests in all
    pause_s: float = 0.5  # pause before the next request of a client that exceeded a rate limit
    idle_s_min: float = 1.0  # time before an idle connection may be closed to make room
    connections_max: int = 2_000
    connections_per_client_max: int = 256  # an IPv4 address or an IPv6 /64; a /48: four times
    lingering_max: int = 256  # refused connections that stay open until the client reads the error
    message_bytes_max: int = 4 * 1024  # bytes of a WebSocket message, in all its frames
    frames_max: int = 120  # between two pings of the server, which are 15 s apart
    first_message_s_max: float = 10.0  # for the first message of a WebSocket without credential

    @property
    def request_bytes_max(self) -> int:
        """The maximum size of a request in bytes, with room for the lengths of a body's chunks.

        A body in chunks of over 4 bytes each fits.
        """
        return self.head_bytes_max + 2 * self.body_bytes_max


# An ASGI extension: after the head of a response, a message of this type asks for the outlet of the
# body, which is passed to the callable "take" in the message.
OUTLET_MESSAGE: Final = "mintscope.outlet"


class Outlet(Protocol):
    """Writes the body of one response; only `wait_gone` waits, all other methods return at once."""

    def write(self, chunk: bytes) -> None:
        """Send *chunk*, which is not empty; do nothing if the client has left."""

    def end(self, chunk: bytes) -> None:
        """Send *chunk*, which is not empty, and end the body; do nothing if the client has left."""

    def is_behind(self) -> bool:
        """Return whether written data still waits for the client to read it."""

    def is_gone(self) -> bool:
        """Return whether the client has left, or the body has ended."""

    async def wait_gone(self) -> None:
        """Wait until the client has left or the body has ended.

        The loss of a connection may be noticed late, or never.
        """


class NoOutlet:
    """Discards a response body, after a HEAD request or if the client left before the body."""

    def write(self, chunk: bytes) -> None:
        """Send nothing."""

    def end(self, chunk: bytes) -> None:
        """Send nothing."""

    def is_behind(self) -> bool:
        """Return False, because nothing was written."""
        return False

    def is_gone(self) -> bool:
        """Return True, because nothing is read."""
        return True

    async def wait_gone(self) -> None:
        """Return at once."""


NO_OUTLET: Final = NoOutlet()


Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")
PLAIN: Final[Header] = (b"content-type", b"text/plain; charset=utf-8")
NO_STORE: Final[Header] = (b"cache-control", b"no-store")
CHUNK_S_MAX: Final = 30.0


class Response(msgspec.Struct, gc=False):
    """A response with a complete body."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = (JSON,)  # without those in `Request.response_headers`
    etag: bytes = b""  # the value of the header ETag; empty: the response has none
    gzipped: bytes | None = None  # the compressed body; None if it was not compressed beforehand


class StreamingResponse(msgspec.Struct, gc=False):
    """A response whose body is sent in *chunks*."""

    status: int
    chunks: AsyncGenerator[bytes, None]  # closed at the end, even if the client leaves
    headers: tuple[Header, ...]
    chunk_s_max: float = CHUNK_S_MAX  # time to get and send each chunk; else the body breaks off


class PushedResponse(msgspec.Struct, gc=False):
    """A response whose body is written to an `Outlet`, whenever there is something to send.

    push   called with the outlet after the head is sent; returns when the body has ended or the
           client has left
    """

    status: int
    push: Callable[[Outlet], Awaitable[None]]
    headers: tuple[Header, ...]


AnyResponse = Response | StreamingResponse | PushedResponse


HEADER_OVERHEAD_BYTES: Final = 4  # the colon, the space, the line end


class Head(msgspec.Struct, frozen=True):
    """The head of a request; *by_name* has the last value of each header, by lower-case name."""

    url: bytes
    version: str
    headers: list[Header]
    by_name: dict[bytes, bytes]

    def is_repetitive(self) -> bool:
        """Return whether a header name occurs more than once."""
        return len(self.by_name) < len(self.headers)


NO_HEAD: Final = Head(b"", "1.1", [], {})


def fault_of(head: Head, *, read_bytes: int, bounds: Bounds) -> ServiceError | None:
    """Return the error for a fault of *head*; None if it has none.

    read_bytes   an upper bound of the length of *head*: if it is low enough, the length is not
                 counted
    """
    if read_bytes > bounds.head_bytes_max:
        head_bytes = len(head.url) + sum(
            len(name) + len(value) + HEADER_OVERHEAD_BYTES for name, value in head.headers
        )
        if head_bytes > bounds.head_bytes_max:
            return head_too_large(bounds)
    if head.is_repetitive() and [name for name, _ in head.headers].count(b"host") > 1:
        return BadRequest("expected one Host header; there were several")
    if b"host" not in head.by_name and head.version != "1.0":
        return BadRequest("expected a Host header; there was none")
    # The parser has refused a value that is no number.
    if int(head.by_name.get(b"content-length", 0)) > bounds.body_bytes_max:
        return body_too_large(bounds)
    return None


def head_too_large(bounds: Bounds) -> HeadersTooLarge:
    """Return the error for a head that exceeds the size limit."""
    return HeadersTooLarge(
        f"expected a request line and headers of at most {bounds.head_bytes_max} bytes in all"
    )


def body_too_large(bounds: Bounds) -> PayloadTooLarge:
    """Return the error for a body that exceeds the size limit."""
    return PayloadTooLarge(f"expected a body of at most {bounds.body_bytes_max} bytes")
