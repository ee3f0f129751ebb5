"""Compression of bodies, where the client accepts it.

Source    RFC 9110, section 12.5.3
"""

import gzip
from typing import Final

from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header, Response

BODY_BYTES_MIN: Final = 1_000
LEVEL: Final = 4  # higher ones take twice the time for a hundredth of the size
GZIP: Final[Header] = (b"content-encoding", b"gzip")
VARY: Final[Header] = (b"vary", b"Accept-Encoding")


def compress(body: bytes) -> bytes | None:
    """Return *body* compressed; None where that is not worth it."""
    if len(body) < BODY_BYTES_MIN:
        return None
    return gzip.compress(body, LEVEL, mtime=0)


def negotiate(request: Request, response: Response) -> None:
    """Compress the body of *response* if *request* accepts that.

    Nothing is compressed for a session: beside what an address makes the page repeat, the length
    would tell the secrets of the page bit by bit (BREACH).  What was compressed before has none.
    """
    response.headers += (VARY,)
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
