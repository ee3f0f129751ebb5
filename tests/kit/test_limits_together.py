"""Limits of several windows at once, networks of one site, and keys that are forgotten."""

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import (
    Admitted,
    Denied,
    Limit,
    Limiter,
    MemoryLimits,
    MovingWindow,
    site_key,
    take_all,
)
from mintscope.kit.primitives import UnixMs

START = UnixMs(1_750_000_000_000)


@pytest.mark.parametrize(
    ("client", "site"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("somewhere", "somewhere"),
        ("2001:db8:1::/64", "2001:db8:1::/48"),
        ("2001:db8:1:8000::/64", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::/64", "2001:db8:1::/48"),
        ("2001:db8:2::/64", "2001:db8:2::/48"),
    ],
)
def test_networks_of_one_ipv6_site_count_together(client: str, site: str) -> None:
    assert site_key(client) == site


def windows(*counts: int) -> list[tuple[Limiter, str]]:
    limits = MemoryLimits(ManualClock(START))
    made = [limits.limiter(Limit(name=f"{n}", count=n, window_s=60)) for n in counts]
    return [(limiter, "key") for limiter in made]


async def test_a_request_counts_in_all_windows_or_in_none() -> None:
    wide, narrow = windows(3, 1)

    assert await take_all([wide, narrow]) is None
    assert await take_all([wide, narrow]) == Denied(60)  # the wide window gets its unit back
    assert await wide[0].take("key") == Admitted(1, 60)


async def test_a_request_does_not_count_in_windows_after_a_full_window() -> None:
    narrow, wide = windows(1, 3)
    await take_all([narrow, wide])

    assert await take_all([narrow, wide]) == Denied(60)
    assert await wide[0].take("key") == Admitted(1, 60)


async def test_the_oldest_keys_are_forgotten_if_there_are_more_than_keys_max() -> None:
    def window() -> MovingWindow:
        return MovingWindow(
            Limit(name="test", count=1, window_s=60), ManualClock(START), keys_max=4
        )

    few, many = window(), window()
    for key in "abc":
        await few.take(key)
    for key in "abcde":
        await many.take(key)

    assert await few.take("a") == Denied(60)
    assert await many.take("a") == Admitted(0, 60)
