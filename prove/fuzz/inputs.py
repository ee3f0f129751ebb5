"""Inputs to fuzz with: what is well formed, changed in places."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

NUMBERS: Final = (-(2**63), -1, 0, 1, 255, 256, 2**31, 2**53, 2**63, 2**64 - 1, 2**64, 10**40)
PIECES: Final = (b"", b"\0", b"\xff", b"[", b"{", b'"', b"[" * 2_000, b"1e999", b"\xed\xa0\x80")
ODD: Final[tuple[Any, ...]] = (
    *NUMBERS,
    None,
    True,
    False,
    0.5,
    1e308,
    float("nan"),
    float("-inf"),
    *("", "1", "0OIl", "z" * 44, "z" * 700, "=", "AAAA", "AA=A", "\ud800", "\0", "So1"),
    [],
    {},
    [0],
    [[]],
    {"": {}},
)
# One number decides where and what, so that an example is made fast; fewer edits come by shrinking.
DRAW: Final = st.integers(0, 2**48)
EDITS: Final = st.integers(1, 6)


def changed_bytes(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return *seeds* of which a few places are cut or replaced, now and then any bytes."""
    return st.builds(_edited, st.sampled_from(seeds), DRAW, EDITS) | st.binary(max_size=300)


def changed_json(seeds: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Return JSON text like one of *seeds*, with places replaced, left out or repeated."""
    texts = [json.dumps(seed) for seed in seeds]
    structural = st.builds(_changed, st.sampled_from(texts), DRAW, EDITS)
    return structural | changed_bytes([text.encode() for text in texts])


def _edited(seed: bytes, draw: int, edits: int) -> bytes:
    random = Random(draw)
    for _ in range(edits):
        at, gone = random.randint(0, len(seed)), random.choice((0, 0, 1, 1, 2, 8, 40))
        come = random.choice((b"", random.randbytes(random.randint(1, 8)), random.choice(PIECES)))
        seed = seed[:at] + come + seed[at + gone :]
    return seed


def _changed(text: str, draw: int, edits: int) -> bytes:
    random, value = Random(draw), {"": json.loads(text)}
    for _ in range(edits):
        places = list(_places(value))
        holder, key = random.choice(places)
        match random.choice(("replace", "replace", "delete", "repeat")):
            case "delete" if holder is not value:
                del holder[key]
            case "repeat" if isinstance(holder, list):
                holder.append(holder[key])
            case _:
                holder[key] = random.choice(ODD)
    return json.dumps(value[""]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (holder, key) of everything inside *value*."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inside, dict | list):
            yield from _places(inside)
