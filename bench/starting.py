"""Measures the processor time of commands from start to result, and the least possible time.

The floor of the list of commands is the import of typer and of the part of rich that lays out a
help page.  The floor of the parent process of `serve` is the import of the packages that read a
configuration: typer, pydantic and structlog.
"""

import resource
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.figure import Figure, tell
from bench.turns import spread

ROUNDS: Final = 15
HELP: Final = "list of commands: mintscope --help"
PARENT: Final = "parent of serve: mintscope serve --help"
OURS: Final = "mintscope"
COMMANDS: Final = {
    HELP: {
        OURS: ["-m", "mintscope", "--help"],
        "typer and rich alone": ["-c", "import typer, typer.rich_utils, rich.markdown"],
    },
    PARENT: {
        OURS: ["-m", "mintscope", "serve", "--help"],
        "typer, pydantic, structlog alone": [
            "-c",
            "import typer, typer.rich_utils, rich.markdown, pydantic_settings, structlog",
        ],
    },
}
GOALS: Final = {HELP: ">= 0.6x", PARENT: ">= 0.5x"}


def run() -> list[Figure]:
    """Measure commands of mintscope, and Python's least work for each; return the figures."""
    found = []
    for what, commands in COMMANDS.items():
        took: dict[str, list[float]] = {who: [] for who in commands}
        for number in range(ROUNDS + 1):
            for who, words in commands.items():
                cpu_s = _cpu_s(words)
                if number > 0:
                    took[who].append(cpu_s)
        ours = median(took[OURS])
        found += [
            Figure(
                what=what,
                who=who,
                value=median(each) * 1000,
                unit="ms CPU",
                ratio=None if who == OURS else median(each) / ours,
                goal="" if who == OURS else GOALS[what],
                spread=spread(each),
            )
            for who, each in took.items()
        ]
    return found


def _cpu_s(words: Sequence[str]) -> float:
    """Run Python with the arguments *words*, and return the seconds of processor time it used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for figure in run():
        tell(figure)
