"""Freed memory is returned to the system, also if a live object lies above it in the heap."""

import json
import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import sys
from pathlib import Path
from mintscope.kit.machine import trim

def megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024

bodies = [bytearray(60_000) for _ in range(2_000)]
above = bytearray(60_000)
bodies.clear()
freed = megabytes()
trim()
print(freed - megabytes())
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux how much memory is in use")
def test_the_memory_of_many_bodies_is_given_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )

    assert int(ran.stdout) > 80


LIBRARY: Final = """
import json
import numba
from mintscope.kit.machine import let_go_of_library

@numba.njit
def doubled(value):
    return 2 * value

doubled(1)
name = "libllvmlite.so"

def resident():
    found = 0
    ours = False
    for line in open("/proc/self/smaps"):
        words = line.split()
        if not words[0].endswith(":"):
            ours = line.rstrip().endswith(name)
        elif words[0] == "Rss:" and ours:
            found += int(words[1]) * 1024
    return found

before = resident()
given = let_go_of_library(name)
print(json.dumps([before, given, resident(), doubled(2.5), let_go_of_library("missing.so")]))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux which pages are in use")
def test_a_library_that_is_no_longer_used_takes_no_memory_and_still_works() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIBRARY], check=True, capture_output=True, text=True
    )

    before, given, left, doubled, missing = json.loads(ran.stdout)
    assert given > 30 * 1024**2
    assert left == before - given
    assert doubled == 5.0  # compiled after that
    assert missing == 0
