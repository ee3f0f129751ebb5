"""The outcome of a target."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "fuzz.json"


class Fuzzed(msgspec.Struct, frozen=True):
    """The outcome of a target: examples tried, in how many seconds, and what went uncaught."""

    examples: int
    seconds: float
    uncaught: str
