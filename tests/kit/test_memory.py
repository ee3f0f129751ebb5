"""The memory of a flood of bodies is given back, though something above it is still in use."""

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
def test_what_bodies_took_is_given_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )

    assert int(ran.stdout) > 80
