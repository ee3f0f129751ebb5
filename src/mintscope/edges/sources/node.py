"""Requests to a node for following a chain: over JSON-RPC, or a stream that JSON-RPC repairs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from mintscope.base.clock import Clock
from mintscope.base.pace import Pace
from mintscope.base.primitives import Slot
from mintscope.base.solana import Block
from mintscope.edges.sources.rpc import Commitment, Head, Missing, RpcFailure
from mintscope.edges.sources.wire import Header

T = TypeVar("T")

# A node that gave no answer is passed over for this long.
AVOIDED_S: Final = 30.0


class Node(Protocol):
    """A node, asked as `Rpc` documents it; each method raises RpcFailure without an answer."""

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash may be known only of a final one."""
        ...

    async def first_available(self) -> Slot:
        """Return the oldest slot the node still has a block of."""
        ...

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        ...

    async def pace(self) -> Pace | None:
        """Return how fast the chain makes slots; None if the node does not know."""
        ...

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* said to have a block, ascending."""
        ...

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* with its transactions.

        is_expected   no node has named the slot: without its block it is early, not lost
        """
        ...

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        ...


class PreferredNodes:
    """Several nodes in order of preference, as one.

    The first that answers is believed, but for a block that it does not have: then the others are
    asked for it, unless it is only expected.  A node that gave no answer is passed over for a
    while, if another gives one.
    """

    def __init__(self, nodes: Sequence[Node], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._avoided_until_s = [float("-inf")] * len(nodes)

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash may be known only of a final one."""
        return await self._first(lambda node: node.head(commitment))

    async def first_available(self) -> Slot:
        """Return the oldest slot the node still has a block of."""
        return await self._first(lambda node: node.first_available())

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        return await self._first(lambda node: node.genesis_hash())

    async def pace(self) -> Pace | None:
        """Return how fast the chain makes slots; None if no node knows."""
        return await self._first(
            lambda node: node.pace(), is_enough=lambda answer: answer is not None
        )

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* said to have a block, ascending."""
        return await self._first(
            lambda node: node.blocks(first=first, last=last, commitment=commitment)
        )

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* from the first node that has it."""
        return await self._first(
            lambda node: node.block(slot, commitment, is_expected=is_expected),
            is_enough=lambda answer: is_expected or isinstance(answer, Block),
        )

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        return await self._first(lambda node: node.header(slot, commitment))

    async def _first(
        self,
        ask: Callable[[Node], Awaitable[T]],
        is_enough: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Return the first answer that is enough, else the first; raise if there is none."""
        answers: list[T] = []
        failures: list[RpcFailure] = []
        for number in self._order():
            try:
                answer = await ask(self._nodes[number])
            except RpcFailure as failure:
                failures.append(failure)
                self._avoided_until_s[number] = self._clock.monotonic_s() + AVOIDED_S
                continue
            if is_enough(answer):
                return answer
            answers.append(answer)
        if answers:
            return answers[0]
        raise failures[0]

    def _order(self) -> Sequence[int]:
        now_s = self._clock.monotonic_s()
        return sorted(range(len(self._nodes)), key=lambda at: self._avoided_until_s[at] > now_s)
