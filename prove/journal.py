"""Stores the outcomes of `make prove` in build/, so that an interrupted run can be resumed."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from prove.recipe import BUILD, ROOT
from prove.step import Outcome

PROVEN_OF: Final = ("src/mintscope", "packages", "tests", "prove")


class Journal(msgspec.Struct, kw_only=True):
    """The outcome of each step of `make prove`, for one version of the code.

    full   whether the tests ran at their full length
    """

    code: str
    full: bool
    outcomes: dict[str, Outcome] = {}

    def keep(self, step: str, outcome: Outcome) -> None:
        """Add the outcome of *step* to the journal, and store the journal in its file."""
        self.outcomes[step] = outcome
        path = _path(full=self.full)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        unfinished.replace(path)

    def is_good(self, step: str) -> bool:
        """Return whether *step* has succeeded, so that a resumed run does not repeat it."""
        return step in self.outcomes and self.outcomes[step].good


def open_journal(*, full: bool) -> Journal:
    """Return the outcomes of tests stored in build/; none if the code has changed since.

    full   whether outcomes of tests at full length are wanted; both kinds are stored
    """
    code = _fingerprint()
    try:
        journal = msgspec.json.decode(_path(full=full).read_bytes(), type=Journal)
    except (FileNotFoundError, msgspec.DecodeError):
        return Journal(code=code, full=full)
    return journal if journal.code == code else Journal(code=code, full=full)


def _path(*, full: bool) -> Path:
    return BUILD / ("prove.json" if full else "prove-short.json")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for folder in PROVEN_OF:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()
