"""Route table and CORS.

There are no redirects, and only whole segments can be variable: a paid endpoint runs for exactly
its own path.

Source    https://fetch.spec.whatwg.org/#http-cors-protocol
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from mintscope.kit.errors import MethodNotAllowed, NotFound
from mintscope.kit.http.request import NO_PARAMS, Request
from mintscope.kit.http.response import AnyResponse, Header, Response

Endpoint = Callable[[Request], Awaitable[AnyResponse]]
SEGMENT: Final = "[^/]+"


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, and the endpoint that answers them.

    limits_itself    whether the endpoint itself counts its requests, by credential if there is one;
                     if False, they are counted by address before the endpoint runs
    takes_websocket  whether a client may open a WebSocket, over which the pushed body is sent
                     as messages
    """

    method: str
    path: str  # segments in braces are variable: `/reset/{link}`
    endpoint: Endpoint
    is_charged: bool = field(default=False, kw_only=True)  # no HEAD, no compression
    limits_itself: bool = field(default=False, kw_only=True)
    takes_websocket: bool = field(default=False, kw_only=True)


R = TypeVar("R", bound=Route)
Methods = Mapping[str, R]


class Router(Generic[R]):
    """Finds the route of a request; a path without variable segments is preferred to one with them.

    segment   the regular expression that the text in the place of a variable segment must match
    """

    def __init__(self, routes: Iterable[R], segment: str = SEGMENT) -> None:
        self._segment = segment
        self._by_path: dict[str, dict[str, R]] = {}
        self._literal: dict[str, dict[str, R]] = {}
        # Paths whose only variable segment is the last one, such as the paid path, by the text
        # before the last segment.
        self._last: dict[str, tuple[str, dict[str, R]]] = {}
        # All other paths with variable segments, by the text before the first variable segment.
        self._variable: dict[str, list[tuple[re.Pattern[str], dict[str, R]]]] = {}
        for route in routes:
            if route.path not in self._by_path:
                self._add_path(route.path)
            methods = self._by_path[route.path]
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route
            if route.method == "GET" and not route.is_charged:
                methods["HEAD"] = route

    def find(self, method: str, path: str) -> tuple[R, Mapping[str, str]]:
        """Return the route of *method* and *path*, and its variable segments by name.

        Raises NotFound, or MethodNotAllowed if the path has only other methods.
        """
        methods, path_params = self._match(path)
        if methods is None:
            raise NotFound
        route = methods.get(method)
        if route is None:
            raise MethodNotAllowed(allowed=", ".join(sorted(methods)))
        return route, path_params

    def __contains__(self, path: str) -> bool:
        """Return whether *path* has a route with any method."""
        return self._match(path)[0] is not None

    def __iter__(self) -> Iterator[R]:
        """Yield every route once."""
        for methods in self._by_path.values():
            for method, route in methods.items():
                if method == route.method:
                    yield route

    def methods(self, path: str) -> Methods[R] | None:
        """Return the routes at *path* by method; None if *path* has none."""
        return self._match(path)[0]

    def _add_path(self, path: str) -> None:
        start, brace, _ = path.partition("/{")
        methods: dict[str, R] = {}
        self._by_path[path] = methods
        if not brace:
            self._literal[path] = methods
            return
        name, brace, rest = path.removeprefix(f"{start}/{{").partition("}")
        if not rest and self._segment == SEGMENT:
            assert start not in self._last, f"{path} is there by another name"
            self._last[start] = name, methods
            return
        pattern = re.sub(r"\\{(\w+)\\}", rf"(?P<\1>{self._segment})", re.escape(path))
        self._variable.setdefault(start, []).append((re.compile(pattern), methods))

    def _match(self, path: str) -> tuple[Methods[R] | None, Mapping[str, str]]:
        methods = self._literal.get(path)
        if methods is not None:
            return methods, NO_PARAMS
        start, _, text = path.rpartition("/")
        if text and start in self._last:
            name, methods = self._last[start]
            return methods, {name: text}
        start = path
        while start:
            start = start.rpartition("/")[0]
            for pattern, found in self._variable.get(start, ()):
                match = pattern.fullmatch(path)
                if match is not None:
                    return found, match.groupdict()
        return None, NO_PARAMS


PREFLIGHT_AGE_S: Final = 86_400


class Cors:
    """Allows web pages of every origin to read some paths, without cookies."""

    def __init__(
        self,
        *,
        paths: Sequence[str],  # prefixes of the open paths
        methods: Sequence[str],  # methods that a page may use
        request_headers: Sequence[str],  # headers that a page may send
        exposed: Sequence[str],  # response headers that a page may read
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
        """Return the response to a CORS preflight request for an open path; None for others."""
        if (
            request.method != "OPTIONS"
            or b"access-control-request-method" not in request.headers
            or not self._is_open(request.path)
        ):
            return None
        return Response(204, headers=self._preflight)

    def headers(self, path: str) -> tuple[Header, ...]:
        """Return the headers that let web pages read a response of *path*; none if they may not."""
        return self._open if self._is_open(path) else ()

    def _is_open(self, path: str) -> bool:
        return path.startswith(self._paths)
