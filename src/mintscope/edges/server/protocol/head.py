"""Reasons to refuse a request, as far as its head shows."""

from typing import Final

import msgspec

from mintscope.base.errors import BadRequest, HeadersTooLarge, PayloadTooLarge, ServiceError
from mintscope.edges.server.protocol.bounds import Bounds
from mintscope.edges.server.response import Header

HEADER_OVERHEAD_BYTES: Final = 4  # the colon, the space, the line end


class Head(msgspec.Struct, frozen=True):
    """The head of a request: names in lower case, *by_name* with the last value of each."""

    url: bytes
    version: str
    headers: list[Header]
    by_name: dict[bytes, bytes]

    def is_repetitive(self) -> bool:
        """Say whether some header came twice."""
        return len(self.by_name) < len(self.headers)


NO_HEAD: Final = Head(b"", "1.1", [], {})


def fault_of(head: Head, *, read_bytes: int, bounds: Bounds) -> ServiceError | None:
    """Return what is wrong with a head, None if nothing is.

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
