"""Times are converted to UTC, and written in one form of ISO 8601."""

from datetime import UTC

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, DAY_S, iso_time, iso_time_ms, utc

AT = UnixMs(1_795_327_200_999)


def test_a_moment_is_written_in_whole_seconds_rounded_down() -> None:
    assert iso_time(AT) == "2026-11-22T06:00:00Z"
    assert iso_time(UnixMs(0)) == "1970-01-01T00:00:00Z"


def test_a_moment_with_milliseconds_has_three_digits_of_them() -> None:
    assert iso_time_ms(AT) == "2026-11-22T06:00:00.999Z"
    assert iso_time_ms(UnixMs(AT - 992)) == "2026-11-22T06:00:00.007Z"


def test_a_moment_is_in_utc_and_a_day_has_86400_seconds() -> None:
    assert utc(AT).tzinfo is UTC
    assert (DAY_S, DAY_MS) == (86_400, 86_400_000)
