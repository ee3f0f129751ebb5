"""Which slots of a stream are believed: one absurd number must not stop what reads it."""

import asyncio
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.primitives import Slot
from mintscope.base.yellowstone import geyser_pb2
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, RpcFailure

ASK_S: Final = 2.0  # the stream does not wait longer for a node that does not answer
AHEAD_MAX: Final = 1_000  # nodes differ by less
SLOTS_PER_S: Final = 50  # no cluster is as fast
ABSURD: Final = 2**53  # more than JSON-RPC can say


class Believable:
    """How high slots may be: what *node* said when the session began, and what time adds to it."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._head: Slot | None = None
        self._asked_at_s = 0.0

    async def ask(self) -> None:
        """Learn where the chain is; without an answer, what was learned before is good."""
        try:
            async with asyncio.timeout(ASK_S):
                head = (await self._node.head(Commitment.CONFIRMED)).slot
        except (RpcFailure, TimeoutError):
            return
        self._head, self._asked_at_s = head, self._clock.monotonic_s()

    def allows(self, update: geyser_pb2.SubscribeUpdate) -> bool:
        """Return whether the slot of *update* can be one of the chain; True if it names none."""
        slot = slot_of(update)
        if self._head is None:
            return slot < ABSURD
        passed_s = self._clock.monotonic_s() - self._asked_at_s
        return slot <= self._head + AHEAD_MAX + SLOTS_PER_S * passed_s


def slot_of(update: geyser_pb2.SubscribeUpdate) -> int:
    """Return the slot that *update* is of, 0 where it is of none."""
    match update.WhichOneof("update_oneof"):
        case "block":
            return update.block.slot
        case "slot":
            return update.slot.slot
        case "transaction":
            return update.transaction.slot
        case "block_meta":
            return update.block_meta.slot
        case _:
            return 0
