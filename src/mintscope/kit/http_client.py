"""HTTP clients for nodes, price feeds and Telegram, with a limit of the response size."""

import ssl
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

import httpx
from typing_extensions import override

from mintscope.kit.errors import Undecodable

PLAIN: Final = "identity"
PACKED: Final = "gzip"
GZIP_BITS: Final = 31  # zlib's number for the largest window and a gzip header


class BodyTooLong(Undecodable):
    """A body is longer than its limit."""


class _NoCookies(httpx.Cookies):
    # By default, httpx sends the cookies of earlier responses again.  A cookie jar that refuses all
    # cookies would still parse each response.
    @override
    def extract_cookies(self, response: httpx.Response) -> None:
        pass


class _ClientWithoutCookies(httpx.AsyncClient):
    cookies = _NoCookies()  # type: ignore[override] # the cookies of httpx can be replaced


def open_client(
    *,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    connections_max: int | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """Return a client without cookies, which accepts only encodings that `read_body` decodes."""
    return _ClientWithoutCookies(
        verify=_trusted_roots(),
        headers={"Accept-Encoding": PACKED, **(headers or {})},
        timeout=timeout_s,
        limits=httpx.Limits(
            max_connections=connections_max, max_keepalive_connections=connections_max
        ),
        transport=transport,
    )


async def read_body(response: httpx.Response, *, bytes_max: int) -> bytes:
    """Return the decompressed body of *response*, of at most *bytes_max* bytes.

    Raises    BodyTooLong if the body is longer; Undecodable if it has another encoding than gzip,
              or does not match its Content-Encoding; httpx.HTTPError if it does not arrive
    """
    encoding = response.headers.get("Content-Encoding", PLAIN).strip().lower()
    if encoding not in {PLAIN, PACKED}:
        raise Undecodable(f"expected a body in {PACKED} or as it is; was {encoding[:40]!r}")
    unpacking = zlib.decompressobj(GZIP_BITS) if encoding == PACKED else None
    body = bytearray()
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async for chunk in response.stream:  # httpx itself would decompress a chunk without a limit
        # The last argument is at least 1: zlib takes 0 as no limit.
        body += chunk if unpacking is None else _unpack(unpacking, chunk, bytes_max + 1 - len(body))
        if len(body) > bytes_max:
            raise BodyTooLong(f"expected at most {bytes_max} bytes; was more")
    # zlib itself reports no error if the data end too soon.
    if unpacking is not None and not unpacking.eof:
        raise Undecodable(f"expected a whole {PACKED} body; it breaks off")
    return bytes(body)


def _unpack(unpacking: "zlib._Decompress", chunk: bytes, bytes_max: int) -> bytes:
    try:
        text = unpacking.decompress(chunk, bytes_max)
    except zlib.error as cause:
        raise Undecodable(f"expected a {PACKED} body; {cause}") from cause
    if unpacking.unused_data:
        raise Undecodable(f"expected nothing behind the {PACKED} body; was more")
    return text


@cache
def _trusted_roots() -> ssl.SSLContext:
    """Return the TLS context of all clients; it is loaded once per process, which takes 20 ms."""
    return httpx.create_ssl_context()
