"""The route table of the pages: one handler for one method of one path, taken literally."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, NamedTuple, Protocol

from mintscope.base.errors import MethodNotAllowed, NotFound
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.pages.reply import Reply

# Nothing that needs quoting in an address, and no dot segment: browsers take those for steps.
SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]{1,128}")

Handler = Callable[[Visit], Awaitable[Reply]]


class Access(IntEnum):
    """Who gets to a handler; each includes those before it.

    ANYONE         forms are checked by their origin alone
    SIGNED_IN      a session; forms carry its `csrf`. Others are sent to sign in
    FRESH          and the password was entered in the last ten minutes, else it is asked for
    """

    ANYONE = 0
    SIGNED_IN = 1
    FRESH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row.

    path              segments in braces are variable: `/reset/{link}`; none spans a slash
    is_administration only administrators know of it: to others there is nothing
    """

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    access: Access = Access.ANYONE
    is_administration: bool = False


class Pages(Protocol):
    """A group of pages: one module each."""

    def routes(self) -> Iterable[Route]:
        """Return its rows."""
        ...


class Match(NamedTuple):
    """A row that fits a request, and the texts of its variable segments."""

    route: Route
    parameters: dict[str, str]


class Table:
    """All rows, found by method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._rows: dict[str, dict[str, Route]] = {}
        self._lengths: dict[int, list[tuple[str, list[str]]]] = {}
        for route in routes:
            rows = self._rows.setdefault(route.path, {})
            assert route.method not in rows, f"{route.method} {route.path} is there twice"
            if not rows:
                segments = route.path.split("/")
                self._lengths.setdefault(len(segments), []).append((route.path, segments))
            rows[route.method] = route

    def find(self, method: str, path: str) -> Match:
        """Return the row for a request; HEAD is answered by what answers GET.

        Raises NotFound, or MethodNotAllowed for a path that has other methods.
        """
        pattern, parameters = self._pattern(path)
        rows = self._rows[pattern]
        route = rows.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = [*rows, "HEAD"] if "GET" in rows else [*rows]
            raise MethodNotAllowed(allowed=", ".join(sorted(allowed)))
        return Match(route, parameters)

    def has_page(self, path: str) -> bool:
        """Say whether *path* is that of a page."""
        try:
            self.find("GET", path)
        except (NotFound, MethodNotAllowed):
            return False
        return True

    def _pattern(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the path of the rows that *path* fits, literal ones before variable ones."""
        if path in self._rows and "{" not in path:
            return path, {}
        segments = path.split("/")
        for pattern, expected in self._lengths.get(len(segments), []):
            pairs = list(zip(expected, segments, strict=True))
            if all(_fits(want, has) for want, has in pairs):
                return pattern, {want[1:-1]: has for want, has in pairs if _is_variable(want)}
        raise NotFound


def _fits(expected: str, segment: str) -> bool:
    if _is_variable(expected):
        return SEGMENT.fullmatch(segment) is not None
    return segment == expected


def _is_variable(segment: str) -> bool:
    return segment.startswith("{")
