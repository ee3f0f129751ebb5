"""The outcome of a target."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "fuzz.json"


class Fuzzed(msgspec.Struct, frozen=True):
    """The outcome of a target: the number of tried examples, the seconds, and the find."""

    examples: int
    seconds: float
    uncaught: str
