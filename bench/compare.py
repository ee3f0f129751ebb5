"""Compares the benchmarks of two revisions: `make bench COMPARE=REV`.

Both revisions run their own benchmarks on their own code, in alternation.  REV is checked out as a
worktree in a temporary folder.  It uses this venv through PYTHONPATH, or a separate one if its lock
differs.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SLOWER: Final = 0.95
TURNS: Final = 3
OURS: Final = re.compile(
    r"(?P<what>\S.*?) +mintscope +(?P<value>[\d,]+\.\d\d) (?P<unit>\S+(?: \S+)*)(?:  |$)"
)
RATE: Final = "/s"  # the end of units of which more is better; of other units, less is better
# Units without a limit: probabilities, and maxima of single iterations
NO_RULE: Final = frozenset({"p", "ms at most"})

Measured = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Build:
    """A revision of this repository in *folder*, whose benchmarks *python* runs."""

    folder: Path
    python: Path

    def measure(self, name: str) -> Iterator[tuple[tuple[str, str], float]]:
        """Run the benchmark *name* of this build; yield mintscope's figures by name and unit."""
        if not (self.folder / "bench" / f"{name}.py").is_file():
            return
        environment = dict(os.environ)  # noqa: TID251 - handed on, not read
        trees = ("src", "packages/client/src", "packages/devchain/src", "")
        environment["PYTHONPATH"] = ":".join(str(self.folder / tree) for tree in trees)
        ran = subprocess.run(
            [self.python, "-m", f"bench.{name}"],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        yield from figures(ran.stdout)


def figures(printed: str) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the figures of mintscope in *printed*, the output of a benchmark, by name and unit."""
    for line in printed.splitlines():
        if found := OURS.match(line):
            yield (found["what"], found["unit"]), float(found["value"].replace(",", ""))


def compare(revision: str, names: Sequence[str]) -> int:
    """Compare benchmarks with those of *revision*; return 1 if a figure is slower, otherwise 0.

    Print the ratio of each figure to that of *revision*, after all runs of its benchmark. A figure
    is slower if the ratio is below SLOWER.
    """
    slower = 0
    count = 0
    with revision_at(revision) as before:
        for name in names:
            ours = Measured()
            theirs = Measured()
            for turn in range(TURNS):
                sides = [(Build(ROOT, Path(sys.executable)), ours), (before, theirs)]
                for build, measured in sides if turn % 2 else reversed(sides):
                    for key, value in build.measure(name):
                        measured.setdefault(key, []).append(value)
            slower += sum(_tell(key, ours[key], theirs.get(key), revision) for key in ours)
            count += len(ours)
    rule = f"nothing slower than {SLOWER}"
    print(f"\n{rule}: {slower} of {count} are" if slower else f"\n{rule}: kept")
    return int(bool(slower))


def ratio(unit: str, now: float, before: float) -> float:
    """Return the ratio of two values of a figure, *now* and *before*: above 1, *now* is better.

    unit   a rate is better if it is higher; a value of any other unit if it is lower
    """
    return now / before if RATE in unit else before / now


def _tell(
    key: tuple[str, str], now: Sequence[float], before: Sequence[float] | None, revision: str
) -> bool:
    """Print the figure *key* before and now; return whether it is slower than SLOWER allows.

    before   its values at *revision*; None: it was not measured there
    """
    what, unit = key
    if before is None:
        print(f"{what:52} {median(now):14,.2f} {unit:14}  not measured at {revision}", flush=True)
        return False
    better = ratio(unit, median(now), median(before))
    is_slower = better < SLOWER and unit not in NO_RULE
    print(
        f"{what:52} {median(now):14,.2f} {unit:14} before {median(before):14,.2f}"
        f" {better:8.2f}x{'  slower' if is_slower else ''}",
        flush=True,
    )
    return is_slower


@contextmanager
def revision_at(revision: str) -> Iterator[Build]:
    """Check out *revision* in a temporary folder during the `with` block; yield its build."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "revision"
        _git("worktree", "add", "--quiet", "--detach", str(folder), revision)
        try:
            # Link the recorded data to the place where the revision expects it
            if (ROOT.parent / "shared").is_dir():
                (folder.parent / "shared").symlink_to(ROOT.parent / "shared")
            yield Build(folder, _python(folder))
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _python(folder: Path) -> Path:
    """Return a Python interpreter with the packages that the revision in *folder* needs.

    If the revision has other locked packages than this one, they are installed for it.
    """
    if _locks(folder) == _locks(ROOT):
        modules = Path("bench", "peers", "node_modules")
        if (ROOT / modules).is_dir():
            (folder / modules).symlink_to(ROOT / modules)
        return Path(sys.executable)
    make = shutil.which("make")
    if make is None:
        raise SystemExit("bench: that revision has another lock: expected make to install it")
    print("the lock differs: installing that revision ...", flush=True)
    python = Path(sys.executable).resolve()
    command = [make, "--silent", "--directory", str(folder), f"PYTHON={python}", ".venv/bench"]
    subprocess.run(command, check=True)
    return folder / ".venv" / "bin" / "python"


def _locks(folder: Path) -> Mapping[str, bytes]:
    files = [*(folder / "requirements").glob("*.txt"), folder / "bench/peers/package-lock.json"]
    return {file.name: file.read_bytes() for file in files}


def _git(*words: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise SystemExit("bench: expected git, which is missing")
    subprocess.run([git, *words], cwd=ROOT, check=True)
