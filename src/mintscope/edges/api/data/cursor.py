"""Where a page of a list ends, as one opaque text: the next page is asked for with it."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, TypeVar

import msgspec

from mintscope.base.errors import BadRequest
from mintscope.base.foreign import UNPARSABLE

TEXT_MAX: Final = 512
INTEGERS: Final = 2**63
EXPECTED: Final = "cursor: expected the nextCursor of an answer to the same request"

Position = TypeVar("Position", bound=msgspec.Struct)


def encode_cursor(position: msgspec.Struct) -> str:
    """Return *position*, the last line of a page, as a text for the query."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(text: str, shape: type[Position]) -> Position:
    """Return the position that *text* stands for.

    shape    with `tag`, so that the cursor of one list is not taken for that of another
    Raises   BadRequest
    """
    if len(text) > TEXT_MAX:
        raise BadRequest(EXPECTED)
    try:  # it may have more "=" than it needs
        read = msgspec.json.decode(urlsafe_b64decode(text + "=="), type=shape)
    except (ValueError, *UNPARSABLE) as cause:
        raise BadRequest(EXPECTED) from cause
    # Stores know no larger integers, and positions hold numbers that are in a store.
    numbers = (value for value in msgspec.structs.astuple(read) if isinstance(value, int))
    if not all(-INTEGERS <= number < INTEGERS for number in numbers):
        raise BadRequest(EXPECTED)
    return read
