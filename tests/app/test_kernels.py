"""Numba kernels are compiled once and cached; the log reports each compilation."""

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

SETUP = ("-m", "mintscope.app.running.kernels")


def run(*words: str, cache: Path | None = None) -> str:
    """Run Python with *words* as arguments; return its output.

    cache   a folder for compiled code in place of the checkout's; the code that is compiled there
            is not optimized, because that takes most of the time and no test needs it
    """
    environment = dict(os.environ)  # noqa: TID251 - handed on, not read
    environment.pop("NUMBA_DISABLE_JIT", None)
    if cache is not None:
        environment |= {"NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "0"}
    done = subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def setup_ran() -> None:
    """Compile all kernels that are missing, as `make setup` does."""
    run(*SETUP)


def test_kernels_that_setup_compiled_are_not_compiled_again() -> None:
    assert run(*SETUP) == ""


# Prints the kernels that other modules call, and that were not compiled.
UNCOMPILED = """
import ast, re
from importlib import import_module
from pathlib import Path
import mintscope
from mintscope.app.running.kernels import main
ENGINE = "mintscope.market.engine."
HOMES = (ENGINE + "kernels", ENGINE + "recent", "mintscope.dex.base58")
main()
for path in Path(mintscope.__file__).parent.rglob("*.py"):
    text = path.read_text()
    if not re.search("kernels|recent|base58", text):
        continue
    tree = ast.parse(text)
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in HOMES:
            names |= {each.asname or each.name: (node.module, each.name) for each in node.names}
    for node in ast.walk(tree):
        match getattr(node, "func", None):
            case ast.Attribute(ast.Name("kernels" | "recent" as module), name):
                found = getattr(import_module(ENGINE + module), name, None)
            case ast.Name(name) if name in names:
                found = getattr(import_module(names[name][0]), names[name][1])
            case _:
                continue
        if getattr(found, "signatures", None) == [] and path.stem not in {"kernels", "recent"}:
            print(path.name, name)
"""


def test_setup_compiles_each_kernel_that_other_modules_call() -> None:
    assert run("-c", UNCOMPILED) == ""


def test_a_first_start_without_setup_compiles_kernels_and_reports_it(tmp_path: Path) -> None:
    assert "kernels compiled" in run("-c", INGEST, cache=tmp_path)
    assert run("-c", INGEST, cache=tmp_path) == ""


@pytest.mark.parametrize("start", ["mintscope.app.ingest", "mintscope.app.following"])
def test_a_process_of_the_service_uses_the_kernels_that_setup_compiled(start: str) -> None:
    needed = {
        "mintscope.app.ingest": "module.load_ingest_kernels()",
        "mintscope.app.following": "module.LiveMarket(1), module.load_api_kernels()",
    }
    program = f"""
from importlib import import_module
from mintscope.app.running.kernels import telling_what_is_compiled
with telling_what_is_compiled():
    module = import_module("{start}")
    {needed[start]}
"""

    assert run("-c", program) == ""
