"""Code that computes is compiled once, kept where the service runs, and the log says when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

INGEST = """
from mintscope.app.running.kernels import load_ingest_kernels, telling_what_is_compiled
with telling_what_is_compiled():
    load_ingest_kernels()
"""


def run(*words: str, cache: Path | None = None) -> str:
    environment = dict(os.environ)  # noqa: TID251 - handed on, not read
    environment.pop("NUMBA_DISABLE_JIT", None)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_what_setup_compiled_is_not_compiled_again() -> None:
    run("-m", "mintscope.app.running.kernels")

    assert run("-m", "mintscope.app.running.kernels") == ""


def test_a_first_start_without_setup_compiles_and_says_so(tmp_path: Path) -> None:
    assert "kernels compiled" in run("-c", INGEST, cache=tmp_path)
    assert run("-c", INGEST, cache=tmp_path) == ""


@pytest.mark.parametrize("start", ["mintscope.app.ingest", "mintscope.app.following"])
def test_a_process_of_the_service_runs_what_setup_compiled(start: str) -> None:
    run("-m", "mintscope.app.running.kernels")
    needed = {
        "mintscope.app.ingest": "module.load_ingest_kernels()",
        "mintscope.app.following": "module.LiveMarket(1)",
    }
    program = f"""
from importlib import import_module
from mintscope.app.running.kernels import telling_what_is_compiled
with telling_what_is_compiled():
    module = import_module("{start}")
    {needed[start]}
"""

    assert run("-c", program) == ""
