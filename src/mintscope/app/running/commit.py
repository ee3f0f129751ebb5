"""The commit from which this installation was built."""

import json
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
SHOWN: Final = 12  # hexadecimal digits of a commit


@cache
def commit() -> str | None:
    """Return the first 12 digits of the installed commit; None if unknown.

    A wheel contains the commit (hatch_build.py); pip records it for an installation from a
    repository (PEP 610); a checkout has it in .git.
    """
    found = _built_in() or _installed() or _checked_out(Path(__file__).resolve())
    return None if found is None else found[:SHOWN]


def _built_in() -> str | None:
    try:
        return _commit(Path(__file__).with_name("commit.txt").read_text().strip())
    except OSError:
        return None


def _installed() -> str | None:
    try:
        text = metadata.distribution("mintscope").read_text("direct_url.json")
        origin = json.loads(text or "{}")
        return _commit(str(origin.get("vcs_info", {}).get("commit_id", "")))
    # AttributeError: the JSON, or a part of it, is not an object.
    except (metadata.PackageNotFoundError, json.JSONDecodeError, AttributeError):
        return None


def _checked_out(file: Path) -> str | None:
    """Return the commit of the checkout that contains *file*; None if there is none."""
    try:
        git = next(each / ".git" for each in file.parents if (each / ".git").exists())
        if git.is_file():  # in a worktree, .git is a file that names a folder
            git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        reference = head.removeprefix("ref:").strip()
        if reference == head:
            return _commit(head)
        # A worktree has its own HEAD, but its branches are in the folder that `commondir` names.
        shared = git / "commondir"
        folders = [git, (git / shared.read_text().strip()).resolve()] if shared.exists() else [git]
        for folder in folders:
            if (folder / reference).exists():
                return _commit((folder / reference).read_text().strip())
            packed = folder / "packed-refs"
            # `git gc` moves branches into this file.
            lines = packed.read_text().splitlines() if packed.exists() else []
            for line in lines:
                if line.endswith(f" {reference}"):
                    return _commit(line.partition(" ")[0])
    except (OSError, StopIteration):
        pass
    return None


def _commit(text: str) -> str | None:
    return text if COMMIT.fullmatch(text) else None
