"""The description of a product in a demand for payment, for directories of services."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

DESCRIPTION_LENGTH_MAX: Final = 500


class Advert(msgspec.Struct, frozen=True, kw_only=True):
    """The product and its seller; a payment is bound by its quote alone.

    service_name    at most 32 ASCII characters
    tags            at most 5, of at most 32 ASCII characters
    bazaar          x402's extension of that name: how to ask, and if it is whole, what is answered
    """

    description: str
    service_name: str
    tags: Sequence[str]
    icon_url: str | None
    bazaar: dict[str, Any]
