"""A block is final if the node shows it to be final, and is orphaned only with proof."""

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.finality import EVERY_BLOCKS, Finality, Lineage, Position
from mintscope.solana.rpc import Commitment, Rpc
from support.fakes.node import FakeNode, code


def node_of(count: int) -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(0)))
    node.grow(count)
    return node


async def following(node: FakeNode) -> Finality:
    """Return a `Finality` that has received all blocks of *node*."""
    rpc = Rpc(
        Endpoint(url="http://node"), clock=node.clock, transport=node.transport(), sleep=node.sleep
    )
    lineage = Lineage(Position(Slot(-1), None))
    for each in node.blocks:
        block = await rpc.block(Slot(each.slot), Commitment.CONFIRMED)
        assert isinstance(block, Block)
        lineage.append(block)
    return Finality(rpc, lineage, node.clock)


def at(node: FakeNode, index: int) -> Position:
    return Position(Slot(node.blocks[index].slot), node.blocks[index].blockhash)


async def test_finality_is_reported_once() -> None:
    node = node_of(20)
    finality = await following(node)

    assert await finality.advance() == (None, None)
    node.finalize(lag=5)
    assert await finality.advance() == (at(node, 14), None)
    assert await finality.advance() == (None, None)


@pytest.mark.parametrize("survivors", range(1, 12))
async def test_the_last_surviving_and_the_first_orphaned_block_are_found(survivors: int) -> None:
    node = node_of(12)
    finality = await following(node)
    dead = at(node, survivors) if survivors < 12 else None
    node.fork(depth=12 - survivors, count=20, skip=1)
    node.finalize()

    assert await finality.advance() == (at(node, survivors - 1), dead)


async def test_a_header_that_is_not_ready_orphans_no_block() -> None:
    node = node_of(12)
    finality = await following(node)
    node.finalize()
    node.names_head = False
    # The first two requests are for the newest final slot, the third is for a header
    node.faults = [*[None] * (len(node.requests) + 2), code(-32004)]

    assert await finality.advance() == (None, None)
    assert await finality.advance() == (at(node, 11), None)


@pytest.mark.parametrize("unanswered", range(4))
async def test_no_block_is_orphaned_while_the_node_refuses_a_header(unanswered: int) -> None:
    """The search for the first of six dead blocks fails at one header, and succeeds later."""
    node = node_of(12)
    finality = await following(node)
    first_dead = at(node, 6)
    node.fork(depth=6, count=20, skip=1)
    node.finalize()
    begun = len(node.requests)
    node.faults = [*[None] * (begun + 2 + unanswered), code(-32004)]

    final, dead = await finality.advance()
    assert len(node.requests) == begun + 3 + unanswered
    assert dead is None
    assert final in {None, *(at(node, n) for n in range(6))}
    later, dead = await finality.advance()
    assert dead == first_dead
    assert at(node, 5) in {final, later}


def test_finality_is_due_after_a_second_or_many_blocks() -> None:
    node = node_of(1)
    rpc = Rpc(Endpoint(url="http://node"), clock=node.clock, transport=node.transport())
    finality = Finality(rpc, Lineage(Position(Slot(-1), None)), node.clock)

    assert finality.due_in_s() == 1.0
    for _ in range(EVERY_BLOCKS):
        finality.note_delivered()
    assert finality.due_in_s() == 0.0

    finality = Finality(rpc, Lineage(Position(Slot(-1), None)), node.clock)
    node.clock.advance(1_000)
    assert finality.due_in_s() == 0.0
