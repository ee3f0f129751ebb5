"""The fields of a body under /api."""

from collections.abc import Mapping

from mintscope.base.errors import FieldMessage, InvalidFields
from mintscope.edges.api.failures import GENERAL
from mintscope.edges.server.json_body import UnreadableBody, parse_object
from mintscope.edges.server.request import Request


async def read_fields(request: Request) -> Mapping[str, object]:
    """Return the fields of the body, one JSON object.  Raises InvalidFields, PayloadTooLarge."""
    try:
        return parse_object(request, await request.body())
    except UnreadableBody as flaw:
        raise InvalidFields([FieldMessage(GENERAL, str(flaw))]) from flaw
