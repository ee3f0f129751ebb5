"""Generates inputs for fuzzing: well-formed inputs with changes in some places."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
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
# One random number selects the place and the change, and is used for several inputs, because
# drawing a number takes longer than trying an input.
DRAW: Final = st.integers(0, 2**48)
EDITS: Final = st.integers(1, 6)  # the number of changes in an input; shortening a find reduces it
VARIANTS: Final = 32

Inputs = st.SearchStrategy[list[bytes]]


def changed_bytes(seeds: Sequence[bytes]) -> Inputs:
    """Return a Hypothesis strategy: *seeds* with a few bytes cut or replaced, or random bytes."""
    anything = st.lists(st.binary(max_size=300), min_size=1, max_size=3)
    return st.builds(_edited, st.sampled_from(seeds), DRAW, EDITS) | anything


def changed_json(seeds: Sequence[Any]) -> Inputs:
    """Return a Hypothesis strategy: *seeds* as JSON, with parts replaced, left out or repeated.

    Some texts are cut, or have changed bytes.
    """
    texts = [json.dumps(seed) for seed in seeds]
    structural = st.builds(_changed, st.sampled_from(texts), DRAW, EDITS)
    return structural | changed_bytes([text.encode() for text in texts])


def _edited(seed: bytes, draw: int, edits: int) -> list[bytes]:
    random = Random(draw)
    return [_edit(seed, random, edits) for _ in range(VARIANTS)]


def _edit(seed: bytes, random: Random, edits: int) -> bytes:
    for _ in range(edits):
        at, gone = random.randint(0, len(seed)), random.choice((0, 0, 1, 1, 2, 8, 40))
        come = random.choice((b"", random.randbytes(random.randint(1, 8)), random.choice(PIECES)))
        seed = seed[:at] + come + seed[at + gone :]
    return seed


def _changed(text: str, draw: int, edits: int) -> list[bytes]:
    random = Random(draw)
    return [_change(text, random, edits) for _ in range(VARIANTS)]


def _change(text: str, random: Random, edits: int) -> bytes:
    value = {"": json.loads(text)}
    for _ in range(edits):
        places = list(_places(value))
        holder, key = random.choice(places)
        match random.choice(("replace", "replace", "delete", "repeat")):
            case "delete" if holder is not value:
                del holder[key]
            case "repeat" if isinstance(holder, list):
                holder.append(holder[key])
            case _:
                # A copy, because the next change can be inside it
                holder[key] = deepcopy(random.choice(ODD))
    return json.dumps(value[""]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for each entry of *value*, a dict or list, and of those inside it."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inside, dict | list):
            yield from _places(inside)
