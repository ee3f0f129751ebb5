"""The commit that this mintscope was built from, if it is known."""

import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
SHOWN: Final = 12  # hexadecimal digits


@cache
def commit() -> str | None:
    """Return the first 12 digits of the commit that was installed; None if it is not known.

    A wheel holds it (hatch_build.py); pip records it for an installation from a repository (PEP
    610); a checkout has it in .git.
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
        origin = msgspec.json.decode(text or "{}")
        return _commit(str(origin.get("vcs_info", {}).get("commit_id", "")))
    except (metadata.PackageNotFoundError, msgspec.DecodeError, AttributeError):
        return None


def _checked_out(file: Path) -> str | None:
    """Return the commit of the checkout that *file* is in."""
    try:
        git = next(each / ".git" for each in file.parents if (each / ".git").exists())
        if git.is_file():  # of a worktree: it names the folder of the worktree
            git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        reference = head.removeprefix("ref:").strip()
        if reference == head:
            return _commit(head)
        shared = git / "commondir"
        folders = [git, (git / shared.read_text().strip()).resolve()] if shared.exists() else [git]
        for folder in folders:
            if (folder / reference).exists():
                return _commit((folder / reference).read_text().strip())
            packed = folder / "packed-refs"
            lines = packed.read_text().splitlines() if packed.exists() else []
            for line in lines:
                if line.endswith(f" {reference}"):
                    return _commit(line.partition(" ")[0])
    except (OSError, StopIteration):
        pass
    return None


def _commit(text: str) -> str | None:
    return text if COMMIT.fullmatch(text) else None
