"""`/status`: the age of the data, gaps in it, and whether sales are open."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

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
from mintscope.site.page import Page, PageResponse
from mintscope.site.routes import PageRequest, PageRoute, get
from mintscope.solana.blocks import Gap
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace

PATH: Final = "/status"
REMEMBERED_MS: Final = 2_000  # the status is cached, so that frequent requests cost little
OK: Final = "ok"
UNREAD: Final = "the newest block is unknown"
# The text of each invariant if it holds; the audit has the texts for violations.
HOLDS: Final[Mapping[Invariant, str]] = {
    Invariant.LANDED_IS_ISSUED: "Every payment on chain has been credited",
    Invariant.LANDED_IS_KNOWN: "Every payment on chain is in the books",
    Invariant.ISSUED_IS_FINAL: "Every credited payment becomes final",
    Invariant.ISSUED_IS_ENTERED: "Every purchase is in the journal",
    Invariant.ENTRY_IS_PAID: "Every purchase in the journal was paid",
    Invariant.PAID_IS_ENOUGH: "Every purchase was paid in full",
    Invariant.BALANCE_IS_SUM: "Every balance is the sum of its entries",
    Invariant.KEYS_ADD_UP: "The spends of API keys add up by month",
    Invariant.MOVES_CANCEL: "Credits that users moved add up",
    Invariant.ROTATIONS_CANCEL: "Rotations neither make nor lose credits",
    Invariant.FREEZES_CANCEL: "Frozen credits match their payments",
    Invariant.MONTHS_ARE_CHAINED: "Closed months are unchanged",
}
NAMES: Final = {
    "store": "Credits can be taken",
    "data": "Data is up to date",
    "gaps": "No block of the last day is missing",
    "sales": "Credits are sold",
    "chain": "The node that settles payments answers",
    "ingest": "All checks of ingest pass",
    "stopping": "This process takes requests",
    "lists": "The list of tokens is loaded",
    "rate": "SOL has a rate",
    "coverage": "Exchanges are read",
    "processes": "No process has ended",
    "finality": "Blocks become final",
    "fold": "Candles and lists follow the final blocks",
    "price": "The payment tokens have a price",
    "audits": "The books are audited",
    "list_age": "The list of tokens is current",
    "signals": "Alerts are evaluated",
    "streams": "More streams can be opened",
    "mail": "E-mails are sent",
    "webhooks": "Webhooks arrive",
    "disk": "The disk has free space",
    "memory": "Memory is available",
    "wal": "The write-ahead log is short",
    "backup": "There is a recent backup",
    "address": "Clients reach the service, and its certificate is good",
}


# The texts of failed checks.
FAULTS: Final = {
    "store": "Credits cannot be taken",
    "data": "The data is late",
    "gaps": "Blocks of the last day are missing",
    "sales": "Nothing is sold",
    "chain": "The node that settles payments does not answer",
    "ingest": "Ingest says",
    "stopping": "This process stops",
    "lists": "The list of tokens is being loaded",
    "rate": "SOL has no rate, so prices stand still",
    "coverage": "Too little of what is exchanged is read",
    "processes": "A process has ended for good",
    "finality": "Blocks do not become final",
    "fold": "Candles and lists lag behind the final blocks",
    "price": "A payment token has no price, so nothing is sold for it",
    "audits": "The books cannot be audited",
    "list_age": "The list of tokens is old",
    "signals": "Alerts are not evaluated",
    "streams": "Nearly no further stream can be opened",
    "mail": "E-mails are not sent",
    "webhooks": "Webhooks do not arrive",
    "disk": "The disk fills up",
    "memory": "Memory runs out",
    "wal": "The write-ahead log grows",
    "backup": "There is no recent backup",
    "address": "Clients may not reach the service",
}


class Lateness(Enum):
    """The lateness of data, by its effect on requests.

    UNKNOWN   no block was read yet, or the age of the newest block is unknown
    """

    NONE = auto()
    DEGRADED = auto()
    STALE = auto()
    UNKNOWN = auto()


class AgeRules(NamedTuple):
    """The treatment of data by age, in seconds.

    degraded_after_s   age from which data is returned, but marked
    stale_after_s      age from which data is not returned
    retry_after_s      seconds that clients wait before they retry
    """

    degraded_after_s: float = 30.0
    stale_after_s: float = 300.0
    retry_after_s: int = 5

    def of(self, age_ms: int | None) -> Lateness:
        """Return the lateness of data of age *age_ms* (None: unknown)."""
        if age_ms is None:
            return Lateness.UNKNOWN
        if age_ms > self.stale_after_s * SECOND_MS:
            return Lateness.STALE
        is_degraded = age_ms > self.degraded_after_s * SECOND_MS
        return Lateness.DEGRADED if is_degraded else Lateness.NONE


class MarketStatus(NamedTuple):
    """The position of the market.

    slot                the newest block; None before the first block
    folded_slot         the newest block that is final and counted in the list of tokens; None
                        before the first
    age_ms              age of the newest block; None before the first block
    tracked_count       number of tracked tokens
    gaps                newest open gaps, newest first; *gap_count* and *gap_slots* count all gaps
    pace                pace of the chain; None until some blocks have arrived
    finality            delay until a block is final; None until it has been measured
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
        """The estimated number of slots since *slot*; None if the pace or the age is unknown."""
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
    market       None if the position cannot be read
    books        None if nothing is sold, or if the books cannot be read
    is_selling   whether this process takes payments
    rules        the treatment of data by its age
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
        """Return the routes of this group."""
        yield get(PATH, self.show)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the health of the service."""
        async with self._reading:
            kept = self._newest
            if kept is None or request.now - kept[0] >= REMEMBERED_MS:
                kept = self._newest = request.now, await self._read()
        read_at, status = kept
        lateness = status.rules.of(None if status.market is None else status.market.age_ms)
        checks = dict(status.checks)
        if lateness is not Lateness.NONE and checks.get("data", OK) == OK:
            checks["data"] = UNREAD
        wrong = {name: text for name, text in checks.items() if text != OK}
        facts = {
            "status": status,
            "checks": checks,
            "wrong": wrong,
            "names": NAMES,
            "faults": FAULTS,
            "lateness": lateness.name.lower(),
            "coverage": _coverage(status.coverage),
            "newest_at": _newest_at(status.market, read_at),
            "sales": _why_closed(wrong),
            "up_s": (request.now - status.started_at) // SECOND_MS,
            "read_at": read_at,
            "invariants": [HOLDS[each] for each in Invariant],
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
    """Return a program and its missed calls; reasons are in plain words."""
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
    return why.removeprefix("closed: ").removesuffix(": credits go on working")
