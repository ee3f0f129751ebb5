"""The order in which `make test` runs the files of tests."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

MEASURED: Final = tomllib.loads(Path(__file__).with_name("long_files.toml").read_text("utf-8"))
# The duration in seconds of files that mostly wait.
LONG_S: Final[Mapping[str, int]] = MEASURED["waiting_s"]
SLOW: Final = {
    f"{folder}/test_{name}.py"
    for folder, names in MEASURED["slow"].items()
    for name in names.split()
}
WAITING_FOLDERS: Final = {"e2e", "browser"}
SHORT_S: Final = 5  # the assumed duration of each other file in WAITING_FOLDERS
# All waiting files start within this part of the run; after it, the other files keep all workers
# busy.
WITHIN: Final = 0.85


def due(tests: Mapping[str, int]) -> dict[str, float]:
    """Return the position of each file in a run, from 0 to 1.

    Files whose tests mostly wait are spread over the run, the longest first: the distance to the
    next such file is in proportion to the duration.  If they all ran at the same time, the
    processors would be idle then, and the other files would compete for them later.

    tests   the number of tests of each file, by its path within the folder of tests
    """
    waiting_s = Counter({name: LONG_S.get(name, SHORT_S) for name in tests if _waits(name)})
    computing = {name: count for name, count in tests.items() if name not in waiting_s}
    return _spread(dict(waiting_s.most_common()), WITHIN) | _spread(computing, 1.0)


def _waits(name: str) -> bool:
    return name in LONG_S or name.partition("/")[0] in WAITING_FOLDERS


def _spread(sizes: Mapping[str, int], within: float) -> dict[str, float]:
    """Return a position for each file: *within* times the share of *sizes* that precedes it."""
    before = accumulate(sizes.values(), initial=0)
    return {
        name: within * at / sum(sizes.values()) for name, at in zip(sizes, before, strict=False)
    }
