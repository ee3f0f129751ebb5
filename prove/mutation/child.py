"""Tests of one mutant, in a fork of a process that has imported what does not change."""

import ast
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import pytest
from typing_extensions import override

from prove.recipe import ROOT

# Slow to import, and never a mutant.
IMPORTED: Final = (
    *("apsw", "hypothesis", "httpx", "httptools", "msgspec", "prometheus_client", "pydantic"),
    *("pydantic_settings", "rich", "solders.pubkey", "starlette.routing", "structlog", "typer"),
    *("uvicorn", "uvloop", "x402", "numpy", "jinja2", "argon2", "email_validator"),
)
OPTIONS: Final = (
    *("-x", "-q", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-p", "no:xdist", "--timeout=60", "-m", "not process and not browser"),
)
TIMED_OUT: Final = -1


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    @override
    def get_code(self, fullname: str) -> CodeType:
        return self._code


class _Finder(MetaPathFinder):
    """Finds one module, as its mutant is."""

    def __init__(self, path: Path, name: str, code: CodeType) -> None:
        self._path, self._name, self._code = path, name, code

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._path), self._code)
        return spec_from_file_location(fullname, self._path, loader=loader)


def prepare() -> None:
    """Import what every child needs."""
    os.chdir(ROOT)
    for name in IMPORTED:
        importlib.import_module(name)


def run(module: str, tests: Sequence[str], tree: ast.Module | None, limit_s: float) -> int:
    """Return pytest's exit code with *module* as *tree* has it, TIMED_OUT if it takes too long."""
    child = os.fork()
    if child == 0:
        _test(module, tests, tree)
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMED_OUT


def _test(module: str, tests: Sequence[str], tree: ast.Module | None) -> None:
    """Run the tests, and end the process: the fork has nothing else to do."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 3
    try:
        if tree is not None:
            path = ROOT / "src" / "mintscope" / module
            name = "mintscope." + module.removesuffix(".py").replace("/", ".")
            assert name not in sys.modules
            compiled = compile(ast.fix_missing_locations(tree), str(path), "exec")
            sys.meta_path.insert(0, _Finder(path, name, compiled))
        code = int(pytest.main([*OPTIONS, *(f"tests/{test}" for test in tests)]))
    finally:
        os._exit(code)
