"""Input from outside is data: bytes of an unexpected form are one error, always.

Nodes, price feeds, sellers and files may send anything: text that is not UTF-8, JSON nested
without end, numbers that do not fit, invalid base64, signs that command a terminal.
"""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

# Errors of parsing: bad JSON or shape, bad UTF-8, nesting without end.
UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

PANIC: Final = "PanicException"  # of pyo3, which makes one class for each library


class Undecodable(ValueError):
    """Input from outside has an unexpected form; the message names the problem."""


def decode_json(text: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return what *text* holds.  Raises Undecodable, whatever the text, and nothing else."""
    try:
        return decoder.decode(text)
    except UNPARSABLE as cause:
        raise Undecodable(str(cause)) from cause


@contextmanager
def parsed_by_others() -> Iterator[None]:
    """Raise Undecodable for any error that a library raises at the bytes of strangers.

    A library documents some of its errors; made-up input finds others.  A panic of one that is
    written in Rust is no Exception, and would end the task that called it.
    """
    try:
        yield
    except Exception as cause:
        raise Undecodable(f"{type(cause).__name__}: {cause}") from cause
    except BaseException as cause:
        if type(cause).__name__ != PANIC:
            raise
        raise Undecodable(f"{PANIC}: {cause}") from cause


def decode_base64(text: str) -> bytes:
    """Return the bytes that *text* spells in standard base64.  Raises Undecodable."""
    try:
        return b64decode(text, validate=True)
    except ValueError as cause:
        raise Undecodable(f"expected standard base64; {cause}") from cause


def visible(text: str, *, keep: str = "") -> str:
    """Return *text* with its control, bidirectional and hidden characters shown, but not *keep*."""
    return "".join(sign if sign.isprintable() or sign in keep else _number(sign) for sign in text)


def _number(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
