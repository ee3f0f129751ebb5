"""The operations of the API: its routes, with what their documentation tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mintscope.base.errors import ErrorCode
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat
from mintscope.edges.server.routes import Route


class Query(NamedTuple):
    """A field of the query, required, one of so many integers."""

    name: str
    summary: str
    choices: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Route):
    """A route of the API, and what OpenAPI tells of it.

    data                the type of the envelope's data; None for a body without envelope
    refusals            the codes a client must expect, besides those of every route
    status              of its success
    proofs              what it may be called with, as names of PROOFS in `openapi`; each an
                        alternative, none for a route that is open to everyone
    body                the type of its body
    whole_body          the type of its whole body, where that is no envelope
    error_format        what its failures look like
    """

    summary: str
    data: Any
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    query: tuple[Query, ...] = ()
    body: Any = None
    whole_body: Any = None
    error_format: ErrorFormat = ENVELOPE

    @property
    def path_param(self) -> str | None:
        """The name of the variable segment."""
        _, brace, name = self.path.partition("/{")
        return name[:-1] if brace else None
