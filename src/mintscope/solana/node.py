"""Nodes of a chain: the interface, several nodes used as one, a check of a node, and a watchdog."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import SOURCE_STALLS
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Source, Tip, Update
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Head, Missing, RpcFailure
from mintscope.solana.wire import Header

T = TypeVar("T")

log = structlog.get_logger()

# After a failure, or if it is far behind, a node is tried last for this time, in seconds.
AVOIDED_S: Final = 30.0
NEVER_S: Final = float("-inf")
STILL_S: Final = 10.0  # limit of the time without a newer slot; a chain may skip several slots
FAR_SLOTS: Final = 8  # limit of the slots by which a stored block or a node is behind


class Node(Protocol):
    """A node of a chain; every method may raise RpcFailure."""

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash is None if unknown or not final."""

    async def first_available(self) -> Slot:
        """Return the oldest slot whose block the node still has."""

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the cluster."""

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if the node does not know it."""

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that nodes report to have a block, ascending."""

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* with its transactions.

        is_expected   whether no node has reported the slot yet, so that the block may be missing
        """

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""


class PreferredNodes:
    """Several nodes in order of preference, used as one.

    The first answer counts.  If a node does not have a block, the next node is asked, unless no
    node has reported the slot yet.  A node that failed is tried last for AVOIDED_S seconds.  So is
    a node whose newest slot has not risen for STILL_S seconds, if another node is far ahead of it;
    it is tried after nodes that failed.
    """

    def __init__(self, nodes: Sequence[Node], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._failed_at_s = [NEVER_S] * len(nodes)
        self._behind_at_s = [NEVER_S] * len(nodes)
        self._newest = Slot(-1)  # the newest confirmed slot that a node has named
        self._rose_at_s = clock.monotonic_s()

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash is None if unknown or not final."""
        head = await self._first(lambda node: node.head(commitment))
        if commitment is not Commitment.CONFIRMED:
            return head
        now_s = self._clock.monotonic_s()
        if head.slot > self._newest:
            self._newest = head.slot
            self._rose_at_s = now_s
        is_still = now_s - self._rose_at_s > STILL_S
        is_behind = self._newest - head.slot > FAR_SLOTS
        return await self._highest(head) if is_still or is_behind else head

    async def first_available(self) -> Slot:
        """Return the oldest slot whose block the first node that answers still has."""
        return await self._first(lambda node: node.first_available())

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the cluster."""
        return await self._first(lambda node: node.genesis_hash())

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if no node knows it."""
        return await self._first(
            lambda node: node.pace(), is_enough=lambda answer: answer is not None
        )

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that nodes report to have a block, ascending."""
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
        """Return the block at *slot* without its transactions, from the first node that has it."""
        return await self._first(
            lambda node: node.header(slot, commitment),
            is_enough=lambda answer: not isinstance(answer, Missing),
        )

    async def _highest(self, head: Head) -> Head:
        """Return the highest confirmed head of all nodes; try nodes that are far behind it last.

        If no node answers, return *head*.
        """
        self._rose_at_s = self._clock.monotonic_s()  # the next check is STILL_S later
        heads: dict[int, Head] = {}
        for number, node in enumerate(self._nodes):
            with suppress(RpcFailure):
                heads[number] = await node.head(Commitment.CONFIRMED)
        highest = max(heads.values(), key=lambda one: one.slot, default=head)
        # Not the highest slot so far: a node may name one that is far too high, once.
        self._newest = highest.slot
        for number, one in heads.items():
            if highest.slot - one.slot <= FAR_SLOTS:
                self._failed_at_s[number] = NEVER_S
                self._behind_at_s[number] = NEVER_S
                continue
            if not self._is_recent(self._behind_at_s[number]):
                log.warning("node_behind", node=number + 1, slot=one.slot, newest=highest.slot)
            self._behind_at_s[number] = self._clock.monotonic_s()
        return highest

    async def _first(
        self, ask: Callable[[Node], Awaitable[T]], is_enough: Callable[[T], bool] = lambda _: True
    ) -> T:
        """Return the first answer for which *is_enough* is true, or else the first answer.

        Raises the first RpcFailure if all nodes fail.
        """
        answers: list[T] = []
        failures: list[RpcFailure] = []
        for number in self._order():
            try:
                answer = await ask(self._nodes[number])
            except RpcFailure as failure:
                failures.append(failure)
                self._failed_at_s[number] = self._clock.monotonic_s()
                continue
            if is_enough(answer):
                return answer
            answers.append(answer)
        if answers:
            return answers[0]
        raise failures[0]

    def _order(self) -> Sequence[int]:
        # The sort is stable, so the nodes of each group stay in the order of preference.
        return sorted(
            range(len(self._nodes)),
            key=lambda at: (
                self._is_recent(self._behind_at_s[at]),
                self._is_recent(self._failed_at_s[at]),
            ),
        )

    def _is_recent(self, at_s: float) -> bool:
        return self._clock.monotonic_s() - at_s < AVOIDED_S


# A block is usually stored within a few seconds; a delay of over LATE_S is a failure.
LATE_S: Final = 20.0
SILENT_S: Final = 5.0  # limit of the time without an answer
ASK_S: Final = 1.0
CAUGHT_UP_S: Final = 1.0  # ingest catches up if its delay falls by more than this per check


@dataclass(eq=False)
class WatchedNode:
    """Passes requests on to *node*, and records its answers, so that a check can judge it."""

    node: Node
    clock: Clock
    _failures: dict[str, str] = field(default_factory=dict, init=False)  # by kind of request
    _asked: dict[object, tuple[float, str]] = field(default_factory=dict, init=False)
    _missing: Missing | None = field(default=None, init=False)
    _head: Slot | None = field(default=None, init=False)
    _rose_at_s: float = field(init=False)
    _began_at_s: float = field(init=False)
    _late_before_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._rose_at_s = self._began_at_s = self.clock.monotonic_s()

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash is None if unknown or not final."""
        head = await self._noted("its newest slot", self.node.head(commitment))
        if commitment is Commitment.CONFIRMED:
            self._note_head(head.slot)
        return head

    async def first_available(self) -> Slot:
        """Return the oldest slot whose block the node still has."""
        return await self.node.first_available()

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the cluster."""
        return await self._noted("its chain", self.node.genesis_hash())

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if the node cannot report it."""
        return await self.node.pace()

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that nodes report to have a block, ascending."""
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
        """Raise ServiceUnavailable with the reason if the newest stored block is older than LATE_S.

        The check does not fail while ingest catches up, nor in the first LATE_S seconds.

        slot, age_s   slot and age of the newest stored block; None if no block is stored
        """
        now_s = self.clock.monotonic_s()
        late_s = now_s - self._began_at_s if age_s is None else age_s
        catches_up = late_s < self._late_before_s - CAUGHT_UP_S
        self._late_before_s = late_s
        if late_s <= LATE_S or catches_up or now_s - self._began_at_s <= LATE_S:
            return
        named = self._head
        # With a stream, ingest may work while the node does not answer.
        with suppress(RpcFailure, TimeoutError):
            async with asyncio.timeout(ASK_S):
                named = (await self.node.head(Commitment.CONFIRMED)).slot
                self._note_head(named)
        why = self._why(slot, named, self.clock.monotonic_s())
        raise ServiceUnavailable(f"{why}; the newest block is {late_s:.0f} s old")

    def _why(self, slot: Slot | None, named: Slot | None, now_s: float) -> str:
        if self._failures:
            asked, failure = next(iter(self._failures.items()))
            return (
                f"the node gives no usable answer to requests for {asked}: {failure}: look at the"
                " provider, chain.rpc_url and its key"
            )
        asked_at_s, asked = min(self._asked.values(), default=(now_s, ""))
        if now_s - asked_at_s > SILENT_S:
            return (
                f"the node has not answered for {now_s - asked_at_s:.0f} s a request"
                f" for {asked}: look at the provider"
            )
        if self._head is not None and named is not None and self._head - named > FAR_SLOTS:
            return (
                f"the node is behind: it names slot {named}, and has named {self._head} before:"
                " look at the provider, or change chain.rpc_url"
            )
        if self._head is None or now_s - self._rose_at_s > STILL_S:
            return (
                f"the node does not advance: it has named no slot above {self._head} for"
                f" {now_s - self._rose_at_s:.0f} s: look at the provider, or change chain.rpc_url"
            )
        if slot is not None and self._head - slot > FAR_SLOTS:
            missing = self._missing
            said = ""
            if missing is not None:
                reason = f": {missing.reason}" if missing.reason else ""
                said = f" ({missing.absence.name}{reason})"
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
        # Several requests of the same kind may be open, so the text is no key.
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


WATCHDOG_ASK_S: Final = 10.0
WAIT_FACTOR_MAX: Final = 8
PAUSE_SHARE: Final = 0.1
CANCEL_AGAIN_S: Final = 1.0
CANCELS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSource:
    """A source that restarts *source* if it stalls, and continues after the last block.

    *source* stalls if it yields no update for *stall_after_s* seconds while *node* reports a newer
    slot, or if it cancels its own task.  The time limit doubles with each stall in a row, up to
    WAIT_FACTOR_MAX times *stall_after_s*, and counts only while the consumer waits for an update.
    """

    source: Source
    node: Node
    clock: Clock
    stall_after_s: float

    async def genesis_hash(self) -> str | None:
        """Return the genesis hash of the chain; None if the source does not know it."""
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield the updates of *source* until its end, and raise its errors."""
        tip = after
        factor = 1
        while True:
            reading = _Reading(self.source.updates(tip))
            try:
                while True:
                    cause = await self._awaited(reading, tip, self.stall_after_s * factor)
                    if cause is not None:
                        break
                    update = reading.take()
                    if update is None:
                        return
                    factor = 1
                    if isinstance(update, Block):
                        tip = Tip(update.slot, update.blockhash)
                    yield update
            finally:
                await reading.end()
            SOURCE_STALLS.inc()
            slot = None if tip is None else tip.slot
            log.warning("source_stalled", slot=slot, cause=cause)
            # Pause first, so that a source that stalls at once does not restart in a fast loop.
            await asyncio.sleep(self.stall_after_s * factor * PAUSE_SHARE)
            factor = min(2 * factor, WAIT_FACTOR_MAX)

    async def _awaited(self, reading: "_Reading", tip: Tip | None, patience_s: float) -> str | None:
        """Wait for the next update or the end; return None, or the cause if the source stalls."""
        reported: Slot | None = None
        while not await reading.is_there(patience_s):
            head = await self._head()
            # The update may have arrived during this request.
            if head is not None and (tip is None or head > tip.slot) and not reading.is_done:
                return f"no update for {patience_s:g} s; the node is at slot {head}"
            if head is not None and reported is None:
                log.warning("node_stands_still", slot=head, for_s=patience_s)
                reported = head
        if reported is not None:
            log.info("node_goes_on", after_slot=reported)
        return "it was cancelled from inside" if reading.is_cancelled else None

    async def _head(self) -> Slot | None:
        try:
            async with asyncio.timeout(WATCHDOG_ASK_S):
                return (await self.node.head(Commitment.CONFIRMED)).slot
        except (RpcFailure, TimeoutError):
            return None


class _Reading:
    """Reads the updates of a source, one at a time."""

    def __init__(self, updates: AsyncIterator[Update]) -> None:
        self._updates = updates
        self._next: asyncio.Task[Update | None] | None = None

    async def is_there(self, timeout_s: float) -> bool:
        """Return whether an update, the end or an error arrives within *timeout_s* seconds."""
        if self._next is None:
            self._next = asyncio.create_task(_coroutine(anext(self._updates, None)))
        # Unlike `wait_for`, `wait` does not cancel the task after the timeout.
        await asyncio.wait([self._next], timeout=timeout_s)
        return self._next.done()

    @property
    def is_done(self) -> bool:
        return self._next is not None and self._next.done()

    @property
    def is_cancelled(self) -> bool:
        return self._next is not None and self._next.done() and self._next.cancelled()

    def take(self) -> Update | None:
        """Return the update that has arrived, or None at the end; raise the source's error."""
        assert self._next is not None
        taken = self._next
        self._next = None
        return taken.result()

    async def end(self) -> None:
        """Stop reading; if the source ignores CANCELS_MAX cancellations, abandon its task."""
        task = self._next
        self._next = None
        if task is not None:
            # A source may swallow a cancellation, so one is not sufficient.
            for _ in range(CANCELS_MAX):
                if task.done():
                    break
                task.cancel()
                await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
            else:
                log.error("source_not_ended", cancelled=CANCELS_MAX)
                return
            if not task.cancelled():
                task.exception()  # retrieves the error, so that asyncio does not log it
        if isinstance(self._updates, AsyncGenerator):
            with suppress(RuntimeError):  # an abandoned task may still run the generator
                await self._updates.aclose()


# `create_task` accepts only coroutines, and `anext` with a default returns another awaitable.
async def _coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
