"""`make mutation`: change one thing at a time; some test must fail.

`make mutation ARGS=base/limits.py` takes modules or folders below src/mintscope; by default all of
the plan.  What survives and may is named in survivors.toml, with the reason.
"""

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from prove.mutation import child
from prove.mutation.mutator import changes
from prove.mutation.plan import TESTS, tests_of
from prove.mutation.score import KEPT, Score
from prove.recipe import PACKAGE

JUSTIFIED: Final = Path(__file__).with_name("survivors.toml")
COMPILED_MODULES: Final = "core/market/engine/"  # numba would run what it compiled before


def main() -> int:
    """Mutate, print a line for each module and each survivor; return 1 if one is not justified."""
    parser = argparse.ArgumentParser(prog="python -m prove.mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=list(TESTS), metavar="PATH")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try every Nth only")
    given = parser.parse_args()
    modules = list(dict.fromkeys(module for path in given.paths for module in _modules(path)))
    if any(module.startswith(COMPILED_MODULES) for module in modules):
        os.environ["NUMBA_DISABLE_JIT"] = "1"  # noqa: TID251 - numba reads it when it is imported
    child.prepare()
    justified = tomllib.loads(JUSTIFIED.read_text())
    scores = {module: _score(module, justified.get(module, {}), given.every) for module in modules}
    _keep(scores)
    total = Score(
        sum(score.mutants for score in scores.values()),
        sum(score.killed for score in scores.values()),
        sum(score.justified for score in scores.values()),
        [name for score in scores.values() for name in score.survivors],
    )
    print(_line("in all", total))
    return 1 if total.survivors else 0


def _modules(path: str) -> Iterator[str]:
    found = PACKAGE / path
    for file in [found] if found.is_file() else sorted(found.rglob("*.py")):
        if file.name != "__init__.py":
            yield file.relative_to(PACKAGE).as_posix()


def _score(module: str, justified: dict[str, str], every: int) -> Score:
    tests, score = tests_of(module), Score()
    limit_s = _baseline_s(module, tests) * 5 + 20
    for number, change in enumerate(changes((PACKAGE / module).read_text())):
        if number % every:
            continue
        score.mutants += 1
        if change.name in justified:
            score.justified += 1
        elif child.run(module, tests, change.tree, limit_s) == 0:
            score.survivors.append(f"line {change.line}: {change.name}")
            print(f"    survived  {module}, {score.survivors[-1]}", flush=True)
        else:
            score.killed += 1
    print(_line(module, score), flush=True)
    return score


def _baseline_s(module: str, tests: Sequence[str]) -> float:
    began_s = time.monotonic()
    code = child.run(module, tests, None, 600)
    if code != 0:
        raise SystemExit(f"{module}: expected its tests to pass without a mutant; code {code}")
    return time.monotonic() - began_s


def _line(name: str, score: Score) -> str:
    return (
        f"{name:44} {score.killed:5} of {score.mutants:5} killed, {score.justified:3} justified,"
        f" {len(score.survivors):3} survived: {score.percent():5.1f} %"
    )


def _keep(scores: dict[str, Score]) -> None:
    """Add the scores to those that were kept of other modules."""
    KEPT.parent.mkdir(exist_ok=True)
    kept = msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Score]) if KEPT.is_file() else {}
    KEPT.write_bytes(msgspec.json.encode(kept | scores))


if __name__ == "__main__":
    sys.exit(main())
