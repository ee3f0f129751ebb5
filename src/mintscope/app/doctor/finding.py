"""A finding of `mintscope doctor`, and functions for its checks."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from typing_extensions import override

S = TypeVar("S")
T = TypeVar("T")

LINE_END: Final = re.compile(r"\s*\n\s*")


class Level(StrEnum):
    """The severity of a finding; with FAIL, the doctor exits with 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of one of doctor's checks, printed as a line, and the fix if it is a problem."""

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


ok = partial(Finding, Level.OK)
warn = partial(Finding, Level.WARN)  # about a fault that does not keep the service from working
fail = partial(Finding, Level.FAIL)


def collect(findings: AsyncIterator[Finding]) -> list[Finding]:
    """Return all of *findings*, which an asynchronous check yields."""

    async def collected() -> list[Finding]:
        return [finding async for finding in findings]

    return asyncio.run(collected())


def read_from(store: AbstractAsyncContextManager[S], read: Callable[[S], Awaitable[T]]) -> T:
    """Open *store*, and return the result of *read* on it; no event loop may be running."""

    async def opened() -> T:
        async with store as found:
            return await read(found)

    return asyncio.run(opened())
