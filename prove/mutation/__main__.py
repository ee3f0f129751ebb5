"""`make mutation`: change one thing at a time; some test must fail.

`make mutation ARGS=kit/limits.py` takes modules or folders below src/mintscope; by default all of
the plan.  Mutants that may survive are named in survivors.toml, with the reason.  A run that was
interrupted goes on where it ended; of a module that was changed, everything is tried again.
"""

import argparse
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from prove.mutation import fresh, guest
from prove.mutation.host import Answer, LeftOut, Untried
from prove.mutation.mutator import Change, changes
from prove.mutation.plan import TESTS, tests_of
from prove.mutation.score import Journal, Score, Tried, keep_score
from prove.recipe import PACKAGE, ROOT

JUSTIFIED: Final = Path(__file__).with_name("survivors.toml")
COMPILED_MODULES: Final = "market/engine/"  # numba would run what it compiled before
GOAL_PERCENT: Final = 95.0


def main() -> int:
    """Mutate, print every survivor and score; return 1 if a module is below 95 %."""
    parser = argparse.ArgumentParser(prog="python -m prove.mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=list(TESTS), metavar="PATH")
    parser.add_argument("--quick", action="store_true", help="only what changes a function")
    given = parser.parse_args()
    os.chdir(ROOT)
    modules = list(dict.fromkeys(module for path in given.paths for module in _modules(path)))
    if any(module.startswith(COMPILED_MODULES) for module in modules):
        os.environ["NUMBA_DISABLE_JIT"] = "1"  # noqa: TID251 - numba reads it when it is imported
    fresh.prepare()
    justified = tomllib.loads(JUSTIFIED.read_text())
    scores: list[Score] = []
    groups: dict[tuple[str, ...], list[str]] = {}
    for module in modules:
        groups.setdefault(tests_of(module), []).append(module)
    for tests, together in groups.items():
        runs = [Run(module, tests, justified.get(module, {})) for module in together]
        _try(tests, {run.module: run for run in runs}, quick=given.quick)
        scores += [run.end() for run in runs]
    total = Score(
        sum(score.mutants for score in scores),
        sum(score.killed for score in scores),
        sum(score.justified for score in scores),
        sum(score.seconds for score in scores),
        [name for score in scores for name in score.survivors],
    )
    print(_line("in all", total))
    return 1 if any(score.percent() < GOAL_PERCENT for score in scores) else 0


class Run:
    """One module, what is to be changed in it, and what became of that."""

    def __init__(self, module: str, tests: tuple[str, ...], justified: dict[str, str]) -> None:
        self.module = module
        self.journal = Journal(module, tests)
        self._changes = {each.name: each for each in changes((PACKAGE / module).read_text())}
        self._justified = {name for name in self._changes if _is_named(name, justified)}
        for key in justified:
            if not any(_is_named(name, [key]) for name in self._changes):
                print(f"    survivors.toml justifies what is not there: {module}: {key}")

    def open(self) -> set[str]:
        """Return the mutants that are left to try."""
        return self._changes.keys() - self._justified - self.journal.tried.keys()

    def change(self, name: str) -> Change:
        """Return the mutant of that name."""
        return self._changes[name]

    def keep(self, tried: Tried) -> None:
        """Write down what became of a mutant, and print it if it survived."""
        self.journal.keep(tried)
        if tried.killed_by is None:
            print(f"    survived  {self.module}, line {tried.line}: {tried.name}", flush=True)

    def end(self) -> Score:
        """Keep the score for the report, and print it."""
        counted = [each for each in self._changes if each not in self._justified]
        tried = [self.journal.tried[name] for name in counted if name in self.journal.tried]
        score = Score(
            len(self._changes),
            sum(each.killed_by is not None for each in tried),
            len(self._changes) - len(counted),
            sum(each.seconds for each in tried),
            [f"line {each.line}: {each.name}" for each in tried if each.killed_by is None],
        )
        keep_score(self.module, score)
        print(_line(self.module, score), flush=True)
        return score


def _is_named(name: str, justified: Iterable[str]) -> bool:
    """Return whether a key is *name*, or its beginning with a star behind."""
    return any(name.startswith(key[:-1]) if key.endswith("*") else name == key for key in justified)


def _modules(path: str) -> Iterator[str]:
    found = PACKAGE / path
    for file in [found] if found.is_file() else sorted(found.rglob("*.py")):
        if file.name != "__init__.py":
            yield file.relative_to(PACKAGE).as_posix()


def _try(tests: tuple[str, ...], runs: dict[str, Run], *, quick: bool) -> None:
    """Try what was not tried yet: what changes a function in one process, the rest in new ones."""
    wanted = {module: names for module, run in runs.items() if (names := run.open())}
    if not wanted:
        return
    untried: list[Untried] = []
    with tempfile.TemporaryDirectory() as folder:
        for each in guest.answers(tests, wanted, Path(folder)):
            match each:
                case Answer(module=module, tried=tried):
                    runs[module].keep(tried)
                case Untried():
                    untried.append(each)
                case LeftOut(test=test):
                    print(f"    left out: it fails or takes too much without a mutant: {test}")
        for each in [] if quick else untried:
            began_s = time.monotonic()
            change = runs[each.module].change(each.name)
            killed_by = fresh.run(each.module, change.tree, each.seconds, Path(folder) / "base")
            runs[each.module].keep(
                Tried(
                    name=each.name,
                    line=change.line,
                    killed_by=killed_by,
                    seconds=time.monotonic() - began_s,
                )
            )


def _line(name: str, score: Score) -> str:
    return (
        f"{name:44} {score.killed:5} of {score.mutants:5} killed, {score.justified:3} justified,"
        f" {len(score.survivors):3} survived: {score.percent():5.1f} % in {score.seconds:6.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
