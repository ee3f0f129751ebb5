"""The check of a node: its last answers, and the reason why blocks are late, in words."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.pace import Pace
from mintscope.base.primitives import Slot
from mintscope.base.solana import Block
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.rpc import Commitment, Head, Missing, RpcFailure
from mintscope.edges.sources.wire import Header

T = TypeVar("T")

# A block is usually stored within some seconds; a later one is a failure.
LATE_S: Final = 20.0
STILL_S: Final = 10.0  # without a newer slot; a chain may skip a few in a row
SILENT_S: Final = 5.0  # without an answer
FAR_SLOTS: Final = 8  # between the head of the node and the newest stored block
ASK_S: Final = 1.0
CAUGHT_UP_S: Final = 1.0  # gained between two checks: missed blocks are being read


@dataclass(eq=False)
class WatchedNode:
    """*node*, with its last answers.  Implements Node."""

    node: Node
    clock: Clock
    _failures: dict[str, str] = field(default_factory=dict, init=False)  # by the question
    _asked: dict[object, tuple[float, str]] = field(default_factory=dict, init=False)
    _missing: Missing | None = field(default=None, init=False)
    _head: Slot | None = field(default=None, init=False)
    _rose_at_s: float = field(init=False)
    _began_at_s: float = field(init=False)
    _late_before_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._rose_at_s = self._began_at_s = self.clock.monotonic_s()

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash may be known only if it is final."""
        head = await self._noted("its newest slot", self.node.head(commitment))
        if commitment is Commitment.CONFIRMED:
            self._note_head(head.slot)
        return head

    async def first_available(self) -> Slot:
        """Return the oldest slot the node still has a block of."""
        return await self.node.first_available()

    async def genesis_hash(self) -> str:
        """Return the name of the cluster."""
        return await self._noted("its chain", self.node.genesis_hash())

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if the node cannot report it."""
        return await self.node.pace()

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that have a block by its word, ascending."""
        asked = self.node.blocks(first=first, last=last, commitment=commitment)
        return await self._noted("its slots", asked)

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* with its transactions."""
        asked = self.node.block(slot, commitment, is_expected=is_expected)
        answer = await self._noted("a block", asked)
        if isinstance(answer, Block):
            self._missing = None
            self._note_head(slot)
        elif not is_expected:
            self._missing = answer
        return answer

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        return await self.node.header(slot, commitment)

    async def expect_current(self, slot: Slot | None, age_s: float | None) -> None:
        """Raise ServiceUnavailable with the reason in words if the newest stored block is late.

        While missed blocks are read, one by one, the node is not at fault.

        slot, age_s   of the newest stored block, None before there is one
        """
        now_s = self.clock.monotonic_s()
        late_s = now_s - self._began_at_s if age_s is None else age_s
        catches_up = late_s < self._late_before_s - CAUGHT_UP_S
        self._late_before_s = late_s
        if late_s <= LATE_S or catches_up or now_s - self._began_at_s <= LATE_S:
            return
        named = self._head
        with suppress(RpcFailure, TimeoutError):  # a stream may be followed without requests
            async with asyncio.timeout(ASK_S):
                named = (await self.node.head(Commitment.CONFIRMED)).slot
                self._note_head(named)
        why = self._why(slot, named, self.clock.monotonic_s())
        raise ServiceUnavailable(f"{why}; the newest block is {late_s:.0f} s old")

    def _why(self, slot: Slot | None, named: Slot | None, now_s: float) -> str:
        if self._failures:
            asked, failure = next(iter(self._failures.items()))
            return (
                f"the node gives no usable answer if it is asked for {asked}: {failure}: look at"
                " the provider, chain.rpc_url and its key"
            )
        asked_at_s, asked = min(self._asked.values(), default=(now_s, ""))
        if now_s - asked_at_s > SILENT_S:
            return (
                f"the node has not answered for {now_s - asked_at_s:.0f} s what it was asked for,"
                f" {asked}: look at the provider"
            )
        if self._head is not None and named is not None and self._head - named > FAR_SLOTS:
            return (
                f"the node is behind: it names slot {named}, and has named {self._head} before:"
                " look at the provider, or change chain.rpc_url"
            )
        if self._head is None or now_s - self._rose_at_s > STILL_S:
            return (
                f"the node stands still: it has named no slot above {self._head} for"
                f" {now_s - self._rose_at_s:.0f} s: look at the provider, or change chain.rpc_url"
            )
        if slot is not None and self._head - slot > FAR_SLOTS:
            missing = self._missing
            said = "" if missing is None else f" ({missing.absence.name}{_said(missing.reason)})"
            return (
                f"the node names slot {self._head} and does not give the block after {slot}{said}:"
                " set chain.second_rpc_url, or change chain.rpc_url"
            )
        return (
            "the node is behind: its newest blocks are old by the clock of this machine: compare it"
            " with another node (mintscope doctor --node); if the node is right, set the clock"
        )

    def _note_head(self, slot: Slot) -> None:
        if self._head is None or slot > self._head:
            self._head = slot
            self._rose_at_s = self.clock.monotonic_s()

    async def _noted(self, asked: str, answer: Awaitable[T]) -> T:
        mark = object()
        self._asked[mark] = self.clock.monotonic_s(), asked
        try:
            found = await answer
        except RpcFailure as failure:
            self._failures[asked] = str(failure)
            raise
        finally:
            del self._asked[mark]
        self._failures.pop(asked, None)
        return found


def _said(reason: str) -> str:
    return f": {reason}" if reason else ""
