"""What became of the mutants of a module."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "mutation.json"


class Score(msgspec.Struct):
    """How many mutants of a module were killed, and which survived."""

    mutants: int = 0
    killed: int = 0
    justified: int = 0
    survivors: list[str] = []

    def percent(self) -> float:
        """Return the share of those that could be killed."""
        counted = self.mutants - self.justified
        return 100 * self.killed / counted if counted else 100.0
