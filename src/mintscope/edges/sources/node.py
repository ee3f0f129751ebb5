"""What following a chain asks of a node: over JSON-RPC, or of a stream that JSON-RPC repairs."""

from typing import Protocol

from mintscope.base.primitives import Slot
from mintscope.base.solana import Block
from mintscope.edges.sources.rpc import Commitment, Missing
from mintscope.edges.sources.wire import Header


class Node(Protocol):
    """A node, asked as `Rpc` documents it; each method raises RpcFailure without an answer."""

    async def slot(self, commitment: Commitment) -> Slot:
        """Return the newest slot at *commitment*."""
        ...

    async def first_available(self) -> Slot:
        """Return the oldest slot the node still has a block of."""
        ...

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        ...

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* said to have a block, ascending."""
        ...

    async def block(self, slot: Slot, commitment: Commitment) -> Block | Missing:
        """Return the block at *slot* with its transactions."""
        ...

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        ...
