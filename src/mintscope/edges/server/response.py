"""Responses of a route: a body in one piece, a stream of chunks, or pushed data."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import msgspec

from mintscope.edges.server.streams.outlet import Outlet

Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")
PLAIN: Final[Header] = (b"content-type", b"text/plain; charset=utf-8")
NO_STORE: Final[Header] = (b"cache-control", b"no-store")
CHUNK_S_MAX: Final = 30.0


class Response(msgspec.Struct, gc=False):
    """A response with a body in one piece.

    headers   what belongs to this response alone; those of the request's limits, say, are
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
    """A response whose body others write, whenever there is something to write.

    push   is given the outlet once the head was sent, or one that is gone; returns when the body
           was ended, or the client has left
    """

    status: int
    push: Callable[[Outlet], Awaitable[None]]
    headers: tuple[Header, ...]


AnyResponse = Response | StreamingResponse | PushedResponse
