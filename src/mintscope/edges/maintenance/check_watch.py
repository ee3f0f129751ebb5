"""Looks at the checks of a process every few seconds, and tells which fail and which are over."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import CHECK_OK, CHECKED_AT, READY
from mintscope.base.time import SECOND_MS

log = structlog.get_logger()

LOOK_S: Final = 5.0
# A process that starts has no data and no list yet: that is told once it lasts.
START_S: Final = 20.0
OK: Final = "ok"
RUNBOOK: Final = "docs/runbook.md"
NUMBERS: Final = re.compile(r"[\d,.]+")
STOPPING: Final = "stopping"  # the process is told to stop: what it stops is told elsewhere

Results: TypeAlias = Mapping[str, str]
Look: TypeAlias = Callable[[], Awaitable[Results]]
Keep: TypeAlias = Callable[[Results], Awaitable[None]]


@dataclass(slots=True)
class _Trouble:
    """A check that fails, since when, and what it said when that was told last; "": not yet."""

    since_s: float
    told: str = ""


class CheckWatch:
    """Tells of each check that begins to fail, and that passes again; `run` looks at them.

    look    returns "ok", or what is wrong, by the name of the check
    vital   the names of those without which the process is not ready; none: it has no readiness
    keep    is called with those that fail, at the start and when that changes, for other processes;
            it may raise ServiceUnavailable, and is called again then
    """

    def __init__(
        self,
        look: Look,
        clock: Clock,
        vital: Collection[str] = (),
        keep: Keep | None = None,
    ) -> None:
        self._look = look
        self._keep = keep
        self._kept: Results | None = None
        self._clock = clock
        self._vital = vital
        self._failing: dict[str, _Trouble] = {}
        self._passed: set[str] = set()
        self._began_s = clock.monotonic_s()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look at every check once."""
        results = await self._look()
        for name, said in results.items():
            self._note(name, said)
        if self._vital:
            READY.set(all(results.get(name) == OK for name in self._vital))
        CHECKED_AT.set(self._clock.now() / SECOND_MS)
        await self._keep_failing(
            {name: said for name, said in results.items() if name in self._failing_told()}
        )

    def _note(self, name: str, said: str) -> None:
        now_s = self._clock.monotonic_s()
        CHECK_OK.labels(name).set(said == OK)
        if said == OK:
            self._passed.add(name)
            trouble = self._failing.pop(name, None)
            if trouble is not None and trouble.told:
                log.info("check_passes", check=name, after_s=round(now_s - trouble.since_s))
            return
        trouble = self._failing.setdefault(name, _Trouble(now_s))
        is_new = _bare(said) != _bare(trouble.told)
        if is_new and self._may_be_told(name, now_s):
            trouble.told = said
            log.warning("check_fails", check=name, reason=said, runbook=f"{RUNBOOK}#{name}")

    def _failing_told(self) -> Collection[str]:
        return [name for name, trouble in self._failing.items() if trouble.told]

    async def _keep_failing(self, failing: Results) -> None:
        """Keep what fails, unless that is kept already, numbers aside."""
        if self._keep is None or (self._kept is not None and _same(failing, self._kept)):
            return
        try:
            await self._keep(failing)
        except ServiceUnavailable:  # the store is away: its own check says so
            self._kept = None
        else:
            self._kept = failing

    def _may_be_told(self, name: str, now_s: float) -> bool:
        return name != STOPPING and (name in self._passed or now_s - self._began_s >= START_S)

    def forget(self) -> None:
        """Show none of these checks any more: nothing looks at them."""
        for name in {*self._passed, *self._failing}:
            CHECK_OK.remove(name)


def _bare(said: str) -> str:
    """Return *said* without numbers, which change while it lasts."""
    return NUMBERS.sub("", said)


def _same(one: Results, other: Results) -> bool:
    return {name: _bare(said) for name, said in one.items()} == {
        name: _bare(said) for name, said in other.items()
    }
