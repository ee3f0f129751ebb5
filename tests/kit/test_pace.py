"""The pace of a chain, fast or slow, is measured from slots and times in whole seconds."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.primitives import Slot, UnixS
from mintscope.solana.pace import (
    SLOT_S_MAX,
    SLOT_S_MIN,
    Pace,
    PaceMeter,
    pace_between,
    pace_of_samples,
)

PACES = [0.1, 0.2, 0.4, 0.8]
START = 1_790_000_000


def chain(
    slot_s: float, seconds: float, *, skipped: float = 0.0, seed: int = 0, begin: float = START
) -> Iterator[tuple[Slot, UnixS]]:
    """Yield slot and time of each block of a chain with slots of *slot_s* seconds.

    skipped   the share of slots without a block; these take *slot_s* seconds, too
    """
    random = Random(seed)
    for slot in range(int(seconds / slot_s)):
        if random.random() >= skipped:
            yield Slot(1_000_000 + slot), UnixS(int(begin + slot * slot_s))


def measured(blocks: Iterator[tuple[Slot, UnixS]]) -> Pace | None:
    meter = PaceMeter()
    for slot, time in blocks:
        meter.note(slot, time)
    return meter.pace


@pytest.mark.parametrize("slot_s", PACES)
def test_each_pace_is_measured(slot_s: float) -> None:
    pace = measured(chain(slot_s, 170))

    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_s, rel=0.02)
    assert pace.over_s == pytest.approx(169, abs=1)
    assert pace.slots(60) == pytest.approx(60 / slot_s, rel=0.02)
    assert pace.seconds(pace.slots(60)) == pytest.approx(60, rel=0.02)


@given(
    slot_s=st.floats(0.05, 1.0),
    seconds=st.floats(60, 400),
    skipped=st.floats(0, 0.1),
    begin=st.floats(START, START + 1),
    seed=st.integers(0, 2**32),
)
def test_a_minute_of_blocks_gives_the_pace_within_a_twentieth(
    slot_s: float, seconds: float, skipped: float, begin: float, seed: int
) -> None:
    pace = measured(chain(slot_s, seconds, skipped=skipped, seed=seed, begin=begin))

    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_s, rel=0.05)


@pytest.mark.parametrize("slot_s", PACES)
def test_a_leader_with_wrong_times_changes_the_pace_by_at_most_a_tenth(slot_s: float) -> None:
    """For 8 s, all blocks have the same time; later, for 8 s, blocks have times 15 s ahead."""

    def lying() -> Iterator[tuple[Slot, UnixS]]:
        newest = 0
        for slot, time in chain(slot_s, 180):
            reported = START + 60 if START + 60 <= time < START + 68 else int(time)
            reported = time + 15 if START + 100 <= time < START + 108 else reported
            newest = max(newest, reported)  # the log's times never go back
            yield slot, UnixS(newest)

    pace = measured(lying())

    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_s, rel=0.1)


def test_a_change_of_pace_is_followed_within_minutes() -> None:
    meter = PaceMeter()
    for slot, time in chain(0.4, 600):
        meter.note(slot, time)
    last = Slot(1_000_000 + 1_500)
    for number in range(1, 5 * 200):
        meter.note(Slot(last + number), UnixS(START + 600 + number // 5))

    assert meter.pace is not None
    assert meter.pace.slot_s == pytest.approx(0.2, rel=0.02)


@pytest.mark.parametrize("slot_s", PACES)
@pytest.mark.parametrize("off_s", [9_000, 2**32, -9_000, 170, -START])
@pytest.mark.parametrize("at", [0.02, 0.5, 0.99])
def test_one_wrong_time_does_not_change_the_pace(slot_s: float, off_s: int, at: float) -> None:
    blocks = list(chain(slot_s, 170))
    wrong = round(at * len(blocks))
    blocks[wrong] = (blocks[wrong][0], UnixS(blocks[wrong][1] + off_s))

    pace = measured(iter(blocks))

    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_s, rel=0.03)


@pytest.mark.parametrize("slot_s", PACES)
def test_the_pace_is_kept_while_a_wrong_time_holds_the_clock(slot_s: float) -> None:
    """Times in the log never go back: after a time far ahead, later blocks have that time, too."""
    meter = PaceMeter()
    for slot, time in chain(slot_s, 600):
        meter.note(slot, time if time < START + 170 else UnixS(START + 20_000))

    assert meter.pace is not None
    assert meter.pace.slot_s == pytest.approx(slot_s, rel=0.03)


def test_the_pace_is_kept_after_a_pause_until_there_are_enough_blocks() -> None:
    meter = PaceMeter(chain(0.4, 170))
    assert meter.pace is not None
    later = list(chain(0.2, 60, begin=START + 7_200))
    for number, (slot, time) in enumerate(later):
        meter.note(Slot(slot + 30_000), time)
        if number == 50:
            assert meter.pace.slot_s == pytest.approx(0.4, rel=0.03)

    assert meter.pace.slot_s == pytest.approx(0.2, rel=0.03)


def test_a_dead_slot_does_not_change_the_pace() -> None:
    calm, forked = PaceMeter(), PaceMeter()
    for slot, time in chain(0.2, 100):
        calm.note(slot, time)
        forked.note(slot, time)
    forked.note(Slot(1_000_400), UnixS(START + 9_000))  # one block of another fork
    for slot, time in list(chain(0.2, 100))[400:]:
        forked.note(slot, time)

    assert forked.pace is not None
    assert forked.pace == calm.pace


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(-(2**40), 2**40)), max_size=60))
def test_hostile_times_are_bounded(blocks: list[tuple[int, int]]) -> None:
    pace = measured((Slot(slot), UnixS(time)) for slot, time in blocks)

    assert pace is None or SLOT_S_MIN <= pace.slot_s <= SLOT_S_MAX


def test_too_few_blocks_give_no_pace() -> None:
    assert PaceMeter().pace is None
    assert measured(chain(0.2, 15)) is None


@pytest.mark.parametrize("slot_s", PACES)
def test_the_samples_of_a_node_give_the_pace(slot_s: float) -> None:
    slots = round(60 / slot_s)
    pace = pace_of_samples([(slots, 60), (slots + 1, 60), (0, 60), (1, 60), (slots, 60)])

    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_s, rel=0.02)
    assert pace_of_samples([]) is None
    assert pace_of_samples([(0, 60), (10, 0)]) is None


def test_two_blocks_give_the_pace_if_they_are_far_enough_apart() -> None:
    first = (Slot(10), UnixS(START))
    assert pace_between(first, (Slot(1_010), UnixS(START + 200))) == Pace(0.2, 200)
    assert pace_between(first, (Slot(20), UnixS(START + 2))) is None
    assert pace_between(first, first) is None
