"""Routes: one endpoint for one method of one path, taken literally.

No redirects and no patterns beside variable segments: an endpoint that is paid for runs for
exactly the request it was made for.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mintscope.base.errors import MethodNotAllowed, NotFound
from mintscope.edges.server.request import NO_PARAMS, Request
from mintscope.edges.server.response import AnyResponse

Endpoint = Callable[[Request], Awaitable[AnyResponse]]
SEGMENT: Final = re.compile(r"[^/]+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One endpoint.

    path         segments in braces are variable: `/reset/{link}`; none spans a slash
    is_charged   its success is paid for: there is no HEAD, and no time is spent on compression
    """

    method: str
    path: str
    endpoint: Endpoint
    is_charged: bool = False


R = TypeVar("R", bound=Route)
Methods = Mapping[str, R]


class Router(Generic[R]):
    """All routes, found by method and path: literal paths before variable ones.

    segment   what a variable segment must be; by default any text
    """

    def __init__(self, routes: Iterable[R], segment: re.Pattern[str] = SEGMENT) -> None:
        self._segment = segment
        self._by_path: dict[str, dict[str, R]] = {}
        self._literal: dict[str, dict[str, R]] = {}
        self._variable: dict[str, list[tuple[list[str], dict[str, R]]]] = {}  # by literal start
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

    def methods(self, path: str) -> Methods[R] | None:
        """Return the routes at *path* by method; None if there are none."""
        return self._match(path)[0]

    def _add_path(self, path: str) -> None:
        start, brace, rest = path.partition("/{")
        methods: dict[str, R] = {}
        self._by_path[path] = methods
        if brace:
            segments = f"{{{rest}".split("/")
            self._variable.setdefault(start, []).append((segments, methods))
        else:
            self._literal[path] = methods

    def _match(self, path: str) -> tuple[Methods[R] | None, Mapping[str, str]]:
        methods = self._literal.get(path)
        if methods is not None:
            return methods, NO_PARAMS
        start = path
        while start:
            start = start.rpartition("/")[0]
            for segments, found in self._variable.get(start, ()):
                path_params = self._params(segments, path[len(start) + 1 :])
                if path_params is not None:
                    return found, path_params
        return None, NO_PARAMS

    def _params(self, segments: list[str], rest: str) -> dict[str, str] | None:
        texts = rest.split("/")
        if len(texts) != len(segments):
            return None
        path_params = {}
        for segment, text in zip(segments, texts, strict=True):
            if segment[0] == "{":
                if self._segment.fullmatch(text) is None:
                    return None
                path_params[segment[1:-1]] = text
            elif segment != text:
                return None
        return path_params
