"""Exchanges read and missed, looked at once a minute: for reports, checks and pages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import structlog

from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.base.metrics import READ_SHARE
from mintscope.core.market.coverage import (
    WINDOW_HOURS,
    Coverage,
    CoverageReader,
    ReportCoverages,
    missed_programs,
    percent,
    report_coverages,
    totals,
)

LOG = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
SOON_S: Final = 1.0  # while there is nothing yet

Wait: TypeAlias = Callable[[float], Awaitable[None]]


class CoverageFollower:
    """The last coverage of this process; `run` keeps it current.

    cover      is called with what reports say of it
    share_min  less than this part of the calls, or of the volume, fails the check
    """

    def __init__(
        self,
        reader: CoverageReader,
        cover: Callable[[ReportCoverages], None],
        *,
        share_min: float,
        wait: Wait = asyncio.sleep,
    ) -> None:
        self._reader = reader
        self._cover = cover
        self._share_min = share_min
        self._wait = wait
        self.newest: Coverage | None = None

    async def try_to_look(self) -> None:
        """Look once; what cannot be read stays as it was, and says as of when."""
        try:
            await self.look()
        except (ServiceUnavailable, UnusableStore) as reason:  # ingest may not have made it yet
            LOG.warning("coverage cannot be read", reason=str(reason))

    async def run(self) -> None:
        """Look every minute until cancelled, and more often while there is nothing yet."""
        while True:
            await self._wait(SOON_S if self.newest is None else EVERY_S)
            await self.try_to_look()

    async def look(self) -> None:
        """Look once.  Raises ServiceUnavailable."""
        coverage = await self._reader.coverage(WINDOW_HOURS)
        if coverage is None:
            return
        self._cover(report_coverages(coverage, await self._reader.missed_mints()))
        self.newest = coverage
        for by, share in totals(coverage.rows).shares._asdict().items():
            if share is not None:
                READ_SHARE.labels(by.removeprefix("by_")).set(share)

    async def expect_read(self) -> None:
        """Raise ServiceUnavailable where too little of what was exchanged lately was read."""
        if self.newest is None:
            return
        by_calls, by_volume = totals(self.newest.rows).shares
        least = min((share for share in (by_calls, by_volume) if share is not None), default=1.0)
        if least >= self._share_min:
            return
        said = [
            f"{percent(share)} of the {of}"
            for share, of in ((by_volume, "volume"), (by_calls, "calls"))
            if share is not None
        ]
        most = ", ".join(one.program for one in missed_programs(self.newest.rows)[:3])
        raise ServiceUnavailable(
            f"expected {percent(self._share_min)} of what was exchanged to be read; was"
            f" {' and '.join(said)} of the last hour; missed most: {most}"
        )
