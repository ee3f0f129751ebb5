"""Routes: one endpoint for one method of one path, taken literally.

No redirects and no patterns beside variable segments: an endpoint that is paid for runs for
exactly the request it was made for.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from mintscope.base.errors import MethodNotAllowed, NotFound
from mintscope.edges.server.request import NO_PARAMS, Request
from mintscope.edges.server.response import AnyResponse

Endpoint = Callable[[Request], Awaitable[AnyResponse]]
SEGMENT: Final = "[^/]+"


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint.

    path         segments in braces are variable: `/reset/{link}`; none spans a slash
    is_charged   its success is paid for: there is no HEAD, and no time is spent on compression
    takes_websocket  a WebSocket may be opened there: its pushed body becomes messages
    limits_itself  its endpoint counts its requests, by credential where there is one; all other
                 routes are counted by address before their endpoint runs
    """

    method: str
    path: str
    endpoint: Endpoint
    is_charged: bool = field(default=False, kw_only=True)
    limits_itself: bool = field(default=False, kw_only=True)
    takes_websocket: bool = field(default=False, kw_only=True)


R = TypeVar("R", bound=Route)
Methods = Mapping[str, R]


class Router(Generic[R]):
    """All routes, found by method and path: literal paths before variable ones.

    segment   the pattern of a variable segment; by default any text
    """

    def __init__(self, routes: Iterable[R], segment: str = SEGMENT) -> None:
        self._segment = segment
        self._by_path: dict[str, dict[str, R]] = {}
        self._literal: dict[str, dict[str, R]] = {}
        # By what stands before a variable segment that is the last, and any text: the paid path.
        self._last: dict[str, tuple[str, dict[str, R]]] = {}
        # By what stands before the first variable segment.
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
        """Return the route for a request, and the texts of the variable segments.

        Raises NotFound, or MethodNotAllowed for a path that has other methods.
        """
        methods, path_params = self._match(path)
        if methods is None:
            raise NotFound
        route = methods.get(method)
        if route is None:
            raise MethodNotAllowed(allowed=", ".join(sorted(methods)))
        return route, path_params

    def __contains__(self, path: str) -> bool:
        """Say whether there is a route at *path*, by any method."""
        return self._match(path)[0] is not None

    def __iter__(self) -> Iterator[R]:
        """Yield every route, once for each of its methods but HEAD."""
        for methods in self._by_path.values():
            for method, route in methods.items():
                if method == route.method:
                    yield route

    def methods(self, path: str) -> Methods[R] | None:
        """Return the routes at *path* by method; None if there are none."""
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
