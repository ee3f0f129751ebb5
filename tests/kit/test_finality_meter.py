"""The delay of finality is measured from confirmed and final slots, in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.primitives import Slot
from mintscope.solana.finality_meter import MARKS_MAX, SAMPLES_MAX, Behind, FinalityMeter


@pytest.mark.parametrize(
    ("slot_s", "lag", "said"),
    [(0.2, 2, "fast"), (0.4, 32, "slow"), (0.1, 3, "fast"), (0.8, 0, "fast")],
)
def test_the_finality_of_a_steady_chain_is_measured(slot_s: float, lag: int, said: str) -> None:
    meter = FinalityMeter()
    for slot in range(1_000, 1_200):
        meter.note_confirmed(Slot(slot), slot * slot_s)
        meter.note_final(Slot(slot - lag), slot * slot_s)

    assert meter.behind is not None
    assert meter.behind.slots == lag
    assert meter.behind.seconds == pytest.approx(lag * slot_s)
    assert meter.behind.is_fast is (said == "fast")


def test_slots_below_the_first_confirmed_slot_are_not_measured() -> None:
    meter = FinalityMeter()
    meter.note_final(Slot(5), 0.0)
    meter.note_confirmed(Slot(1_000), 1.0)
    meter.note_final(Slot(999), 2.0)

    assert meter.behind is None
    meter.note_final(Slot(1_000), 3.0)
    assert meter.behind == Behind(0, 2.0)


def test_a_slot_between_two_confirmed_slots_is_confirmed_with_the_later() -> None:
    meter = FinalityMeter()
    meter.note_confirmed(Slot(10), 1.0)
    meter.note_confirmed(Slot(20), 2.0)
    meter.note_final(Slot(15), 2.5)

    assert meter.behind == Behind(5, 0.5)


def test_a_slot_that_is_final_before_it_is_confirmed_has_no_delay() -> None:
    meter = FinalityMeter()
    meter.note_confirmed(Slot(10), 1.0)
    meter.note_final(Slot(12), 1.5)
    meter.note_confirmed(Slot(12), 1.6)
    meter.note_final(Slot(12), 9.0)

    assert meter.behind == Behind(0, 0.0)


def test_marks_are_bounded_if_no_slot_becomes_final() -> None:
    meter = FinalityMeter()
    for slot in range(2 * MARKS_MAX):
        meter.note_confirmed(Slot(slot), float(slot))
    meter.note_final(Slot(5), 3_000.0)

    assert meter.behind is None
    meter.note_final(Slot(2 * MARKS_MAX - 1), 2.0 * MARKS_MAX)
    assert meter.behind == Behind(0, 1.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=300))
def test_the_delay_after_notes_in_any_order_agrees_with_an_oracle(
    said: list[tuple[bool, int]],
) -> None:
    """For each final slot, the oracle finds the first confirmed slot that is not below it."""
    meter = FinalityMeter()
    heads: list[tuple[int, int]] = []
    samples: list[tuple[int, int]] = []
    known_to = -1
    for at, (is_final, slot) in enumerate(said):
        if not is_final:
            meter.note_confirmed(Slot(slot), float(at))
            if not heads and not samples:
                known_to = max(known_to, slot - 1)
            heads.append((slot, at))
            continue
        meter.note_final(Slot(slot), float(at))
        if slot > known_to and heads:
            first = next((when for head, when in heads if head >= slot), at)
            newest = max(head for head, _ in heads)
            samples.append((max(newest - slot, 0), at - first))
            known_to = slot
    if samples:
        seconds = sorted(each for _, each in samples[-SAMPLES_MAX:])
        assert meter.behind is not None
        assert seconds[0] <= meter.behind.seconds <= seconds[-1]
        assert meter.behind.slots >= 0
        middle = len(seconds) // 2
        if len(seconds) % 2:
            assert meter.behind.seconds == seconds[middle]
    else:
        assert meter.behind is None


@pytest.mark.parametrize("absurd", [(2**53, None), (None, 2**53), (2**53, 2**53)])
@pytest.mark.parametrize("before", [0, 20])
def test_absurd_slots_are_forgotten(absurd: tuple[int | None, int | None], before: int) -> None:
    meter = FinalityMeter()
    confirmed, final = absurd
    for slot in range(before):
        meter.note_confirmed(Slot(slot), slot * 0.4)
        meter.note_final(Slot(slot - 2), slot * 0.4)
    at_s = before * 0.4
    if confirmed is not None:
        meter.note_confirmed(Slot(confirmed), at_s)
    if final is not None:
        meter.note_final(Slot(final), at_s)
    for slot in range(before, before + 2 * SAMPLES_MAX):
        meter.note_confirmed(Slot(slot), slot * 0.4)
        meter.note_final(Slot(slot - 5), slot * 0.4)

    assert meter.behind is not None
    assert meter.behind.slots == 5
    assert meter.behind.seconds == pytest.approx(2.0)
