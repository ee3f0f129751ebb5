"""A 402 offers a young blockhash or none, for all answers of nodes and at every pace."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mintscope.payments.protocol.envelope import RecentBlockhash
from mintscope.payments.reconciler import KEPT, RecentBlockhashes


def recent(height: int, left: int = 150) -> RecentBlockhash:
    """Return the recent blockhash of the block at *height*, which expires *left* blocks later."""
    return RecentBlockhash(
        blockhash=f"hash-{height}",
        slot=height + 9,
        last_valid_height=height + 150,
        blocks_left=left,
    )


@pytest.mark.parametrize("slot_s", [0.1, 0.2, 0.4, 0.8])
def test_a_blockhash_is_offered_for_a_fifth_of_its_life(slot_s: float) -> None:
    known = RecentBlockhashes()
    assert known.young(now_s=0, slot_s=slot_s) is None
    known.note(recent(1_000), now_s=5, slot_s=slot_s)

    assert known.young(now_s=5, slot_s=slot_s) == recent(1_000)
    assert known.young(now_s=5 + 10.5 * slot_s, slot_s=slot_s) == recent(1_000, 139)
    assert known.young(now_s=5 + 30 * slot_s, slot_s=slot_s) == recent(1_000, 120)
    assert known.young(now_s=5.001 + 30 * slot_s, slot_s=slot_s) is None
    assert known.young(now_s=5, slot_s=slot_s, height=1_030) == recent(1_000, 120)
    assert known.young(now_s=5, slot_s=slot_s, height=1_031) is None


def test_a_blockhash_ages_while_a_node_repeats_it() -> None:
    known = RecentBlockhashes()
    for second in range(8):
        known.note(recent(1_000), now_s=second, slot_s=0.2)

    assert known.young(now_s=6, slot_s=0.2) == recent(1_000, 120)
    assert known.young(now_s=6.1, slot_s=0.2) is None


def test_a_node_that_lags_does_not_replace_a_young_blockhash() -> None:
    known = RecentBlockhashes()
    known.note(recent(1_000), now_s=0, slot_s=0.2)
    known.note(recent(980), now_s=1, slot_s=0.2)
    assert known.young(now_s=1, slot_s=0.2) == recent(1_000, 145)
    known.note(recent(10), now_s=7, slot_s=0.2)  # the node now serves another chain

    assert known.young(now_s=7, slot_s=0.2) == recent(10)


def test_a_repeated_blockhash_is_as_old_as_its_first_report() -> None:
    """A node that has stopped repeats its blockhash; this does not make the blockhash younger."""
    known = RecentBlockhashes()
    known.note(recent(1_000), now_s=0, slot_s=0.2)
    known.note(recent(990), now_s=4, slot_s=0.2)
    known.note(recent(990), now_s=7, slot_s=0.2)

    assert known.young(now_s=7, slot_s=0.2) == recent(990, 135)
    assert known.young(now_s=10.1, slot_s=0.2) is None


def test_only_the_newest_blockhashes_are_remembered() -> None:
    known = RecentBlockhashes()
    for height in range(KEPT + 1):
        known.note(recent(height), now_s=height, slot_s=0.2)

    assert known.last_valid_height("hash-0") is None
    assert known.last_valid_height("hash-1") == 151
    assert known.last_valid_height(f"hash-{KEPT}") == KEPT + 150


@given(
    slot_s=st.sampled_from([0.1, 0.2, 0.4, 0.8]),
    answers=st.lists(
        st.tuples(st.floats(0.01, 10), st.integers(0, 60), st.booleans()), min_size=1, max_size=40
    ),
    after_s=st.floats(0, 10),
)
@example(slot_s=0.1, answers=[(1.0, 0, False), (0.5, 6, False), (3.0, 0, True)], after_s=0.0)
def test_an_offered_blockhash_has_four_fifths_of_its_life_left(
    slot_s: float, answers: list[tuple[float, int, bool]], after_s: float
) -> None:
    """The nodes that answer are up to 60 blocks behind or stand still, while the chain goes on.

    A lagging node cannot be recognised without another source, so the bounds allow for
    its lag, and for nothing else.
    """
    known, now_s, stood_at, lag_max = RecentBlockhashes(), 0.0, 0, 0
    for pause_s, lag, stands in answers:
        now_s += pause_s
        tip = int(now_s / slot_s) + 1_000
        stood_at = stood_at if stands and stood_at else max(tip - lag, 0)
        lag_max = max(lag_max, lag)
        known.note(recent(stood_at), now_s=now_s, slot_s=slot_s)
    now_s += after_s
    offered, tip = known.young(now_s=now_s, slot_s=slot_s), int(now_s / slot_s) + 1_000

    if offered is not None:
        assert tip - (offered.last_valid_height - 150) <= 31 + 2 * lag_max
        assert 120 <= offered.blocks_left <= offered.last_valid_height - tip + 1 + 2 * lag_max
    exact = known.young(now_s=now_s, slot_s=slot_s, height=tip)
    assert exact is None or exact.last_valid_height >= tip + 120
    assert exact is None or exact.blocks_left <= exact.last_valid_height - tip
    assert exact is None or (offered is not None and exact.blockhash == offered.blockhash)
