"""Reads the names, versions and hashes of packages in the lock files of requirements/."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
LOCKS: Final = ("run", "postgres", "mcp", "geyser", "otel", "tables")
_PACKAGE: Final = re.compile(
    r"^([\w.-]+)==([^\s;\\]+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[ \\]*)+)", re.MULTILINE
)


class Locked(NamedTuple):
    """A package of a lock file; *hashes* are the SHA-256 of its files, in hexadecimal."""

    name: str
    version: str
    hashes: Sequence[str]


def locked(folder: Path = ROOT / "requirements") -> Sequence[Locked]:
    """Return all packages of the lock files, sorted by name and version.

    A package can occur in several versions, for different versions of Python.
    """
    found = set()
    for lock in LOCKS:
        for name, version, hashes in _PACKAGE.findall((folder / f"{lock}.txt").read_text()):
            found.add(Locked(name, version, tuple(re.findall("[0-9a-f]{64}", hashes))))
    return sorted(found)
