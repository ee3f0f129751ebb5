"""The operations of the API: its routes, with what their documentation tells."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from mintscope.base.errors import ErrorCode
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat
from mintscope.edges.server.routes import Route


class Query(NamedTuple):
    """A field of the query, required, one of so many integers."""

    name: str
    summary: str
    choices: Sequence[int]


@dataclass(frozen=True, slots=True)
class Operation(Route):
    """A route of the API, and what OpenAPI tells of it.

    data           the type of the envelope's data, or of a body without envelope
    summary        what it is for
    refusals       the codes a client must expect, besides those of every route
    status         of its success
    proofs         what it may be called with, as names of PROOFS in `openapi`; each an
                   alternative, none for a route that is open to everyone
    body           the type of the request's body
    error_format   what its failures look like; there is an envelope where they have one
    """

    data: type[Any]
    summary: str
    _: KW_ONLY
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    query: tuple[Query, ...] = ()
    body: Any = None
    error_format: ErrorFormat = ENVELOPE

    @property
    def path_param(self) -> str | None:
        """The name of the variable segment."""
        _, brace, name = self.path.partition("/{")
        return name[:-1] if brace else None
