"""The blocks of a gap, from a node that has them."""

from collections.abc import AsyncIterator
from typing import Final

from mintscope.base.primitives import Slot
from mintscope.base.solana import Block, Gap, SourceError
from mintscope.core.market.history.mending import NotMendable
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, Missing

SLOTS_MAX: Final = 2_000  # of one gap: each block takes a call
LATER_SLOTS_MAX: Final = 1_000  # in which a block must follow


class NotThere(SourceError):
    """The node does not have the whole gap either."""


async def blocks_of(node: Node, gap: Gap) -> AsyncIterator[Block]:
    """Yield the blocks of *gap*, newest first: each is the parent that the one behind it names.

    So none is left out that was part of the chain.  Raises NotThere, NotMendable, RpcFailure.
    """
    if gap.last - gap.first >= SLOTS_MAX:
        raise NotMendable(f"expected at most {SLOTS_MAX} slots to look through")
    parent = await _parent_of_the_next(node, gap.last)
    while parent >= gap.first:
        block = await node.block(parent, Commitment.FINALIZED)
        if isinstance(block, Missing):
            raise NotThere(f"the node has no block at slot {parent}, which the next one names")
        yield block
        parent = block.parent_slot


async def _parent_of_the_next(node: Node, slot: Slot) -> Slot:
    """Return the parent of the first block after *slot*."""
    later = await node.blocks(
        first=Slot(slot + 1), last=Slot(slot + LATER_SLOTS_MAX), commitment=Commitment.FINALIZED
    )
    header = await node.header(later[0], Commitment.FINALIZED) if later else None
    if header is None or isinstance(header, Missing):
        raise NotThere(f"the node has no final block after slot {slot}")
    return header.parent_slot
