"""Forked workers run each test once, and no fault of a test is lost with its worker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
FILES: Final = {
    "test_calm.py": """
import atexit, os, pathlib, pytest
@pytest.fixture(scope="session")
def lasting():
    atexit.register(pathlib.Path(f"left-{os.getpid()}").touch)
    yield
    pathlib.Path(f"ended-{os.getpid()}").touch()
def test_one(lasting, tmp_path): print("said in one")
def test_two(lasting): pass
""",
    "test_other.py": """
from test_calm import lasting
def test_three(lasting, tmp_path): print("said in three"); assert tmp_path.name == "x"
""",
    "test_killed.py": """
import os
def test_four(): os.kill(os.getpid(), 9)
def test_five(): pass
""",
    "test_slow.py": """
import time
def test_six(): time.sleep(60)
""",
    "test_very_last.py": """
import pytest
@pytest.fixture(scope="session")
def broken():
    yield
    raise ValueError("at the end")
def test_seven(broken): pass
""",
}


@pytest.mark.process
def test_every_test_is_reported_once(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    options = ("-p", "support.workers", "-p", "no:cacheprovider", "-p", "no:randomly")
    command = [sys.executable, "-m", "pytest", "--workers", "2", "--timeout", "2", "-v", *options]

    run = subprocess.run(
        [*command, "-o", "asyncio_default_fixture_loop_scope=function", "--junitxml=all.xml"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "TMPDIR": str(tmp_path), "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = run.stdout

    assert run.returncode == 1
    for name in ("calm.py::test_one", "calm.py::test_two", "very_last.py::test_seven"):
        assert printed.count(f"test_{name} PASSED") == 1, printed
    failed = printed.partition("short test summary info")[2]
    assert sorted(line for line in failed.splitlines() if line.startswith("FAILED")) == [
        "FAILED test_killed.py::test_five - its worker ended with -9",
        "FAILED test_killed.py::test_four - its worker ended with -9",
        "FAILED test_other.py::test_three - AssertionError: assert 'test_three0' == 'x'",
        "FAILED test_slow.py::test_six - Failed: Timeout (>2.0s) from pytest-timeout.",
        "FAILED test_very_last.py::test_seven - its worker ended with 1",
    ]
    assert "said in three" in printed
    assert "said in one" not in printed
    ended = [path.name.partition("-")[2] for path in tmp_path.glob("ended-*")]
    assert ended
    assert {path.name.partition("-")[2] for path in tmp_path.glob("left-*")} == {*ended}
    assert 'failures="5"' in (tmp_path / "all.xml").read_text()
