"""The outcome of a target."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "fuzz.json"


class Fuzzed(msgspec.Struct, frozen=True):
    """The outcome of a target: the number of inputs, the seconds, and the find, if any."""

    examples: int
    seconds: float
    uncaught: str
