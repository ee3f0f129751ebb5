"""The body of a request, as the struct that describes it says."""

from typing import TypeVar

from mintscope.base.errors import BadRequest
from mintscope.edges.api.wire import Wire
from mintscope.edges.server.json_body import UnreadableBody, parse_shape
from mintscope.edges.server.request import Request

T = TypeVar("T", bound=Wire)


async def read_body(request: Request, shape: type[T]) -> T:
    """Return the body of *request* as *shape*.  Raises BadRequest, PayloadTooLarge."""
    try:
        return parse_shape(request, await request.body(), shape)
    except UnreadableBody as flaw:
        raise BadRequest(str(flaw)) from flaw
