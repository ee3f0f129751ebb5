"""Decodes untrusted JSON and base64; every unexpected form raises the same error."""

from base64 import b64decode
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

# Errors of parsing: invalid JSON or an unexpected shape, invalid UTF-8, nesting that is too deep.
UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Undecodable(ValueError):
    """Input from outside has an unexpected form; the message names the problem."""


def decode_json(text: "bytes | msgspec.Raw", decoder: "msgspec.json.Decoder[T]") -> T:
    """Return the decoded JSON *text*.  Raises no exception except Undecodable."""
    try:
        return decoder.decode(text)
    except UNPARSABLE as cause:
        raise Undecodable(str(cause)) from cause


def decode_base64(text: str) -> bytes:
    """Return the bytes that *text* encodes in standard base64.  Raises Undecodable."""
    try:
        return b64decode(text, validate=True)
    except ValueError as cause:
        raise Undecodable(f"expected standard base64; {cause}") from cause


def visible(text: str) -> str:
    """Return *text* with an escape for each unprintable character, such as a control character."""
    return "".join(sign if sign.isprintable() else _number(sign) for sign in text)


def _number(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
