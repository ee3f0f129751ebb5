"""Describes the machine that made the report: hardware, versions, commit; no host name or path."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import apsw
from bench.head import interpreter, processor

from prove.recipe import ROOT

PACKAGES: Final = (
    *("mintscope", "apsw", "httptools", "msgspec", "numba", "numpy", "solders", "starlette"),
    *("uvicorn", "uvloop", "x402", "fastapi", "sqlalchemy", "slowapi", "talipp", "ta-lib"),
    *("hypothesis", "pytest"),
)


def rows() -> Iterator[tuple[str, str]]:
    """Yield the properties of the machine as (name, value), such as its processor and versions."""
    yield "commit", _commit()
    yield "Python", platform.python_version()
    yield "interpreter", interpreter()
    yield "SQLite", apsw.sqlitelibversion()
    yield "kernel", f"{platform.system()} {platform.release().split('-')[0]}"
    yield "processor", processor()
    yield "memory", f"{_memory_gib():.0f} GiB"
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def _commit() -> str:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return "unknown: not a clone"

    def ask(*words: str) -> str:
        done = subprocess.run([git, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return ask("rev-parse", "HEAD") + (", with changes" if ask("status", "--porcelain") else "")


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
