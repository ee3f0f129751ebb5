"""Numbers of each hour, of all processes together: what administrators see in plots."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS

HOURS_KEPT: Final = 31 * 24


class HourSeries(StrEnum):
    """Counts beside requests: sums, but LAG_MS, the highest of the hour, and FUND."""

    PAID = "paid"  # payments that settled, in the hour when they did: at once or later
    CREDITS_SOLD = "credits_sold"
    CREDITS_USED = "credits_used"
    LAG_MS = "lag_ms"  # age of the newest block
    FUND = "fund"  # lamports of the fee payer that are not reserved, the last of the hour


# Of a member of HourSeries, or as `requests_of` names it.
Series = str
REQUESTS: Final = "status:"


def requests_of(status: int) -> Series:
    """Return the series of requests answered by *status*."""
    return f"{REQUESTS}{status}"


def status_of(series: Series) -> int | None:
    """Return the status whose requests *series* counts; None for those of another kind."""
    return int(series.removeprefix(REQUESTS)) if series.startswith(REQUESTS) else None


def hour_of(at: UnixMs) -> int:
    """Return the number of the hour, since 1970-01-01 UTC, that *at* lies in."""
    return at // HOUR_MS


class HourRows(Protocol):
    """Numbers of hours inside one transaction."""

    def add(self, hour: int, values: Mapping[Series, int]) -> None:
        """Add *values* to those of the hour; of LAG_MS the highest is kept, of FUND the last."""

    def since(self, hour: int) -> Mapping[Series, Mapping[int, int]]:
        """Return the numbers of *hour* and later, by series and hour."""

    def purge(self, before: int) -> None:
        """Delete the numbers of hours before *before*."""
