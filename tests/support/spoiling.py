"""Faulty answers of nodes: answers that are unreadable, and readable answers with wrong content."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any, Final

DEEP: Final = b"[" * 100_000 + b"]" * 100_000
# Each function turns a valid answer into an unreadable one.
RUINED: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "bytes that are no UTF-8": lambda good: good.replace(b':"', b':"\xff') + b'"\xff"',
    "text that is no UTF-8": lambda good: good.replace(b':"', b':"\xff', 9),
    "text of half a character": lambda good: good.replace(b':"', b':"\xed\xa0\x80'),
    "UTF-16": lambda good: good.decode().encode("utf-16"),
    "half a body": lambda good: good[: len(good) // 2],
    "HTML": lambda _: b"<html>busy</html>",
    "nothing": lambda _: b"",
    "no end of nesting": lambda good: b'{"deep":' + DEEP + b"," + good[1:],
    "a result without end of nesting": lambda _: b'{"result": ' + DEEP + b"}",
    "a number that does not fit": lambda _: b'{"error": {"code": 1e400}}',
    "a very long number": lambda _: b'{"error": {"code": ' + b"9" * 5_000 + b"}}",
    "a lone surrogate": lambda _: b'{"error": {"code": 1, "message": "\\ud800"}}',
    "another version": lambda _: b'{"result": {"value": {"value": {"err": []}}}}',
    "a list": lambda _: b"[1, 2]",
    "an empty object": lambda _: b"{}",
}
ODD: Final[tuple[Any, ...]] = (
    *(-(2**63), -1, 0, 1, 255, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 2**80, 10**400),
    *(None, True, False, 0.5, 1e308, float("nan"), float("inf"), [], {}, [0], [[]], {"": {}}),
    *("", "1", "0OIl", "z" * 44, "z" * 700, "=", "AAAA", "AA=A", "\ud800", "\0", "\u00e9"),
)
PIECES: Final = (b"", b"\0", b"\xff", b"[", b"{", b'"', b"[" * 2_000, b"1e400", b"\xed\xa0\x80")


def spoil(answer: bytes, seed: int) -> bytes:
    """Return *answer*, a JSON object, changed in a few places that *seed* selects."""
    random = Random(seed)
    if random.random() < 0.3:
        for _ in range(random.randint(1, 4)):
            at, gone = random.randint(0, len(answer)), random.choice((0, 1, 1, 8))
            answer = answer[:at] + random.choice(PIECES) + answer[at + gone :]
        return answer
    value = json.loads(answer)
    for _ in range(random.randint(1, 3)):
        places = list(_places(value))
        if not places:
            break
        holder, key = random.choice(places)
        change = random.choice(("replace", "replace", "delete", "repeat"))
        if change == "delete":
            del holder[key]
        elif change == "repeat" and isinstance(holder, list):
            holder.append(holder[key])
        else:
            # A copy, because the next change can be inside it
            holder[key] = deepcopy(random.choice(ODD))
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for every value nested in *value*."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inside, dict | list):
            yield from _places(inside)
