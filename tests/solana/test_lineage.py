"""The check that a block follows the blocks before it; it needs no node."""

import pytest

from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip
from mintscope.solana.finality import Fit, Lineage, Position


def block(slot: int, parent: int, *, name: str = "", parent_name: str = "") -> Block:
    return Block(
        slot=Slot(slot),
        parent_slot=Slot(parent),
        blockhash=name or f"b{slot}",
        parent_blockhash=parent_name or f"b{parent}",
        time=None,
        transactions=[],
    )


def lineage_of(*slots: int) -> Lineage:
    lineage = Lineage(Position(Slot(slots[0] - 1), None))
    for parent, slot in zip((slots[0] - 1, *slots), slots, strict=False):
        lineage.append(block(slot, parent))
    return lineage


@pytest.mark.parametrize(
    ("arrived", "fit"),
    [
        (block(9, 7), Fit.FOLLOWS),
        (block(9, 8), Fit.HOLE),
        (block(9, 5), Fit.FORK),
        (block(9, 7, parent_name="another"), Fit.FORK),
        (block(9, 2), Fit.FORK),
    ],
)
def test_a_block_is_judged_by_its_parent(arrived: Block, fit: Fit) -> None:
    assert lineage_of(3, 5, 7).judge(arrived) is fit


def test_the_first_block_may_have_any_parent_before_the_start() -> None:
    lineage = Lineage(Position(Slot(10), None))

    assert lineage.judge(block(12, 4)) is Fit.FOLLOWS
    assert lineage.judge(block(12, 10)) is Fit.FOLLOWS
    assert lineage.judge(block(12, 11)) is Fit.HOLE


def test_the_genesis_block_is_its_own_parent() -> None:
    assert Lineage(Position(Slot(-1), None)).judge(block(0, 0)) is Fit.FOLLOWS


def test_a_run_of_blocks_ends_at_a_gap() -> None:
    lineage = lineage_of(3, 5)
    lineage.skip_to(Slot(8))
    lineage.append(block(9, 8))
    lineage.append(block(10, 9))

    assert [each.slot for each in lineage.run(Slot(99))] == [3, 5]
    lineage.finalize(Position(Slot(5), "b5"))
    assert [each.slot for each in lineage.run(Slot(99))] == [9, 10]
    assert [each.slot for each in lineage.run(Slot(9))] == [9]


def test_a_rewind_removes_the_later_blocks() -> None:
    lineage = lineage_of(3, 5, 7)

    lineage.rewind(Position(Slot(3), "b3"))

    assert lineage.judge(block(6, 3)) is Fit.FOLLOWS
    assert not lineage.holds(Position(Slot(5), "b5"))


def test_a_block_may_follow_a_resumed_tip_and_the_tip_may_become_final() -> None:
    lineage = Lineage(Position(Slot(0), None))
    lineage.resume(Tip(Slot(5), "b5"))

    assert lineage.judge(block(6, 5)) is Fit.FOLLOWS
    assert lineage.run(Slot(9)) == [Position(Slot(5), "b5")]
