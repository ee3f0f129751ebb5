"""Reading a JSON body: one object, sent as such, that says each thing once."""

import json
from collections.abc import Mapping, Sequence
from math import isinf
from typing import Any, Final

import msgspec

from mintscope.edges.server.request import Request

DEPTH_MAX: Final = 8
EXACT: Final = 1 << 53  # below it no two integers are the same float
TRUNCATED: Final = "truncated"  # what msgspec says of JSON that ends too soon


class UnreadableBody(Exception):
    """The body is no such object; the message says what was expected and what was there."""


def parse_object(request: Request, body: bytes) -> Mapping[str, object]:
    """Return the fields of *body*, that of *request*: one JSON object.  Raises UnreadableBody."""
    kind = ", ".join(request.values(b"content-type"))
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise UnreadableBody(f"expected Content-Type: application/json; was {kind[:50]!r}")
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as flaw:
        raise UnreadableBody(f"expected a JSON object; the body is {_flaw(body, flaw)}") from None
    except RecursionError:
        raise UnreadableBody(f"expected JSON at most {DEPTH_MAX} deep") from None
    if _is_deeper(value, DEPTH_MAX):
        raise UnreadableBody(f"expected JSON at most {DEPTH_MAX} deep")
    if not isinstance(value, dict):
        raise UnreadableBody("expected a JSON object; the body is another JSON value")
    json.loads(body, object_pairs_hook=_expect_each_once)
    return value


def _number(text: str) -> float:
    """Return the number that *text* stands for: 200.0 and 2e2 are integers in JSON, too."""
    value = float(text)
    if isinf(value):
        raise UnreadableBody(f"expected numbers of at most 64 bits; was {text[:50]}")
    return int(value) if value.is_integer() and abs(value) < EXACT else value


_DECODER: Final = msgspec.json.Decoder(float_hook=_number)


def _flaw(body: bytes, flaw: Exception) -> str:
    if not body:
        return "empty"
    return "not complete JSON" if TRUNCATED in str(flaw) else "not JSON"


def _expect_each_once(pairs: Sequence[tuple[str, Any]]) -> None:
    """Refuse an object that says one thing twice: parsers differ in which one they believe."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise UnreadableBody("expected each field once; one is there twice")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)
