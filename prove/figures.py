"""Results of `make prove`, as text."""

from prove.journal import Journal
from prove.recipe import Recipe
from prove.step import Outcome


def figure(outcome: Outcome) -> str:
    """Return the measurements of *outcome*, or else the number of its passed cases, in one line."""
    if not outcome.passed:
        return "did not run" if outcome.skipped else "nothing passed"
    return "; ".join(outcome.figures) or f"{outcome.passed} cases"


def caught(recipe: Recipe, journal: Journal) -> tuple[int, int]:
    """Return the numbers of broken builds that *recipe* caught, and of all its broken builds.

    If its tests also fail on the unchanged build, none counts as caught.
    """
    own = journal.outcomes.get(f"{recipe.name}: its own mistakes")
    mutants = [journal.is_good(f"{recipe.name}: {mutant.name}") for mutant in recipe.mutants]
    most = (own.passed if own.good else len(recipe.mistakes)) if own else 0
    if not journal.is_good(recipe.name):
        return 0, len(mutants) + most
    return sum(mutants) + (own.passed if own and own.good else 0), len(mutants) + most
