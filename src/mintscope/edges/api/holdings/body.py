"""The body of a request, as the struct that describes it says."""

from typing import TypeVar

import msgspec

from mintscope.base.errors import BadRequest
from mintscope.edges.api.wire import Wire
from mintscope.edges.server.json_body import UnreadableBody, parse_object
from mintscope.edges.server.request import Request

T = TypeVar("T", bound=Wire)


async def read_body(request: Request, shape: type[T]) -> T:
    """Return the body of *request* as *shape*.  Raises BadRequest, PayloadTooLarge."""
    try:
        return msgspec.convert(parse_object(request, await request.body()), shape)
    except (UnreadableBody, msgspec.ValidationError) as flaw:
        raise BadRequest(f"body: {flaw}") from flaw
