"""Findings of a check of the installation."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from typing_extensions import override

LINE_END: Final = re.compile(r"\s*\n\s*")


class Level(StrEnum):
    """The severity of a finding; with FAIL, the doctor exits with 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of output: the finding and its fix."""

    level: Level
    what: str
    fix: str = ""

    @override
    def __str__(self) -> str:
        line = f"{self.level:4}  {self.what}" + (f" — {self.fix}" if self.fix else "")
        return LINE_END.sub(" ", line)  # messages of databases may have line ends

    def as_json(self) -> dict[str, str]:
        """Return the finding in the form that `--json` prints."""
        return {"level": self.level.lower(), "what": self.what, "fix": self.fix}


def ok(what: str) -> Finding:
    """Return a finding that reports no fault."""
    return Finding(Level.OK, what)


def warn(what: str, fix: str) -> Finding:
    """Return a finding about a fault that does not keep the service from working."""
    return Finding(Level.WARN, what, fix)


def fail(what: str, fix: str) -> Finding:
    """Return a finding about a fault that keeps the service from working."""
    return Finding(Level.FAIL, what, fix)


def collect(findings: AsyncIterator[Finding]) -> list[Finding]:
    """Return all of *findings*, which an asynchronous check yields."""

    async def collected() -> list[Finding]:
        return [finding async for finding in findings]

    return asyncio.run(collected())
