"""Reasons to refuse a request by its head, and types of responses."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from mintscope.kit.errors import BadRequest, HeadersTooLarge, PayloadTooLarge, ServiceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on requests and connections.

    url_bytes_max                of the address in the request line: a stream of 50 mints fits
    headers_max                  each is worth six times its bytes in memory, and a callback
    body_pieces_max              in which a body arrives: its chunks, or its packets
    waiting_max                  requests of one connection that wait behind the one under way
    unread_bytes_max             of incomplete bodies and unparsed bytes, in all
    pause_s                      no request is read so long after one was refused as one too many
    idle_s_min                   an idle connection gives way to a new one only after so long
    connections_per_client_max   of an IPv4 address or an IPv6 /64; four times as many of a /48
    lingering_max                refused connections that are kept open until the client has read
    message_bytes_max            of a message of a WebSocket, in all its frames
    frames_max                   of a WebSocket between two pings, which are 15 s apart
    first_message_s_max          until a WebSocket without a credential has sent its first message
    """

    head_bytes_max: int = 16 * 1024
    url_bytes_max: int = 2_560
    headers_max: int = 100
    body_bytes_max: int = 64 * 1024
    body_pieces_max: int = 1_024
    request_s_max: float = 14.0
    unread_s_max: float = 14.0
    keep_alive_s_max: float = 10.0
    waiting_max: int = 16
    unread_bytes_max: int = 64 * 1024 * 1024
    pause_s: float = 0.5
    idle_s_min: float = 1.0
    connections_max: int = 2_000
    connections_per_client_max: int = 256
    lingering_max: int = 256
    message_bytes_max: int = 4 * 1024
    frames_max: int = 120
    first_message_s_max: float = 10.0

    @property
    def request_bytes_max(self) -> int:
        """The maximum size of a request: its head, and its body in chunks of any size > 4."""
        return self.head_bytes_max + 2 * self.body_bytes_max


# An extension of ASGI: asks the server, after the head of a response, for the outlet of its body,
# which it gives to the callable "take".
OUTLET_MESSAGE: Final = "mintscope.outlet"


class Outlet(Protocol):
    """The body of one response; writes do not wait for the client to read."""

    def write(self, chunk: bytes) -> None:
        """Send *chunk*, which is not empty; if the client has left, send nothing."""

    def end(self, chunk: bytes) -> None:
        """Send the last *chunk*, as fast as the client reads."""

    def is_behind(self) -> bool:
        """Return whether the client has not yet read all written data."""

    def is_gone(self) -> bool:
        """Return whether the client has left, or the body has ended."""

    async def wait_gone(self) -> None:
        """Return once `is_gone`; a client that vanishes silently may remain undetected."""


class NoOutlet:
    """The outlet of a response whose client left before the response began."""

    def write(self, chunk: bytes) -> None:
        """Send nothing."""

    def end(self, chunk: bytes) -> None:
        """Send nothing."""

    def is_behind(self) -> bool:
        """Return False, because nothing was written."""
        return False

    def is_gone(self) -> bool:
        """Return True, because the client has left."""
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
    """A response with a body in one piece.

    headers   headers of this response alone; those of the request's limits, say, are
              collected in `Request.response_headers`
    etag      names the content, quotation marks included; empty for content of this moment
    gzipped   the body compressed beforehand; None: not yet
    """

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = (JSON,)
    etag: bytes = b""
    gzipped: bytes | None = None


class StreamingResponse(msgspec.Struct, gc=False):
    """A response whose body is sent chunk by chunk, as *chunks* yields them.

    chunks        closed when they end, when the client leaves, and when one takes too long
    chunk_s_max   how long a chunk may take to come, and to be sent; then the body is cut off
    """

    status: int
    chunks: AsyncGenerator[bytes, None]
    headers: tuple[Header, ...]
    chunk_s_max: float = CHUNK_S_MAX


class PushedResponse(msgspec.Struct, gc=False):
    """A response whose body other code writes at any time.

    push   is given the outlet once the head was sent, or one that is gone; returns when the body
           was ended, or the client has left
    """

    status: int
    push: Callable[[Outlet], Awaitable[None]]
    headers: tuple[Header, ...]


AnyResponse = Response | StreamingResponse | PushedResponse


HEADER_OVERHEAD_BYTES: Final = 4  # the colon, the space, the line end


class Head(msgspec.Struct, frozen=True):
    """The head of a request: names in lower case, *by_name* with the last value of each."""

    url: bytes
    version: str
    headers: list[Header]
    by_name: dict[bytes, bytes]

    def is_repetitive(self) -> bool:
        """Return whether a header name occurs more than once."""
        return len(self.by_name) < len(self.headers)


NO_HEAD: Final = Head(b"", "1.1", [], {})


def fault_of(head: Head, *, read_bytes: int, bounds: Bounds) -> ServiceError | None:
    """Return the fault of a head, None if there is none.

    read_bytes   at least the length of the head: most need no counting
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
    if int(head.by_name.get(b"content-length", 0)) > bounds.body_bytes_max:
        return body_too_large(bounds)
    return None


def head_too_large(bounds: Bounds) -> HeadersTooLarge:
    """Return the error for a head that exceeds the size limit."""
    return HeadersTooLarge(
        f"expected a request line and headers of at most {bounds.head_bytes_max} bytes in all"
    )


def too_many_headers(bounds: Bounds) -> HeadersTooLarge:
    """Return the error for a head with too many headers."""
    return HeadersTooLarge(f"expected at most {bounds.headers_max} headers")


def url_too_long(bounds: Bounds) -> HeadersTooLarge:
    """Return the error for a request line whose address is too long."""
    return HeadersTooLarge(f"expected an address of at most {bounds.url_bytes_max} bytes")


def body_too_large(bounds: Bounds) -> PayloadTooLarge:
    """Return the error for a body that exceeds the size limit."""
    return PayloadTooLarge(f"expected a body of at most {bounds.body_bytes_max} bytes")
