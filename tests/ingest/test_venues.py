"""A venue is reported as silent if its pause is much longer than its usual pauses."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from prometheus_client import REGISTRY

from mintscope.ingest.coverage import VenueWatch
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixS

START: Final = 1_800_000_000


async def message_of(watch: VenueWatch) -> str:
    try:
        await watch.expect_none_silent()
    except ServiceUnavailable as trouble:
        return str(trouble)
    return ""


async def first_silent(swaps: Callable[[int], dict[str, int]], seconds: int) -> int | None:
    """Return the first of *seconds* seconds at which a venue is reported as silent; None: never.

    swaps   returns the number of swaps by program in a given second
    """
    watch = VenueWatch()
    for second in range(seconds):
        watch.note(UnixS(START + second), Counter(swaps(second)))
        if await message_of(watch):
            return second
    return None


async def test_a_busy_venue_that_stops_is_reported_after_half_a_minute() -> None:
    watch = VenueWatch()
    for second in range(3_600):
        watch.note(UnixS(START + second), {"busy": 3, "other": 1})
    for second in range(3_600, 3_631):
        assert await message_of(watch) == ""
        watch.note(UnixS(START + second), {"other": 1})
    assert "1 programs no longer have swaps: busy for 31 s" in await message_of(watch)
    assert REGISTRY.get_sample_value("mintscope_venue_silent_s", {"program": "busy"}) == 31
    assert REGISTRY.get_sample_value("mintscope_venue_silent_s", {"program": "other"}) == 0
    watch.note(UnixS(START + 3_631), {"busy": 1, "other": 1})
    assert await message_of(watch) == ""


async def test_a_rare_venue_is_not_reported_for_its_usual_pauses() -> None:
    """Swaps are at random times, on average every two minutes; pauses last up to ten minutes."""
    drawn = random.Random(5)
    when = {second for second in range(86_400) if drawn.random() < 1 / 120}
    at = await first_silent(lambda second: {"rare": 1} if second in when else {}, 86_400)
    assert at is None


async def test_a_rare_venue_that_stops_is_reported_later() -> None:
    drawn = random.Random(6)
    when = {second for second in range(14_400) if drawn.random() < 1 / 60}
    at = await first_silent(lambda second: {"rare": 1} if second in when else {}, 18_000)
    assert at is not None
    assert 14_400 < at < 16_200


async def test_a_program_with_a_single_burst_is_not_reported_as_silent() -> None:
    at = await first_silent(lambda second: {"new": 50} if second < 300 else {"old": 1}, 3_600)
    assert at is None


async def test_no_venue_is_silent_while_the_chain_stands_still() -> None:
    """The blocks are from 2023, so by the clock of the machine the silence would take years."""
    begin = 1_700_000_000
    end = begin + 1_199
    watch = VenueWatch()
    for second in range(begin, end + 1):
        watch.note(UnixS(second), {"still": 3, "first": 1})
    assert await message_of(watch) == ""
    assert REGISTRY.get_sample_value("mintscope_venue_silent_s", {"program": "still"}) == 0


@pytest.mark.parametrize("block", [{"first": 1}, {"first": 1, "still": 3}], ids=["one", "both"])
@pytest.mark.parametrize("still_s", [11, 3_600])
async def test_the_time_for_which_the_chain_stood_still_counts_for_no_venue(
    still_s: int, block: dict[str, int]
) -> None:
    """The time counts neither as a silence, nor as a usual pause.

    block   the number of swaps by program in the first block after this time
    """
    watch = VenueWatch()
    for second in range(1_200):
        watch.note(UnixS(START + second), {"still": 3, "first": 1})
    again = START + 1_199 + still_s
    watch.note(UnixS(again), block)
    for second in range(again + 1, again + 31):
        assert await message_of(watch) == ""
        watch.note(UnixS(second), {"first": 1})
    assert await message_of(watch) == ""
    watch.note(UnixS(again + 31), {"first": 1})
    assert "1 programs no longer have swaps: still for 31 s" in await message_of(watch)


async def test_ten_seconds_between_two_blocks_count_for_a_venue() -> None:
    watch = VenueWatch()
    for second in range(1_200):
        watch.note(UnixS(START + second), {"still": 3, "first": 1})
    for passed_s in (10, 20, 30):
        watch.note(UnixS(START + 1_199 + passed_s), {"first": 1})
        assert await message_of(watch) == ""
    watch.note(UnixS(START + 1_230), {"first": 1})
    assert "still for 31 s" in await message_of(watch)
