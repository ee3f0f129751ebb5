"""Stores the mutation scores of modules in build/, for the report."""

from typing import Final

import msgspec

from prove.recipe import BUILD

KEPT: Final = BUILD / "mutation.json"


class Score(msgspec.Struct):
    """The mutation score of a module: counts of mutants, seconds of tests, and the survivors."""

    mutants: int = 0
    killed: int = 0
    justified: int = 0
    seconds: float = 0.0
    survivors: list[str] = []

    def percent(self) -> float:
        """Return the percentage of killed mutants among those that are not allowed to survive."""
        counted = self.mutants - self.justified
        return 100 * self.killed / counted if counted else 100.0


def keep_score(module: str, score: Score) -> None:
    """Store *score* as the mutation score of *module*, in place of an earlier one."""
    kept = msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Score]) if KEPT.is_file() else {}
    KEPT.write_bytes(msgspec.json.encode(kept | {module: score}))
