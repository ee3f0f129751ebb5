"""`make prove`: runs the tests of each claim, also against broken builds that they must catch.

It resumes an earlier run of the same code.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from prove.figures import caught, figure
from prove.journal import Journal, open_journal
from prove.recipe import Mutant, Recipe
from prove.recipes import RECIPES
from prove.step import Outcome, run

# Name, recipe, tests, and mutant (None: the sound build)
Step = tuple[str, Recipe, tuple[str, ...], Mutant | None]


def main() -> int:
    """Run the chosen steps, and print a table; return 1 if a claim failed or a mutant survived."""
    chosen, full, with_mutants, again = _arguments()
    journal = open_journal(full=full)
    if again:
        journal.outcomes.clear()
    steps = list(_steps(chosen, with_mutants=with_mutants))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a line a step, at once
    console = Console(highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal)
    with bar:
        task = bar.add_task("", total=len(steps))
        for name, _, tests, mutant in steps:
            bar.update(task, description=name)
            if not journal.is_good(name):
                outcome = run(tests, full=full and mutant is None, mutant=mutant)
                journal.keep(name, outcome)
                console.print(_line(name, outcome, is_mutant=mutant is not None))
                if not outcome.good:
                    console.print(outcome.said, markup=False)
            bar.advance(task)
    console.print()
    for row in _table(chosen, journal, with_mutants=with_mutants):
        console.print(row, markup=False)
    return 0 if all(journal.is_good(name) for name, *_ in steps) else 1


def _arguments() -> tuple[list[Recipe], bool, bool, bool]:
    parser = argparse.ArgumentParser(
        prog="python -m prove",
        description="Prove every recipe and show that each catches broken builds.",
        epilog="recipes: " + ", ".join(RECIPES),
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="prove this recipe alone")
    parser.add_argument("--short", action="store_true", help="prove the short form of each recipe")
    parser.add_argument("--no-mutants", action="store_true", help="do not build what is broken")
    parser.add_argument("--again", action="store_true", help="forget what was proven before")
    given = parser.parse_args()
    if unknown := set(given.only or ()) - set(RECIPES):
        parser.error(f"expected names of {', '.join(RECIPES)}; there were {', '.join(unknown)}")
    chosen = [RECIPES[name] for name in given.only or RECIPES]
    return chosen, not given.short, not given.no_mutants, given.again


def _steps(recipes: Sequence[Recipe], *, with_mutants: bool) -> Iterator[Step]:
    for recipe in recipes:
        yield recipe.name, recipe, recipe.tests, None
        if with_mutants and recipe.mistakes:
            yield f"{recipe.name}: its own mistakes", recipe, recipe.mistakes, None
        for mutant in recipe.mutants if with_mutants else ():
            yield f"{recipe.name}: {mutant.name}", recipe, mutant.tests or recipe.tests, mutant


def _line(name: str, outcome: Outcome, *, is_mutant: bool) -> str:
    words = {True: "caught", False: "SURVIVED"} if is_mutant else {True: "ok", False: "FAILED"}
    more = "".join(f"\n    did not run: {reason}" for reason in outcome.skipped)
    figures = "" if is_mutant else f"  {figure(outcome)}"
    return f"{outcome.seconds:7.1f} s  {words[outcome.good]:8}  {name}{figures}{more}"


def _table(recipes: Sequence[Recipe], journal: Journal, *, with_mutants: bool) -> Iterator[str]:
    yield f"{'recipe':26} {'mutants caught':>14}  figure"
    for recipe in recipes:
        outcome = journal.outcomes.get(recipe.name)
        reported = "not run" if outcome is None else figure(outcome)
        mark = "" if outcome is None or outcome.good else "FAILED: "
        count = "{} of {}".format(*caught(recipe, journal)) if with_mutants else ""
        yield f"{recipe.name:26} {count:>14}  {mark}{reported}"


if __name__ == "__main__":
    sys.exit(main())
