"""The block buffer holds one fork: a new block removes blocks that cannot be its ancestors."""

import pytest

from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block
from mintscope.solana.yellowstone.block_buffer import BlockBuffer


def block(slot: int, parent: int, fork: str = "", parent_fork: str = "") -> Block:
    return Block(
        slot=Slot(slot),
        parent_slot=Slot(parent),
        blockhash=f"{slot}{fork}",
        parent_blockhash=f"{parent}{parent_fork}",
        time=None,
        transactions=(),
    )


def buffer_with(*blocks: Block) -> BlockBuffer:
    buffer = BlockBuffer()
    for one in blocks:
        assert buffer.add(one, 1)
    return buffer


def held(buffer: BlockBuffer) -> list[str]:
    found = (buffer.block(Slot(slot)) for slot in range(20))
    return [one.blockhash for one in found if one is not None]


def test_blocks_that_a_newer_block_skips_are_dropped() -> None:
    buffer = buffer_with(block(10, 9), block(11, 10), block(12, 11), block(13, 10))

    assert held(buffer) == ["10", "13"]
    assert buffer.passes_over(Slot(11))
    assert buffer.passes_over(Slot(12))


def test_a_parent_with_another_hash_is_dropped() -> None:
    buffer = buffer_with(block(10, 9), block(11, 10), block(12, 11, parent_fork="b"))

    assert held(buffer) == ["10", "12"]
    assert not buffer.passes_over(Slot(11))


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (block(14, 10), ["10"]),
        (block(14, 11), ["10", "11"]),
        (block(14, 12), ["10", "11", "12"]),
        (block(14, 12, parent_fork="b"), ["10", "11"]),
        (block(12, 11), ["10", "11", "12"]),
    ],
)
def test_a_block_of_another_source_drops_the_blocks_that_it_orphans(
    given: Block, left: list[str]
) -> None:
    buffer = buffer_with(block(10, 9), block(11, 10), block(12, 11))
    buffer.contradict(given)

    assert held(buffer) == left


def test_a_second_block_of_a_slot_frees_the_space_of_the_first() -> None:
    buffer = BlockBuffer(bytes_max=10)
    buffer.add(block(10, 9), 4)
    buffer.add(block(11, 10), 4)
    buffer.add(block(11, 10, "b"), 4)

    assert held(buffer) == ["10", "11b"]


@pytest.mark.parametrize(
    "late", [block(11, 10, "b"), block(12, 10)], ids=["another fork", "passed over"]
)
def test_a_late_block_of_an_abandoned_fork_is_not_added(late: Block) -> None:
    buffer = buffer_with(block(10, 9), block(11, 10), block(13, 11))

    assert not buffer.add(late, 1)
    assert held(buffer) == ["10", "11", "13"]


def test_a_range_that_ends_at_an_orphaned_block_is_not_covered() -> None:
    buffer = buffer_with(block(10, 9), block(11, 10), block(12, 10, "b"))

    assert buffer.covers(Slot(10), Slot(12)) == [10, 12]
    assert buffer.covers(Slot(10), Slot(11)) is None
