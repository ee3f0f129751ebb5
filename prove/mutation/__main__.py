"""`make mutation`: checks that a test fails after any change of one expression of the code.

`make mutation ARGS=kit/limits.py` takes modules or folders below src/mintscope; the default is all
modules in `plan`.  survivors.toml names the mutants that are allowed to survive, with the reason.
An interrupted run is resumed if no file has changed since the interruption.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prove.mutation.mutants import Mutant
from prove.mutation.plan import TESTS, tests_of
from prove.mutation.run import run
from prove.mutation.score import Score, keep_score
from prove.recipe import PACKAGE

JUSTIFIED: Final = Path(__file__).with_name("survivors.toml")
GOAL_PERCENT: Final = 95.0


def main() -> int:
    """Run mutation tests of the modules; return 1 if the score of a module is below 95 %.

    Print the scores, and the mutants that survive.
    """
    parser = argparse.ArgumentParser(prog="python -m prove.mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=list(TESTS), metavar="PATH")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="tests run in them")
    given = parser.parse_args()
    modules = dict.fromkeys(module for path in given.paths for module in _modules(path))
    groups: dict[tuple[str, ...], list[str]] = {}
    for module in modules:
        groups.setdefault(tests_of(module), []).append(module)
    justified = tomllib.loads(JUSTIFIED.read_text())
    scores = []
    for tests, together in groups.items():
        outcomes = run(together, tests, processes=given.processes)
        for module, mutants in outcomes.items():
            score = _score(module, mutants, justified.get(module, {}))
            keep_score(module, score)
            print(_line(module, score), flush=True)
            scores.append(score)
    total = Score(
        sum(score.mutants for score in scores),
        sum(score.killed for score in scores),
        sum(score.justified for score in scores),
        sum(score.seconds for score in scores),
        [name for score in scores for name in score.survivors],
    )
    print(_line("in all", total))
    return 1 if any(score.percent() < GOAL_PERCENT for score in scores) else 0


def _modules(path: str) -> Iterator[str]:
    found = PACKAGE / path
    for file in [found] if found.is_file() else sorted(found.rglob("*.py")):
        if file.name != "__init__.py":
            yield file.relative_to(PACKAGE).as_posix()


def _score(module: str, mutants: list[Mutant], justified: dict[str, str]) -> Score:
    """Return the numbers of caught and of surviving mutants of *module*; print the survivors.

    Also print each reason in *justified* that no survivor has.

    justified   the reasons for which mutants may survive, by name of the mutant
    """
    survivors = []
    used = set()
    for mutant in (each for each in mutants if not each.killed):
        keys = {key for key in justified if _is_named(mutant.name, key)}
        used |= keys
        if not keys:
            survivors.append(f"line {mutant.line}: {mutant.name}")
            print(f"    survived  {module}, line {mutant.line}: {mutant.name}", flush=True)
    for key in justified.keys() - used:
        print(f"    survivors.toml justifies no survivor: {module}: {key}")
    killed = sum(mutant.killed for mutant in mutants)
    return Score(
        len(mutants),
        killed,
        len(mutants) - killed - len(survivors),
        sum(mutant.seconds for mutant in mutants),
        survivors,
    )


def _is_named(name: str, key: str) -> bool:
    """Return whether *key* is the mutant's *name*, or a beginning of it followed by a star."""
    return name.startswith(key[:-1]) if key.endswith("*") else name == key


def _line(name: str, score: Score) -> str:
    return (
        f"{name:44} {score.killed:5} of {score.mutants:5} killed, {score.justified:3} justified,"
        f" {len(score.survivors):3} survived: {score.percent():5.1f} % in {score.seconds:6.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
