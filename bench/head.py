"""Describes the machine that runs benchmarks: interpreter, processor, load; no host name."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from bench.interpreter import is_optimised
from bench.transactions import SHARED_DATA

MADE = "made: transactions of the project's own chain, the same in every clone"
RECORDED = "; recorded: mainnet's, where ../shared/data is (it is here)"
NOT_RECORDED = "; recorded: mainnet's, where ../shared/data is (it is not here)"


def rows() -> Iterator[tuple[str, str]]:
    """Yield the properties of the machine as (name, value): interpreter, processor, load, data."""
    yield "interpreter", interpreter()
    yield "processor", processor()
    yield "load", f"{os.getloadavg()[0]:.1f} before the first benchmark"
    yield "data", MADE + (RECORDED if SHARED_DATA.is_dir() else NOT_RECORDED)
    yield "", "all other figures: seeded random numbers or traffic of their own"


def interpreter() -> str:
    """Return Python's version, and whether it was built with profile-guided optimisation."""
    built = "built" if is_optimised() else "not built"
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{implementation}, {built} with profile-guided optimisation"


def processor() -> str:
    """Return the model of the processor, and the number of cores that this process can use."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    else:
        model = platform.machine()
    return f"{model}, {len(os.sched_getaffinity(0))} cores for us"
