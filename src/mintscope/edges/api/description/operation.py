"""The operations of the API: routes, and what programs are told of them."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import msgspec

from mintscope.base.errors import ErrorCode
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat
from mintscope.edges.server.routes import Route

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Operation(Route):
    """A route of the API, and what OpenAPI tells of it.

    data           the type of the envelope's data, or of a body without envelope
    summary        what it is for
    refusals       the codes a client must expect, besides those of every route
    status         of its success
    proofs         what it may be called with, as names of PROOFS; each an
                   alternative, none for a route that is open to everyone
    query          the shape of its query, as `data.query.read_query` reads it
    body           the type of the request's body
    media_type     of its success; what is not JSON has no envelope
    error_format   what its failures look like; there is an envelope where they have one

    Operations count their requests themselves: by credential, or by address.
    """

    data: type[Any]
    summary: str
    _: KW_ONLY
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    query: type[msgspec.Struct] | None = None
    body: Any = None
    media_type: str = JSON_TYPE
    error_format: ErrorFormat = ENVELOPE
    limits_itself: bool = True

    @property
    def path_param(self) -> str | None:
        """The name of the variable segment."""
        _, brace, rest = self.path.partition("/{")
        return rest.partition("}")[0] if brace else None
