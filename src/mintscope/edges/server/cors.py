"""CORS: which responses a browser shows to pages of other origins.

Source    https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from collections.abc import Sequence
from typing import Final

from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header, Response

PREFLIGHT_AGE_S: Final = 86_400


class Cors:
    """Opens paths to every origin, without cookies.

    paths     what the open paths begin with
    methods   and request_headers: what a page may send
    exposed   the response headers that a page may read
    """

    def __init__(
        self,
        *,
        paths: Sequence[str],
        methods: Sequence[str],
        request_headers: Sequence[str],
        exposed: Sequence[str],
    ) -> None:
        self._paths = tuple(paths)
        self._open: tuple[Header, ...] = (
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", ", ".join(exposed).encode()),
        )
        self._preflight: tuple[Header, ...] = (
            (b"access-control-allow-methods", ", ".join(methods).encode()),
            (b"access-control-allow-headers", ", ".join(request_headers).encode()),
            (b"access-control-max-age", b"%d" % PREFLIGHT_AGE_S),
        )

    def preflight(self, request: Request) -> Response | None:
        """Return the answer to a browser that asks first; None for any other request."""
        if (
            request.method != "OPTIONS"
            or b"access-control-request-method" not in request.headers
            or not self._is_open(request.path)
        ):
            return None
        return Response(204, headers=self._preflight)

    def headers(self, path: str) -> tuple[Header, ...]:
        """Return the headers that let a page read the response to a request for *path*."""
        return self._open if self._is_open(path) else ()

    def _is_open(self, path: str) -> bool:
        return path.startswith(self._paths)
