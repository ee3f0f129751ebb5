"""Units of time in seconds and milliseconds, calendar months, and ISO 8601."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NewType

from mintscope.kit.primitives import UnixMs

TIME_MAX: Final = 1 << 33  # Unix seconds, in the year 2242; a time in milliseconds is larger

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

Month = NewType("Month", int)  # a calendar month in UTC: 12 * year + month - 1
MONTHS: Final = 12


def month_of(at: UnixMs) -> Month:
    """Return the calendar month in UTC that contains *at*."""
    moment = utc(at)
    return Month(MONTHS * moment.year + moment.month - 1)


def month_end(month: Month) -> UnixMs:
    """Return the end of *month*, which is the start of the next month."""
    year, number = divmod(month + 1, MONTHS)
    return UnixMs(int(datetime(year, number + 1, 1, tzinfo=UTC).timestamp()) * SECOND_MS)


def utc(at: UnixMs) -> datetime:
    """Return *at* as a datetime in UTC, rounded down to seconds."""
    return datetime.fromtimestamp(at // SECOND_MS, UTC)


def iso_time(at: UnixMs) -> str:
    """Return *at* in ISO 8601 rounded down to seconds: 2026-11-22T06:13:20Z."""
    return f"{_second(at // SECOND_MS)}Z"


def iso_time_ms(at: UnixMs) -> str:
    """Return *at* in ISO 8601 with milliseconds: 2026-11-22T06:13:20.007Z."""
    return f"{_second(at // SECOND_MS)}.{at % SECOND_MS:03d}Z"


@lru_cache(maxsize=256)  # thousands of responses a second have the same time
def _second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"
