"""The place of a block in the log, whichever blocks a source yields, repeats or leaves out."""

from datetime import UTC, datetime

import msgspec
import pytest

from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.engine.fold import (
    Follows,
    ForkBelowFinalized,
    Hole,
    Known,
    Tail,
)
from mintscope.market.log import SlotHeader
from mintscope.market.pricing import sol_usd_samples
from mintscope.market.sol_rate import Sample
from mintscope.solana.blocks import Block, Gap, Tip
from support.fakes.made_chain import START, block, sol_sale

A = block(1, None)
B = block(2, A)
C = block(4, B)
B_FORK = block(2, A, fork="'")
C_FORK = block(3, B_FORK)


def tail_of(*blocks: Block, finalized: int | None = None) -> Tail:
    tail = Tail()
    for made in blocks:
        place = tail.place(made)
        assert not isinstance(place, Known)
        for _ in place.dead:
            tail.retract()
        tail.append(tail.header(made, ()))
    if finalized is not None:
        assert tail.finalize(Slot(finalized)) == finalized
    return tail


def dead(place: Known | Hole | Follows) -> list[int]:
    assert not isinstance(place, Known)
    return [header.slot for header in place.dead]


@pytest.mark.parametrize(
    ("log", "new", "place", "dying"),
    [
        ((), C, Follows, []),
        ((A,), B, Follows, []),
        ((A, B), C, Follows, []),  # slot 3 was skipped: its parent says so
        ((A, B), B, Known, None),
        ((A, B, C), A, Known, None),
        ((B, C), A, Known, None),  # from before the log
        ((A,), block(1, None, fork="'"), Hole, []),  # another block in the log's first slot
        ((A,), C, Hole, []),
        ((A, B), B_FORK, Follows, [2]),  # the same slot, another block
        ((A, B, C), B_FORK, Follows, [4, 2]),
        ((A, B), C_FORK, Hole, [2]),  # the parent's slot holds another block
        ((A, B, B_FORK), block(3, B), Hole, []),  # a child of a block that died
        ((A, B, B_FORK), B, Follows, [2]),  # back again
        ((A, B), block(3, Tip(Slot(3), "own")), Known, None),  # its own parent
    ],
)
def test_a_block_is_placed_by_its_parent(
    log: tuple[Block, ...], new: Block, place: type, dying: list[int] | None
) -> None:
    placed = tail_of(*log).place(new)

    assert isinstance(placed, place)
    if dying is not None:
        assert dead(placed) == dying


def test_final_slots_are_never_retracted() -> None:
    tail = tail_of(A, B, C, finalized=2)

    with pytest.raises(ForkBelowFinalized, match="finalized slot 2; block 3 has parent 2"):
        tail.place(C_FORK)
    with pytest.raises(ForkBelowFinalized, match="finalized slot 2; block 3 has parent 1"):
        tail.place(block(3, A, fork="'"))
    assert isinstance(tail.place(B_FORK), Known)  # its children will show it
    assert dead(tail.place(block(5, B))) == [4]


def test_a_dead_block_repeated_after_finality_is_known() -> None:
    late = block(9, A, fork="'")
    tail = tail_of(A, late, B, C, finalized=4)

    assert isinstance(tail.place(late), Known)
    assert isinstance(tail.place(C_FORK), Known)


def test_a_dead_block_is_known_once_a_slot_after_its_parent_is_final() -> None:
    late = block(9, A, fork="'")

    assert dead(tail_of(A, late, B, C, finalized=1).place(late)) == [4, 2]
    assert isinstance(tail_of(A, late, B, C, finalized=2).place(late), Known)


def test_the_tip_is_the_newest_block_and_slots_only_grow() -> None:
    tail = tail_of(A, B)

    assert Tail().tip is None
    assert tail.tip == Tip(B.slot, B.blockhash)
    with pytest.raises(AssertionError):
        tail.append(tail.header(B_FORK, ()))


def test_a_time_after_march_2242_is_ignored() -> None:
    last = datetime(2242, 3, 16, 12, 56, 32, tzinfo=UTC).timestamp()
    assert last == 2**33
    assert Tail().effective(UnixS(2**33)) == 2**33
    assert Tail().effective(UnixS(2**33 + 1)) == 0


def test_finality_applies_to_the_newest_slot_of_the_log_up_to_it() -> None:
    tail = tail_of(A, B, C)

    assert tail.finalize(Slot(3)) == 2
    assert tail.finalize(Slot(3)) is None
    assert tail.finalize(Slot(1)) is None
    assert tail.finalize(Slot(99)) == 4
    assert tail.finalized == 4


def test_the_log_continues_after_a_gap() -> None:
    tail = tail_of(A, B)
    gap = Gap(Slot(3), Slot(50), "gone")
    after = block(51, Tip(Slot(50), "unseen"))

    assert isinstance(tail.place(after), Hole)
    assert tail.lose(gap)
    assert not tail.lose(gap)
    assert dead(tail.place(after)) == []
    assert isinstance(tail.place(after), Follows)
    assert isinstance(tail.place(block(53, Tip(Slot(52), "unseen"))), Hole)


def test_a_longer_gap_replaces_a_gap_from_the_same_slot() -> None:
    """A source that reconnects at the same tip may lose more slots than the first time."""
    tail = tail_of(A, B)

    assert tail.lose(Gap(Slot(3), Slot(50), "gone")) == 48
    assert tail.lose(Gap(Slot(3), Slot(60), "gone for longer")) == 10
    assert tail.lose(Gap(Slot(3), Slot(50), "gone")) == 0
    assert isinstance(tail.place(block(61, Tip(Slot(60), "unseen"))), Follows)


def test_time_never_goes_back_and_null_takes_the_previous() -> None:
    times = [None, 1_000, None, 990, 1_010, 2**62, -5]
    tail = Tail()
    effective = []
    for slot, time in enumerate(times, start=1):
        made = msgspec.structs.replace(block(slot, tail.tip), time=time)
        header = tail.header(made, ())
        tail.append(header)
        effective.append(header.time)

    assert effective == [0, 1_000, 1_000, 1_000, 1_010, 1_010, 1_010]


def test_a_block_without_a_time_has_no_rate() -> None:
    timeless = msgspec.structs.replace(A, time=None)

    assert Tail().header(timeless, sol_usd_samples([sol_sale(100)])).sol_usd is None


def test_a_retraction_restores_the_rate_and_the_time() -> None:
    tail = Tail()
    for made, price in ((A, 100.0), (B, 300.0)):
        tail.append(tail.header(made, (Sample(price, 10**9, pool=str(price)),)))
    alone = tail.header(C, ())
    tail.retract()

    assert alone.sol_usd == 100.0  # of two pools with one trade each, the first one decides
    assert (tail.header(C, ()).sol_usd, tail.header(C, ()).sol_usd_time) == (100.0, START + 1)
    heavier = Sample(500.0, 10 * 10**9, pool="heavier")
    assert tail.header(C, (heavier,)).sol_usd == 500.0


def test_a_restored_tail_makes_the_same_headers() -> None:
    tail, headers = Tail(), list[SlotHeader]()
    parent: Block | None = None
    for slot in range(1, 60):
        parent = block(slot, parent, time=START + 5 * slot)
        headers.append(tail.header(parent, (Sample(100.0 + slot, 10**9),)))
        tail.append(headers[-1])
    assert tail.finalize(Slot(40)) == 40
    kept = [h for h in headers if h.time >= headers[39].time - 60]
    again = Tail(headers=kept, finalized=Slot(40))
    fork = block(80, Tip(Slot(45), "hash-45"), time=START)
    for each in (tail, again):
        for _ in dead(each.place(fork)):
            each.retract()

    assert again.header(fork, ()) == tail.header(fork, ())
    assert again.tip == tail.tip


def test_memory_is_bounded_once_slots_are_final() -> None:
    tail = Tail()
    parent: Block | None = None
    for slot in range(1, 400):
        parent = block(slot, parent)
        tail.append(tail.header(parent, ()))
        tail.finalize(Slot(slot))

    assert isinstance(tail.place(block(330, Tip(Slot(329), "hash-329"))), Known)
    assert len(tail) == 61


def test_samples_are_kept_in_the_header() -> None:
    samples = (Sample(1.5, 7, 10, "pool", "signer"),)
    assert Tail().header(A, samples).samples == samples
    assert Tail().time is None
    assert tail_of(A).time == UnixS(START + 1)


def test_the_newest_1024_dead_blocks_are_known_after_finality() -> None:
    """A block on an older dead block is an error, like one on a block that the log never had."""
    forks = [block(9, A, fork=f"-{number}") for number in range(1_025)]
    all_known = tail_of(A, *forks[1:], B, C, finalized=4)
    one_more = tail_of(A, *forks, B, C, finalized=4)

    assert isinstance(all_known.place(forks[1]), Known)
    assert isinstance(one_more.place(forks[1]), Known)
    with pytest.raises(ForkBelowFinalized, match="block 9 has parent 1"):
        one_more.place(forks[0])


def test_the_log_continues_after_each_of_the_newest_1024_gaps() -> None:
    gaps = [Gap(Slot(first), Slot(first + 2), "gone") for first in range(3, 10_253, 10)]
    after = [block(gap.last + 1, Tip(gap.last, "unseen")) for gap in gaps]
    tail = tail_of(A, B)
    for gap in gaps[:-1]:
        assert tail.lose(gap) == 3

    assert len(gaps) == 1_025
    assert isinstance(tail.place(after[0]), Follows)
    assert tail.lose(gaps[-1]) == 3
    assert isinstance(tail.place(after[0]), Hole)
    assert isinstance(tail.place(after[1]), Follows)
    assert isinstance(tail.place(after[-1]), Follows)
