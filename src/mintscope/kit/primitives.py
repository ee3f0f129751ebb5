"""The basic types of all modules, and the functions that make them from text.

Only valid values have one of these types, so code that receives them does not check them again.

Units
-----
UnixS      seconds since 1970-01-01T00:00:00Z, integer (block times, buckets).
UnixMs     milliseconds since the same time, integer (clocks).
Amounts of tokens are integers in the smallest unit of their mint, volumes are
integers of micro-USD, prices are floats per whole token.
"""

from typing import Annotated, Final, NewType

from based58 import b58decode
from msgspec import Meta

from mintscope.kit.errors import InvalidTokenAddress

Mint = NewType("Mint", str)
Signature = NewType("Signature", str)
Wallet = NewType("Wallet", str)
Slot = NewType("Slot", int)
UnixS = NewType("UnixS", int)
UnixMs = NewType("UnixMs", int)
CreditAccount = NewType("CreditAccount", int)  # an account that exists in the ledger

MICRO_USD: Final = 1_000_000  # micro-USD in a dollar
MINT_LENGTH_MIN = 32
MINT_LENGTH_MAX = 44
PUBKEY_BYTES = 32


def parse_mint(text: str) -> Mint:
    """Return *text* as a Mint.

    Raises InvalidTokenAddress unless *text* is the base58 form of 32 bytes:
    the length is not sufficient, because 44 characters can encode 33 bytes.
    """
    if not MINT_LENGTH_MIN <= len(text) <= MINT_LENGTH_MAX or not text.isascii():
        raise InvalidTokenAddress(text)
    try:
        decoded = b58decode(text.encode())
    except ValueError:
        raise InvalidTokenAddress(text) from None
    if len(decoded) != PUBKEY_BYTES:
        raise InvalidTokenAddress(text)
    return Mint(text)


# Visible characters and spaces, with at least one visible character.
PRINTABLE: Final = r"^ *[^\p{C}\p{Z}](?:[^\p{C}\p{Z}]| )*$"


ONE_AT_LEAST: Final = "x-one-at-least"  # true: the object in this field has at least one field
INSTEAD_OF: Final = "x-instead-of"  # the field that is absent if this one is present
ON_REQUEST: Final = "x-on-request"  # true: the field is present only on request, and in no example


def about(
    description: str, *examples: object, form: str | None = None, instead_of: str = ""
) -> Meta:
    """Return the description of a field for `Annotated`: its meaning with its unit, and examples.

    form         the JSON Schema `format` of a text; None: no format
    instead_of   the JSON name of the field that is absent if this one is present; "": no field
    """
    more = {} if form is None else {"format": form}
    if instead_of:
        more[INSTEAD_OF] = instead_of
    return Meta(
        description=description, examples=list(examples) or None, extra_json_schema=more or None
    )


def on_request(description: str) -> Meta:
    """Return the description of a field that is present only if it is requested."""
    return Meta(description=description, extra_json_schema={ON_REQUEST: True})


# Formats that JSON Schema does not define: base58 of 32 bytes, and of 64 bytes.
ADDRESS: Final = "solana-address"
SIGNATURE: Final = "solana-signature"
EACH_ONCE: Final = {"uniqueItems": True}
AddressText = Annotated[str, Meta(extra_json_schema={"format": ADDRESS})]
