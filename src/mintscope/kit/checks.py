"""Checks that a process runs every few seconds, such as checks of its stores."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog
from prometheus_client import Counter

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import CHECK_OK, CHECKED_AT, READY
from mintscope.kit.time import HOUR_S, SECOND_MS

CHECK_TIMEOUT_S: Final = 2.0
OK: Final = "ok"


@dataclass(frozen=True, slots=True)
class Check:
    """A health check: *probe* returns if it passes, else it raises ServiceUnavailable."""

    name: str
    probe: Callable[[], Awaitable[None]]
    is_vital: bool = True  # whether a failure means not ready, instead of only degraded


async def result_of(check: Check) -> str:
    """Run *check*; return OK, or the reason why it failed."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check.probe()
    except ServiceUnavailable as failure:
        return str(failure)
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    return OK


log = structlog.get_logger()

LOOK_S: Final = 5.0
# A new process has no data yet: a check that has never passed is logged as failing only after this
# time.
START_S: Final = 20.0
RUNBOOK: Final = "docs/runbook.md"
NUMBERS: Final = re.compile(r"[\d,.]+")
STOPPING: Final = "stopping"  # the check that fails during a requested stop; not logged here

Results: TypeAlias = Mapping[str, str]
Look: TypeAlias = Callable[[], Awaitable[Results]]
Keep: TypeAlias = Callable[[Results], Awaitable[None]]


@dataclass(slots=True)
class _Trouble:
    """A check that fails now: since when, and the reason in the log ("" if none is logged yet)."""

    since_s: float
    logged: str = ""


@dataclass(eq=False, repr=False)
class CheckWatch:
    """Runs checks, and logs each one that starts to fail, gives another reason or passes again."""

    check: Look  # returns "ok" or the reason for the failure, by name of the check
    clock: Clock
    vital: Collection[str] = ()  # needed for readiness; empty: readiness is not exported
    keep: Keep | None = None  # stores changes of the logged failures for other processes

    def __post_init__(self) -> None:
        self._kept: Results | None = None
        self._failing: dict[str, _Trouble] = {}
        self._passed: set[str] = set()
        self._began_s = self.clock.monotonic_s()

    async def run(self) -> None:
        """Run all checks every LOOK_S seconds until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Run every check once; log changes and update the metrics."""
        results = await self.check()
        for name, said in results.items():
            self._note(name, said)
        if self.vital:
            READY.set(all(results.get(name) == OK for name in self.vital))
        CHECKED_AT.set(self.clock.now() / SECOND_MS)
        logged = [name for name, trouble in self._failing.items() if trouble.logged]
        await self._keep_failing({name: said for name, said in results.items() if name in logged})

    def _note(self, name: str, said: str) -> None:
        now_s = self.clock.monotonic_s()
        CHECK_OK.labels(name).set(said == OK)
        if said == OK:
            self._passed.add(name)
            trouble = self._failing.pop(name, None)
            if trouble is not None and trouble.logged:
                log.info("check_passes", check=name, after_s=round(now_s - trouble.since_s))
            return
        trouble = self._failing.setdefault(name, _Trouble(now_s))
        is_new = _bare(said) != _bare(trouble.logged)
        if is_new and self._may_be_logged(name, now_s):
            trouble.logged = said
            log.warning("check_fails", check=name, reason=said, runbook=f"{RUNBOOK}#{name}")

    async def _keep_failing(self, failing: Results) -> None:
        """Store the failures *failing*, unless they differ from the stored ones only in numbers."""
        bare = {name: _bare(said) for name, said in failing.items()}
        if self.keep is None or bare == self._kept:
            return
        try:
            await self.keep(failing)
        except ServiceUnavailable:  # the check of the store reports this failure
            self._kept = None
        else:
            self._kept = bare

    def _may_be_logged(self, name: str, now_s: float) -> bool:
        return name != STOPPING and (name in self._passed or now_s - self._began_s >= START_S)

    def forget(self) -> None:
        """Remove the results of the checks from the metrics, because the checks no longer run."""
        for name in {*self._passed, *self._failing}:
            CHECK_OK.remove(name)


def _bare(said: str) -> str:
    """Return the reason *said* without its numbers, which change while a check fails."""
    return NUMBERS.sub("", said)


class Attempts:
    """A check that fails after *failures_max* failed attempts in a row, until an attempt succeeds.

    The check also passes again after an hour without a failed attempt.
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        counter: Counter,  # the metric that counts attempts by outcome
        clock: Clock,
        *,
        good: str,  # the label of *counter* for success
        bad: str,  # its label for failure
        failures_max: int,
        advice: str,  # the end of the error message
    ) -> None:
        self._good = counter.labels(good)
        self._bad = counter.labels(bad)
        self._clock = clock
        self._failures_max = failures_max
        self._advice = advice
        self._succeeded, self._failed = self._counts()
        self._in_a_row = 0
        self._failed_at_s = clock.monotonic_s()

    async def expect_success(self) -> None:
        """Raise ServiceUnavailable if the last `failures_max` attempts have failed.

        Failures are forgotten if there is none for an hour.
        """
        succeeded, failed = self._counts()
        now_s = self._clock.monotonic_s()
        has_succeeded = succeeded != self._succeeded
        # Reset before new failures are counted, because they begin a new row.
        if has_succeeded or now_s - self._failed_at_s >= HOUR_S:
            self._in_a_row = 0
        if failed != self._failed:
            self._failed_at_s = now_s
            # If attempts of both kinds have ended, assume that a success was the last one.
            if not has_succeeded:
                self._in_a_row += int(failed - self._failed)
        self._succeeded = succeeded
        self._failed = failed
        if self._in_a_row >= self._failures_max:
            which = (
                "the last attempt" if self._in_a_row == 1 else f"{self._in_a_row} attempts in a row"
            )
            raise ServiceUnavailable(f"{which} failed: {self._advice}")

    def _counts(self) -> tuple[float, float]:
        return _value(self._good), _value(self._bad)


def _value(counter: Counter) -> float:
    return next(sample.value for metric in counter.collect() for sample in metric.samples)
