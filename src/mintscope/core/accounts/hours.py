"""Numbers of each hour, of all processes together: what administrators see in plots."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS

HOURS_KEPT: Final = 31 * 24


class HourSeries(StrEnum):
    """What is counted; LAG_MS is the highest of the hour, the others are sums."""

    ANSWERED = "answered"  # requests below 400
    UNPAID = "unpaid"  # 402
    REFUSED = "refused"  # other 4xx
    FAILED = "failed"  # 5xx
    PAID = "paid"  # payments that settled
    CREDITS_USED = "credits_used"
    LAG_MS = "lag_ms"  # age of the newest block


def hour_of(at: UnixMs) -> int:
    """Return the number of the hour, since 1970-01-01 UTC, that *at* lies in."""
    return at // HOUR_MS


class HourRows(Protocol):
    """Numbers of hours inside one transaction."""

    def add(self, hour: int, values: Mapping[HourSeries, int]) -> None:
        """Add *values* to those of the hour; of LAG_MS the highest is kept."""

    def since(self, hour: int) -> Mapping[HourSeries, Mapping[int, int]]:
        """Return the numbers of *hour* and later, by series and hour."""

    def purge(self, before: int) -> None:
        """Delete the numbers of hours before *before*."""
