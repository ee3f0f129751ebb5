"""The outcomes of the mutants, kept in build/ so that an interrupted run goes on there."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from prove.recipe import BUILD, PACKAGE, ROOT

KEPT: Final = BUILD / "mutation.json"  # of the modules that are finished, for the report
JOURNALS: Final = BUILD / "mutation"
TESTS: Final = ROOT / "tests"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one mutant.

    killed_by    the test that failed, None if none did
    valid_for    changes when this must be found out again: of a killed mutant with the module or
                 the file of that test, of a survivor with the module or any file of its tests
    """

    name: str
    line: int
    killed_by: str | None
    seconds: float
    valid_for: str = ""


class Score(msgspec.Struct):
    """The score of a module: killed mutants, their time, and the survivors."""

    mutants: int = 0
    killed: int = 0
    justified: int = 0
    seconds: float = 0.0
    survivors: list[str] = []

    def percent(self) -> float:
        """Return the share of those that could be killed."""
        counted = self.mutants - self.justified
        return 100 * self.killed / counted if counted else 100.0


class Journal:
    """The mutants of one module that were tried and need not be tried again."""

    def __init__(self, module: str, tests: tuple[str, ...]) -> None:
        self._source = (PACKAGE / module).read_bytes()
        self._tests = [path for test in tests for path in _files(TESTS / test)]
        self._path = JOURNALS / f"{module.removesuffix('.py').replace('/', '.')}.jsonl"
        kept = self._path.read_bytes().splitlines() if self._path.is_file() else []
        found = [msgspec.json.decode(line, type=Tried) for line in kept]
        self.tried = {each.name: each for each in found if each.valid_for == self._now(each)}
        JOURNALS.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(b"".join(map(_line, self.tried.values())))

    def keep(self, tried: Tried) -> None:
        """Write down what became of a mutant."""
        kept = msgspec.structs.replace(tried, valid_for=self._now(tried))
        self.tried[kept.name] = kept
        with self._path.open("ab") as file:
            file.write(_line(kept))

    def _now(self, tried: Tried) -> str:
        digest = hashlib.sha256(self._source)
        killer = tried.killed_by and ROOT / tried.killed_by.partition("::")[0]
        for path in [killer] if killer else self._tests:
            digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()


def keep_score(module: str, score: Score) -> None:
    """Add the score of *module* to those of the others."""
    kept = msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Score]) if KEPT.is_file() else {}
    KEPT.write_bytes(msgspec.json.encode(kept | {module: score}))


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _line(tried: Tried) -> bytes:
    return msgspec.json.encode(tried) + b"\n"
