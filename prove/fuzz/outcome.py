"""Stores the outcome of fuzzing each target in build/."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "fuzz.json"


class Fuzzed(msgspec.Struct, frozen=True):
    """The outcome of fuzzing a target: the number of inputs and the seconds.

    uncaught    the traceback of the unexpected exception; "" if there was none
    """

    examples: int
    seconds: float
    uncaught: str
