"""`/status`: the age of the data, gaps in it, and whether sales are open."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from mintscope.credits.invariants import Invariant
from mintscope.dex.recognition import named
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.kit.time import SECOND_MS
from mintscope.market.coverage import (
    MISSED_NAMED,
    Coverage,
    MissedProgram,
    missed_programs,
    percent,
    totals,
)
from mintscope.site.page import Page, PageResponse, read_texts
from mintscope.site.routes import PageRequest, PageRoute, get
from mintscope.solana.blocks import Gap
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace

PATH: Final = "/status"
REMEMBERED_MS: Final = 2_000  # the status is cached, so that frequent requests cost little
OK: Final = "ok"
UNREAD: Final = "the newest block is unknown"


class CheckTexts(msgspec.Struct, frozen=True):
    """The texts about a check: one if the check passes, and one if it fails."""

    passes: str
    fails: str


class StatusTexts(msgspec.Struct, frozen=True):
    """The texts of each check, and of each invariant for the case that it holds, by name."""

    checks: dict[str, CheckTexts]
    invariants: dict[str, str]


TEXTS: Final = read_texts("status.toml", StatusTexts)


# The lateness of data, by its effect on requests.
Lateness = Literal["none", "degraded", "stale", "unknown"]


class AgeRules(NamedTuple):
    """The ages at which data is marked or refused, and the pause before a retry, in seconds.

    degraded_after_s   age from which data is returned, but marked
    stale_after_s      age from which data is not returned
    retry_after_s      seconds that clients wait before they retry
    """

    degraded_after_s: float = 30.0
    stale_after_s: float = 300.0
    retry_after_s: int = 5

    def of(self, age_ms: int | None) -> Lateness:
        """Return the lateness of data: none, degraded or stale; unknown if *age_ms* is None."""
        if age_ms is None:
            return "unknown"
        if age_ms > self.stale_after_s * SECOND_MS:
            return "stale"
        return "degraded" if age_ms > self.degraded_after_s * SECOND_MS else "none"


class MarketStatus(NamedTuple):
    """The newest block, the gaps, and the pace of the chain, as this process knows them.

    slot          the newest block; None before the first block
    folded_slot   the newest block that is final and counted in the list of tokens; None before the
                  first
    age_ms        age of the newest block, in milliseconds; None before the first block
    gaps          newest open gaps, newest first; *gap_count* counts all open gaps, and *gap_slots*
                  their slots
    pace          pace of the chain; None until some blocks have arrived
    finality      delay until a block is final; None until it has been measured
    """

    slot: Slot | None
    folded_slot: Slot | None
    age_ms: int | None
    tracked_count: int
    gap_count: int
    gap_slots: int
    gaps: Sequence[Gap]
    pace: Pace | None = None
    finality: Behind | None = None

    @property
    def behind(self) -> int | None:
        """The estimated number of slots since the newest one read.

        It is None if the pace or the age is unknown.
        """
        if self.age_ms is None or self.pace is None:
            return None
        return int(self.age_ms / SECOND_MS / self.pace.slot_s)


class BooksStatus(NamedTuple):
    """Whether the books of payments add up.

    violation     finding for which an audit has stopped sales; None if there is none
    compared_at   time of the last comparison with the chain; None before the first one
    """

    violation: str | None
    compared_at: UnixMs | None


class ServiceStatus(NamedTuple):
    """The complete status at one moment.

    checks       "ok" or the problem, by name of the check
    market       the state of the market's data; None if it cannot be read
    books        None if nothing is sold, or if the books cannot be read
    is_selling   whether this process takes payments
    coverage     exchanges read and missed recently; None if they are not counted
    """

    checks: Mapping[str, str]
    market: MarketStatus | None
    books: BooksStatus | None
    started_at: UnixMs
    is_selling: bool
    rules: AgeRules = AgeRules()
    coverage: Coverage | None = None


ReadStatus: TypeAlias = Callable[[], Awaitable[ServiceStatus]]


class StatusPages:
    """The page at `/status`."""

    def __init__(self, read: ReadStatus) -> None:
        self._read = read
        self._newest: tuple[UnixMs, ServiceStatus] | None = None
        self._reading = asyncio.Lock()

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the page `/status`."""
        yield get(PATH, self.show)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the health of the service."""
        # Under a lock, so that simultaneous requests share one read.
        async with self._reading:
            kept = self._newest
            if kept is None or abs(request.now - kept[0]) >= REMEMBERED_MS:
                kept = self._newest = request.now, await self._read()
        read_at, status = kept
        lateness = status.rules.of(None if status.market is None else status.market.age_ms)
        checks = dict(status.checks)
        if lateness != "none" and checks.get("data", OK) == OK:
            checks["data"] = UNREAD
        wrong = {name: text for name, text in checks.items() if text != OK}
        facts = {
            "status": status,
            "checks": checks,
            "wrong": wrong,
            "names": {name: texts.passes for name, texts in TEXTS.checks.items()},
            "faults": {name: texts.fails for name, texts in TEXTS.checks.items()},
            "lateness": lateness,
            "coverage": _coverage(status.coverage),
            "newest_at": _newest_at(status.market, read_at),
            "sales": _why_closed(wrong),
            "up_s": (request.now - status.started_at) // SECOND_MS,
            "read_at": read_at,
            "invariants": [TEXTS.invariants[each.name] for each in Invariant],
        }
        return Page("front/status.html", facts)


def _newest_at(market: MarketStatus | None, read_at: UnixMs) -> UnixMs | None:
    """Return the time of the newest block, or None if it is unknown."""
    if market is None or market.age_ms is None:
        return None
    return UnixMs(read_at - market.age_ms)


def _coverage(coverage: Coverage | None) -> dict[str, object] | None:
    """Return the recent coverage as template values, or None if it is not counted."""
    if coverage is None:
        return None
    found = totals(coverage.rows)
    by_calls, by_volume = found.shares
    return {
        "since": UnixMs(coverage.since * SECOND_MS),
        "calls": None if by_calls is None else percent(by_calls),
        "volume": None if by_volume is None else percent(by_volume),
        "missed": found.missed.calls,
        "programs": [_missed(one) for one in missed_programs(coverage.rows)[:MISSED_NAMED]],
        "missing_slots": coverage.missing_slots,
        "skipped_slots": coverage.skipped_slots,
    }


def _missed(one: MissedProgram) -> dict[str, object]:
    reasons = [f"{calls:,} {reason.replace('_', ' ')}" for reason, calls in one.reasons.items()]
    return {
        "program": named(one.program),
        "missed": one.missed.calls,
        "calls": one.calls,
        "reasons": ", ".join(reasons),
    }


def _why_closed(wrong: Mapping[str, str]) -> str:
    """Return the reason why sales are closed, or "" if they are open."""
    why = wrong.get("sales") or wrong.get("chain") or ""
    return why.removeprefix("closed: ").removesuffix(": existing credits keep working")
