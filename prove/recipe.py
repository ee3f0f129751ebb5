"""A claim about mintscope for `make prove`: its tests, and broken builds that they must catch."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "src" / "mintscope"
BUILD: Final = ROOT / "build"


@dataclass(frozen=True)
class Mutant:
    """A broken build of the package, in which one line is replaced.

    name     a description of the fault
    file     the path of the changed file, below src/mintscope
    line     the line to replace, without its indentation; it must occur exactly once
    becomes  the line that replaces it
    tests    tests that must fail; by default the tests of the recipe
    """

    name: str
    file: str
    line: str
    becomes: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A claim about mintscope, and the tests that prove it.

    tests     tests that must pass: pytest node ids below tests/
    mistakes  tests that build something broken themselves, and pass if the fault is caught
    mutants   changes to the code, each of which must make a test fail
    """

    name: str
    proves: str
    tests: tuple[str, ...]
    mistakes: tuple[str, ...] = ()
    mutants: tuple[Mutant, ...] = ()


def mutated(source: str, mutant: Mutant) -> str:
    """Return *source* with the line of *mutant* replaced.

    Raises ValueError unless the line occurs exactly once.
    """
    lines = source.splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if line.strip() == mutant.line]
    if len(found) != 1:
        raise ValueError(
            f"mutant {mutant.name!r}: expected the line {mutant.line!r} once in {mutant.file},"
            f" it is there {len(found)} times"
        )
    before = lines[found[0]]
    lines[found[0]] = before.replace(mutant.line, mutant.becomes)
    return "".join(lines)


@contextmanager
def mutated_copy(mutant: Mutant) -> Iterator[Path]:
    """Yield a folder with the mutated package, which PYTHONPATH can name in the `with` block."""
    text = mutated((PACKAGE / mutant.file).read_text(), mutant)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        copy = Path(folder) / PACKAGE.name
        # Links, not copies: compiled files stay valid, and only one file differs.
        shutil.copytree(
            PACKAGE, copy, copy_function=os.link, ignore=shutil.ignore_patterns("node_modules")
        )
        changed = copy / mutant.file
        changed.unlink()
        changed.write_text(text)
        for compiled in (changed.parent / "__pycache__").glob(f"{changed.stem}.*"):
            compiled.unlink()
        yield Path(folder)
