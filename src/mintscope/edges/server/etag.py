"""Entity tags: a client that has the content already is told so, without a body.

Source    RFC 9110, sections 8.8.3 and 13.1.2
"""

from base64 import urlsafe_b64encode
from hashlib import sha256

from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

CONTENT = {b"content-type", b"content-length", b"content-encoding"}


def version_of(body: bytes) -> str:
    """Return a short name of the content *body*: 12 characters that need no quoting."""
    return urlsafe_b64encode(sha256(body).digest()[:9]).decode()


def etag_of(body: bytes) -> bytes:
    """Return the entity tag of *body*; weak, so that it is also that of its compressed form."""
    return b'W/"%b"' % version_of(body).encode()


def conditional(request: Request, response: Response) -> Response:
    """Return *response*, or 304 if *request* names its content in If-None-Match."""
    response.headers += ((b"etag", response.etag),)
    if not _is_known(request, response.etag):
        return response
    headers = tuple(header for header in response.headers if header[0] not in CONTENT)
    return Response(304, headers=headers)


def _is_known(request: Request, etag: bytes) -> bool:
    opaque = etag.removeprefix(b"W/").decode()
    return any(
        tag.strip() == "*" or tag.strip().removeprefix("W/") == opaque
        for value in request.values(b"if-none-match")
        for tag in value.split(",")
    )
