"""The data of the status page, gathered from the parts of this process."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mintscope.base.errors import ErrorCode, ServiceUnavailable, UnusableStore
from mintscope.base.primitives import UnixMs
from mintscope.core.market.store import MarketReader
from mintscope.core.payments.books.closure import violation_of
from mintscope.core.payments.books.treasury import ScanScope
from mintscope.edges.api.check import Check, result_of
from mintscope.edges.api.failures import RETRY_S
from mintscope.edges.api.health import ReadCoverage, no_coverage
from mintscope.edges.follow.follower import Follower
from mintscope.edges.web.front.status import (
    AgeRules,
    BooksStatus,
    MarketStatus,
    ServiceStatus,
)
from mintscope.shell.config.sections import ApiConfig
from mintscope.shell.wiring.payments import Sales

GAPS_SHOWN: Final = 5
READ_S: Final = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatusReader:
    """Reads the status; what cannot be read in time is None.

    sales        None where nothing is sold
    started_at   when this process began to answer
    rules        how late data may be
    coverage     what was read and missed lately
    """

    checks: Sequence[Check]
    reader: MarketReader
    follower: Follower
    sales: Sales | None
    started_at: UnixMs
    rules: AgeRules
    coverage: ReadCoverage = no_coverage

    async def __call__(self) -> ServiceStatus:
        """Return the status as it is now."""
        results, market, books = await asyncio.gather(
            asyncio.gather(*map(result_of, self.checks)),
            _in_time(self._market()),
            _in_time(self._books()),
        )
        names = [check.name for check in self.checks]
        return ServiceStatus(
            checks=dict(zip(names, results, strict=True)),
            market=market,
            books=books,
            started_at=self.started_at,
            is_selling=self.sales is not None,
            rules=self.rules,
            coverage=self.coverage(),
        )

    async def _market(self) -> MarketStatus:
        overview, gaps = await self.reader.overview(), await self.reader.gaps(GAPS_SHOWN)
        return MarketStatus(
            slot=overview.slot,
            folded_slot=overview.folded_slot,
            age_ms=self.follower.age_ms(),
            tracked_count=overview.tracked_count,
            gap_count=overview.gap_count,
            gap_slots=overview.gap_slots,
            gaps=gaps,
            pace=self.follower.pace(),
            finality=self.follower.finality(),
        )

    async def _books(self) -> BooksStatus | None:
        if self.sales is None:
            return None
        books = self.sales.maintenance.books
        why, scan = await books.why_stopped(), await books.scan(ScanScope.NEW)
        return BooksStatus(violation_of(why), None if scan is None else scan.finished_at)


def age_rules(api: ApiConfig) -> AgeRules:
    """Return what is done with data of what age."""
    return AgeRules(api.degraded_after_s, api.stale_after_s, RETRY_S[ErrorCode.DATA_STALE])


async def _in_time(reading: Coroutine[Any, Any, T]) -> T | None:
    try:
        async with asyncio.timeout(READ_S):
            return await reading
    except (ServiceUnavailable, UnusableStore, TimeoutError):
        return None
