"""What makes a request unacceptable, as far as its head tells."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.errors import BadRequest, HeadersTooLarge, PayloadTooLarge, ServiceError
from mintscope.edges.server.protocol.connections import Bounds
from mintscope.edges.server.response import Header

HEADER_OVERHEAD_BYTES: Final = 4  # the colon, the space, the line end


def fault_of(
    headers: Sequence[Header], *, url: bytes, version: str, read_bytes: int, bounds: Bounds
) -> ServiceError | None:
    """Return what is wrong with a head, None if nothing is.

    read_bytes   at least the length of the head: most need no counting
    """
    by_name = dict(headers)
    if read_bytes > bounds.head_bytes_max:
        head_bytes = len(url) + sum(
            len(name) + len(value) + HEADER_OVERHEAD_BYTES for name, value in headers
        )
        if head_bytes > bounds.head_bytes_max:
            return head_too_large(bounds)
    if len(by_name) < len(headers) and [name for name, _ in headers].count(b"host") > 1:
        return BadRequest("expected one Host header; there were several")
    if b"host" not in by_name and version != "1.0":
        return BadRequest("expected a Host header; there was none")
    if int(by_name.get(b"content-length", 0)) > bounds.body_bytes_max:
        return body_too_large(bounds)
    return None


def head_too_large(bounds: Bounds) -> HeadersTooLarge:
    """Return the error of a head that is larger than it may be."""
    return HeadersTooLarge(
        f"expected a request line and headers of at most {bounds.head_bytes_max} bytes in all"
    )


def too_many_headers(bounds: Bounds) -> HeadersTooLarge:
    """Return the error of a head with more headers than it may have."""
    return HeadersTooLarge(f"expected at most {bounds.headers_max} headers")


def url_too_long(bounds: Bounds) -> HeadersTooLarge:
    """Return the error of a request line whose address is longer than it may be."""
    return HeadersTooLarge(f"expected an address of at most {bounds.url_bytes_max} bytes")


def body_too_large(bounds: Bounds) -> PayloadTooLarge:
    """Return the error of a body that is larger than it may be."""
    return PayloadTooLarge(f"expected a body of at most {bounds.body_bytes_max} bytes")
