"""The build context of deploy/Containerfile, according to its .dockerignore."""

import fnmatch
from pathlib import Path

from support.deployment import DEPLOY


def is_sent(path: Path) -> bool:
    """Return whether *path* is in the build context: the last rule that matches decides."""
    is_kept = True
    for rule in rules():
        pattern = rule.removeprefix("!")
        names = [path, *path.parents][:-1]
        if any(fits(str(name), pattern) for name in names):
            is_kept = rule.startswith("!")
    return is_kept


def fits(name: str, pattern: str) -> bool:
    """Return whether *pattern* matches *name*: `*` within one part, `**/` for any leading parts."""
    if pattern.startswith("**/"):
        parts = name.split("/")
        return any(fits("/".join(parts[at:]), pattern[3:]) for at in range(len(parts)))
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def rules() -> list[str]:
    """Return the lines of Containerfile.dockerignore except comments."""
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
