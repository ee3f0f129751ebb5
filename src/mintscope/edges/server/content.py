"""Content as it is sent: nothing that the client has, and compressed if it accepts that.

Source    RFC 9110, sections 8.8.3, 12.5.3, 13.1.2 and 15.4.5
"""

import gzip
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from mintscope.edges.server.request import Request
from mintscope.edges.server.response import AnyResponse, Header, Response

BODY_BYTES_MIN: Final = 1_000
LEVEL: Final = 4  # higher ones take twice the time for a hundredth of the size
LEVEL_OF_FILES: Final = 9  # of what is compressed once and sent for ever
GZIP: Final[Header] = (b"content-encoding", b"gzip")
VARY: Final[Header] = (b"vary", b"Accept-Encoding")
PACKED: Final[frozenset[Header]] = frozenset(
    ((b"content-type", b"application/zip"), (b"content-type", b"application/gzip"))
)
CONTENT: Final = {b"content-type", b"content-length", b"content-encoding"}


def finish(request: Request, response: AnyResponse) -> AnyResponse:
    """Return what is sent of *response*: nothing that the client has, and less where it can be."""
    if isinstance(response, Response):
        is_negotiable = len(response.body) >= BODY_BYTES_MIN and PACKED.isdisjoint(response.headers)
        if is_negotiable:
            response.headers += (VARY,)  # of a 304 as well: RFC 9110, section 15.4.5
        if response.etag:
            response = conditional(request, response)
        if is_negotiable and response.body:
            negotiate(request, response)
    return response


def version_of(body: bytes) -> str:
    """Return a short name of the content *body*: 12 characters that need no quoting."""
    return urlsafe_b64encode(sha256(body).digest()[:9]).decode()


def etag_of(body: bytes) -> bytes:
    """Return the entity tag of *body*; weak, so that it is also that of its compressed form."""
    return b'W/"%b"' % version_of(body).encode()


def conditional(request: Request, response: Response) -> Response:
    """Return *response*, or 304 if *request* names its content in If-None-Match."""
    response.headers += ((b"etag", response.etag),)
    if not is_known(request, response.etag):
        return response
    headers = tuple(header for header in response.headers if header[0] not in CONTENT)
    return Response(304, headers=headers)


def is_known(request: Request, etag: bytes) -> bool:
    """Say whether *request* names *etag*, or anything, in If-None-Match."""
    opaque = etag.removeprefix(b"W/").decode()
    return any(
        tag.strip() == "*" or tag.strip().removeprefix("W/") == opaque
        for value in request.values(b"if-none-match")
        for tag in value.split(",")
    )


def compress(body: bytes, level: int = LEVEL) -> bytes | None:
    """Return *body* compressed; None where that is not worth it."""
    return gzip.compress(body, level, mtime=0) if len(body) >= BODY_BYTES_MIN else None


def negotiate(request: Request, response: Response) -> None:
    """Compress the body of *response* if *request* accepts that.

    Nothing is compressed for a session: beside what an address makes the page repeat, the length
    would reveal the secrets of the page bit by bit (BREACH).  Content compressed before has none.
    """
    if not _accepts_gzip(request.value(b"accept-encoding")):
        return
    gzipped = response.gzipped
    if gzipped is None and b"cookie" not in request.headers:
        gzipped = compress(response.body)
    if gzipped is not None:
        response.body = gzipped
        response.headers += (GZIP,)


def _accepts_gzip(accepted: str) -> bool:
    """Say whether *accepted*, an Accept-Encoding header, names gzip, or any encoding."""
    weights = {}
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        weight = parameter.strip().removeprefix("q=")
        weights[name.strip()] = weight.rstrip("0").rstrip(".") not in {"0", ""} or not parameter
    return weights.get("gzip", weights.get("*", False))
