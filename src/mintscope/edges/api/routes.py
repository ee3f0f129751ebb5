"""The route table: one handler for one method of one path, taken literally.

No redirects, no HEAD beside GET, no patterns: a paid handler runs for exactly
the request it was made for.  A path may end in one variable segment.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mintscope.base.errors import ErrorCode, MethodNotAllowed, NotFound
from mintscope.edges.api.failures import ENVELOPE, Failing
from mintscope.edges.server.request import Request, Response

Handler = Callable[[Request], Awaitable[Response]]


class Query(NamedTuple):
    """A field of the query, required, one of so many integers."""

    name: str
    summary: str
    choices: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row.

    path                may end in one `{parameter}`
    data                the type of the envelope's data; None for an answer without envelope
    refusals            the codes a client must expect, besides those of every route
    status              of its success
    proofs              what it may be called with, as names of PROOFS in `openapi`; each an
                        alternative, none for a route that is open to everyone
    is_charged          its success costs a credit or a payment
    body                the type of its body
    answer              the type of its whole answer, where that is no envelope
    failing             what its failures look like
    """

    method: str
    path: str
    handler: Handler
    summary: str
    data: Any
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    is_charged: bool = False
    query: tuple[Query, ...] = ()
    body: Any = None
    answer: Any = None
    failing: Failing = ENVELOPE

    @property
    def parameter(self) -> str | None:
        """The name of the variable segment."""
        _, brace, name = self.path.partition("/{")
        return name[:-1] if brace else None


class Match(NamedTuple):
    """A row that fits a request, and the text of its variable segment."""

    route: Route
    parameter: str


class Table:
    """All rows, found by method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._open: dict[str, dict[str, Route]] = {}  # by what stands before the last slash
        for route in routes:
            before, brace, _ = route.path.partition("/{")
            rows = self._open if brace else self._fixed
            rows.setdefault(before, {})[route.method] = route

    def find(self, method: str, path: str) -> Match:
        """Return the row for a request.

        Raises NotFound, or MethodNotAllowed for a path that has other methods.
        """
        rows, parameter = self._rows(path)
        if rows is None:
            raise NotFound
        route = rows.get(method)
        if route is None:
            raise MethodNotAllowed(allowed=", ".join(rows))
        return Match(route, parameter)

    def failing(self, path: str) -> Failing:
        """Return what failures at *path* look like, whatever the method."""
        rows, _ = self._rows(path)
        return ENVELOPE if rows is None else next(iter(rows.values())).failing

    def _rows(self, path: str) -> tuple[dict[str, Route] | None, str]:
        rows = self._fixed.get(path)
        if rows is not None:
            return rows, ""
        before, _, parameter = path.rpartition("/")
        return self._open.get(before) if parameter else None, parameter
