"""Tests of a mutant that changes what an import runs: all of the package is imported again."""

import ast
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import pytest
from typing_extensions import override

from prove.mutation import fork
from prove.mutation.fork import limit_memory, limit_test
from prove.recipe import PACKAGE, ROOT

# Slow to import, and never a mutant.
IMPORTED: Final = (
    *("apsw", "hypothesis", "httpx", "httptools", "msgspec", "prometheus_client", "pydantic"),
    *("pydantic_settings", "rich", "solders.pubkey", "starlette.routing", "structlog", "typer"),
    *("uvicorn", "uvloop", "x402", "numpy", "jinja2", "argon2", "email_validator"),
)
OPTIONS: Final = (
    *("-x", "-q", "-s", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:xdist", "--timeout=0"),
    *("-o", "tmp_path_retention_policy=none"),
    *("-m", "not process and not browser"),
)
# Tests of these need nothing of tests/conftest.py, which imports all of the package.
PURE: Final = ("tests/kit/", "tests/dex/", "tests/market/", "tests/credits/")


class Selected:
    """A pytest plugin: only these tests, each within its time, by node id."""

    def __init__(self, seconds: dict[str, float], report: Callable[[str], None]) -> None:
        self._seconds, self._report = seconds, report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the others out, and begin with the fastest."""
        items[:] = [item for item in items if item.nodeid in self._seconds]
        items.sort(key=lambda item: self._seconds[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Print the name of the test that begins."""
        self._report(nodeid)
        limit_test(self._seconds[nodeid])


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
    for name in IMPORTED:
        importlib.import_module(name)


def _is_pure(file: str) -> bool:
    return file.startswith(PURE) and "shared_data" not in (ROOT / file).read_text()


def run(module: str, tree: ast.Module, seconds: dict[str, float], folder: Path) -> str | None:
    """Return the test that fails with *module* as *tree* has it, None if none does.

    seconds    that each test took with the module as it is, by node id
    """
    path = PACKAGE / module
    name = "mintscope." + module.removesuffix(".py").replace("/", ".")
    assert name not in sys.modules
    files = list(dict.fromkeys(nodeid.partition("::")[0] for nodeid in seconds))
    pure = [file for file in files if _is_pure(file)]
    rest = [[file] for file in files if file not in pure]

    def work(report: Callable[[str], None]) -> bool:
        report(files[0])  # an import may fail before any test begins
        fork.silence(os.devnull)
        limit_memory()
        compiled = compile(ast.fix_missing_locations(tree), str(path), "exec")
        sys.meta_path.insert(0, _Finder(path, name, compiled))
        options = [*OPTIONS, f"--basetemp={folder}"]
        chosen = [Selected(seconds, report)]
        return (
            not pure or pytest.main([*options, "--noconftest", *pure], plugins=chosen) == 0
        ) and all(pytest.main([*options, *each], plugins=chosen) == 0 for each in rest)

    ended = fork.run(work, limit_s=60 + 20 * sum(seconds.values()))
    return None if ended.good else ended.last
