"""Polling of a chain, one step at a time."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.metrics import CHAIN_SLOT
from mintscope.kit.primitives import Slot
from mintscope.kit.time import SECOND_MS
from mintscope.solana.blocks import Block, Finalized, Gap, Update
from mintscope.solana.files import Arrivals
from mintscope.solana.finality import FAST_EVERY_S, Fate, Finality, Fit, Lineage, Position, Settled
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import Node
from mintscope.solana.rpc import (
    BLOCKS_RANGE_MAX,
    Commitment,
    Missing,
    RpcFailure,
    RpcRefused,
    Sleep,
    Unreachable,
)
from mintscope.solana.window import Answer, Window
from mintscope.solana.wire import Absence

log = structlog.get_logger()

WALK_BLOCKS_MAX: Final = 1_000  # the most headers requested to find the ancestor of a fork
EMPTY_RANGES_MAX: Final = 20
HOLE_PAUSE_S: Final = 0.25  # between two requests for a missing parent
AWAITED_S: Final = 5.0  # a block that is missing for longer is logged
# The most slots that are requested ahead of the head; fewer slots begin during one request.
AHEAD_SLOTS_MAX: Final = 8
SOON_SLOTS: Final = 3
QUIET_SLOTS: Final = 2  # after so many slots without a block, the head is requested
AHEAD_ATTEMPTS: Final = 4  # the most requests for a slot beyond the head


class OtherChain(RpcFailure):
    """The node follows another chain, which does not have a block that was final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """The options of polling.

    start        the first slot of a new store: a number, "first" for the oldest block of the node,
                 or "latest" for *backfill_s* before the newest block
    max_gap_s    if a resumed store is further behind than this number of seconds, the missing slots
                 are skipped, up to *backfill_s* before the newest block; 0: never
    """

    start: Slot | Literal["latest", "first"] = "latest"
    backfill_s: float = 0
    requests_in_flight: int = 10  # the most slots that are requested at the same time
    poll_interval_ms: int = 150  # milliseconds between two requests for the newest slot
    gap_after_s: float = 15.0  # until a missing block that must exist becomes a gap
    max_gap_s: float = 0
    fast_finality_every_s: float = FAST_EVERY_S  # between requests if finality is fast
    asks_ahead: bool = True  # whether to request expected blocks before the node reports them


class Walk:
    """Polls a chain for the blocks after those in *lineage*, one step at a time.

    head   the newest confirmed slot that a node has reported or delivered
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        rpc: Node,
        lineage: Lineage,
        polling: Polling,
        *,
        clock: Clock,
        sleep: Sleep,
        owed_since: dict[Slot, float],  # shared by walks, so that a restart extends no wait
        meter: FinalityMeter,
    ) -> None:
        self._rpc = rpc
        self._polling = polling
        self._clock = clock
        self._sleep = sleep
        self._lineage = lineage
        self._plan: deque[Slot] = deque()
        every_s = polling.fast_finality_every_s
        self._finality = Finality(rpc, lineage, clock, fast_every_s=every_s, meter=meter)
        self._window = Window(self._fetch, polling.requests_in_flight)
        self.head = lineage.tip.slot  # the newest confirmed slot, reported or delivered
        self._arrivals = Arrivals()
        self._rose_at_s = clock.monotonic_s()
        self._risen = asyncio.Event()  # replaced whenever the head is recorded
        self._jumped = asyncio.Event()  # replaced each time the head rises over skipped slots
        self._planned_from = Slot(-2)  # below any tip, so the first plan does not wait
        self._ahead: asyncio.Task[list[Slot]] | None = None
        self._not_given = Slot(-1)  # the last head whose block the node did not return
        self._settling: asyncio.Task[Settled] | None = None
        self._owed_since = owed_since
        self._reported_awaited = Slot(-1)

    async def step(self) -> Sequence[Update]:
        """Do the next step of polling, and return its updates, if there are any.

        Raises OtherChain if the node follows another chain.  After any other RpcFailure, call
        `interrupted`, wait, and call `step` again.
        """
        if self._settling is None and not self._finality.due_in_s():
            self._settling = asyncio.create_task(self._finality.advance())
        if self._settling is not None and self._settling.done():
            settled = self._settling
            self._settling = None
            return await self._settle(settled.result())
        if not self._plan and not self._window:
            await self._replan()
        self._look_ahead()
        self._window.fill(self._plan)
        if not self._window:
            await asyncio.sleep(0)  # let other tasks run
            return ()
        if not await self._lowest_is_first():
            return ()
        slot, answer = await self._lowest()
        if isinstance(answer, Missing):
            return await self._missing(answer)
        return await self._arrived(slot, answer)

    async def close(self) -> None:
        """Cancel all running requests."""
        await self._clear()
        settling = self._settling
        self._settling = None
        await _end(settling)

    async def interrupted(self) -> None:
        """After an outage, request the failed slots again, and restart the wait for late blocks."""
        self._owed_since.clear()
        self._window.retry(self._plan)

    async def reset(self) -> None:
        """Drop planned and pending requests."""
        self._owed_since.clear()
        await self._clear()

    async def _clear(self) -> None:
        self._plan.clear()
        ahead = self._ahead
        self._ahead = None
        await _end(ahead)
        await self._window.clear()

    async def _fetch(self, slot: Slot) -> Answer:
        for attempt in range(AHEAD_ATTEMPTS):
            if slot <= self.head:
                break
            await self._expect(slot, attempt)
            asked_at_s = self._clock.monotonic_s()
            commitment = self._finality.commitment(slot)
            answer = await self._rpc.block(slot, commitment, is_expected=True)
            if isinstance(answer, Block):
                self._arrivals.note_there(slot, asked_at_s)
                self._note_head(max(slot, self.head))
                return answer
            if answer.absence is Absence.SKIPPED and slot > self.head:
                await self._jump()
            if answer.absence is not Absence.NOT_READY:
                break
            if attempt == 0:  # a later attempt may fail because the slot has no block
                self._arrivals.note_early(slot, asked_at_s)
        # The chain may stand still, so the next request waits until the node reports the slot.
        while slot > self.head:
            await self._risen.wait()
        return await self._ask(slot)

    async def _jump(self) -> None:
        """Request the newest slot after an expected slot was skipped; record it if it is higher."""
        # A leader's slots may be skipped together, in less time than they normally take.  A head
        # below the known one comes from a node that lags, and is ignored: slots above it would have
        # to wait, although another node has reported them.
        asked_at_s = self._clock.monotonic_s()
        head = (await self._rpc.head(Commitment.CONFIRMED)).slot
        if head > self.head:
            self._arrivals.note_named(head, asked_at_s)
            self._note_head(head)
            jumped = self._jumped
            self._jumped = asyncio.Event()
            jumped.set()

    async def _expect(self, slot: Slot, attempt: int) -> None:
        """Wait until the block at *slot* is due; from the third attempt on, first pause."""
        if attempt > 1:
            await self._sleep(self._polling.poll_interval_ms / SECOND_MS)
        # The due time may change during the wait.
        while (due_at_s := self._arrivals.due_at_s(slot)) is not None:
            due_in_s = due_at_s - self._clock.monotonic_s()
            if due_in_s <= 0 or slot <= self.head:
                break
            await self._sleep_until_jump(due_in_s)

    async def _sleep_until_jump(self, wait_s: float) -> None:
        tasks: list[asyncio.Task[Any]] = [
            asyncio.ensure_future(self._sleep(wait_s)),
            asyncio.ensure_future(self._jumped.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _ask(self, slot: Slot) -> Answer:
        return await self._rpc.block(slot, self._finality.commitment(slot))

    def _note_head(self, slot: Slot) -> None:
        if slot > self.head:
            self._rose_at_s = self._clock.monotonic_s()
        # It may fall: a head that is far too high, which a node names once, must not stay.
        self.head = slot
        self._finality.note_confirmed(slot)
        CHAIN_SLOT.set(slot)
        # Replaced before it is set: a task that waits again needs an event that is not set.
        risen = self._risen
        self._risen = asyncio.Event()
        risen.set()

    async def _lowest(self) -> tuple[Slot, Answer]:
        """Return the lowest requested slot and its answer.

        The answer is Missing if the node fails only for this slot.  Raises RpcFailure if the node
        fails for other slots too.
        """
        slot = self._window.lowest_slot
        try:
            return slot, await self._window.answer(slot)
        # If the node fails for all slots, wait for it; if only for this one, the slot may be a gap.
        except (Unreachable, RpcRefused) as failure:
            if not await self._gives_other_than(slot):
                raise
            log.warning("slot_refused", slot=slot, reason=str(failure))
            return slot, Missing(slot=slot, absence=Absence.REFUSED, reason=str(failure))

    async def _gives_other_than(self, slot: Slot) -> bool:
        """Return whether the node answers for another slot, so that only *slot* fails."""
        other = min(self._window.highest_slot, self.head)
        if other == slot:
            other = self._plan[-1] if self._plan else Slot(max(self._lineage.tip.slot, 0))
        if other == slot:
            return False
        try:
            await self._ask(other)
        except (Unreachable, RpcRefused):
            return False
        return True

    async def _replan(self) -> None:
        """Plan requests for the slots after the newest delivered block.

        Wait first if no block was delivered since the last plan.
        """
        tip = self._lineage.tip.slot
        if tip == self._planned_from:
            await self._sleep(self._polling.poll_interval_ms / SECOND_MS)
        self._planned_from = tip
        self._plan.extend(await self._after(tip))
        if not self._plan and self.head > tip:
            self._plan.append(self.head)  # the parents of its block prove which slots have blocks

    async def _after(self, slot: Slot) -> list[Slot]:
        """Return the slots after *slot* at which the node may have blocks, ascending."""
        asked_at_s = self._clock.monotonic_s()
        head = (await self._rpc.head(Commitment.CONFIRMED)).slot
        self._arrivals.note_named(head, asked_at_s)
        self._note_head(head)
        first = Slot(slot + 1)
        last = min(self.head, Slot(slot + BLOCKS_RANGE_MAX))
        if last - first < self._polling.requests_in_flight:
            # Requesting so few slots costs less than listing the blocks first.
            return [Slot(each) for each in range(first, last + 1)]
        listed: list[Slot] = []
        for _ in range(EMPTY_RANGES_MAX):  # the node may report a head that is far too high
            if listed or first > self.head:
                break
            last = Slot(min(self.head, first + BLOCKS_RANGE_MAX - 1))
            listed = await self._rpc.blocks(first=first, last=last, commitment=Commitment.CONFIRMED)
            first = Slot(last + 1)
        return listed

    def _look_ahead(self) -> None:
        """Plan requests for the slots after those under way, so that requests overlap."""
        if self._ahead is not None and self._ahead.done():
            ahead = self._ahead
            self._ahead = None
            # Some of the listed slots may have been requested already, as expected ones.
            newest = max((*self._plan, *self._window.slots, self._lineage.tip.slot))
            self._plan.extend(slot for slot in ahead.result() if slot > newest)
            if self._window:
                self._forget_expected()
        if not self._window:
            return
        self._plan_expected()
        has_room = len(self._window) < self._polling.requests_in_flight
        # Expected slots in the plan do not count: the node has not reported them.
        is_named = bool(self._plan) and self._plan[0] <= self.head
        if self._ahead is None and not is_named and has_room:
            self._ahead = asyncio.create_task(self._ask_ahead(self._window.highest_slot))

    def _forget_expected(self) -> None:
        """Drop requests above the confirmed head if earlier missing blocks are not requested."""
        # Otherwise the window would never be empty, and the missing blocks would never be planned.
        if self._lineage.tip.slot < self.head < self._window.lowest_slot:
            self._not_given = self.head
            for slot in list(self._window.slots):
                self._window.drop(slot)

    def _plan_expected(self) -> None:
        """Plan requests for slots that are due soon, before the node reports these slots."""
        # An empty window would cause a request for the head, so at least one slot stays planned.
        pace = self._arrivals.pace
        if not self._polling.asks_ahead or pace is None or self._plan:
            return
        if self.head <= self._not_given:  # else each call would plan the same slots again
            return
        soon_s = self._clock.monotonic_s() + pace.seconds(SOON_SLOTS)
        slot = Slot(self._window.highest_slot + 1)
        # One place stays free for a missing block before these slots.
        room = self._polling.requests_in_flight - len(self._window) - 1
        while 0 < slot - self.head <= AHEAD_SLOTS_MAX and len(self._plan) < room:
            due_at_s = self._arrivals.due_at_s(slot)
            if due_at_s is None or due_at_s > soon_s:
                break
            self._plan.append(slot)
            slot = Slot(slot + 1)

    async def _ask_ahead(self, slot: Slot) -> list[Slot]:
        if slot >= self.head:  # all known slots are requested: wait for new ones
            await self._sleep(self._polling.poll_interval_ms / SECOND_MS)
        # While expected blocks arrive, the head need not be requested.
        while (pace := self._arrivals.pace) is not None and slot > self.head:
            quiet_s = self._clock.monotonic_s() - self._rose_at_s
            if quiet_s >= pace.seconds(QUIET_SLOTS):
                break
            await self._sleep(pace.seconds(QUIET_SLOTS) - quiet_s)
        return await self._after(slot)

    async def _lowest_is_first(self) -> bool:
        """Wait until a request or another task is done, or a check of finality is due.

        Return whether the lowest requested slot has its answer.
        """
        lowest = self._window.task(self._window.lowest_slot)
        waited = [lowest] if lowest.done() else self._window.pending
        beside = [task for task in (self._ahead, self._settling) if task is not None]
        # The wait ends when a check of finality is due.
        due_in_s = None if self._settling is not None else self._finality.due_in_s()
        await asyncio.wait(
            [*waited, *beside], timeout=due_in_s, return_when=asyncio.FIRST_COMPLETED
        )
        self._drop_proven()
        return self._window.task(self._window.lowest_slot).done()

    def _drop_proven(self) -> None:
        """Drop requests for slots between the newest delivered block and its child, if received.

        A block names its parent, so these slots have no block.
        """
        child = self._window.child_of(self._lineage.tip.slot)
        if child is None or self._lineage.judge(child) is not Fit.FOLLOWS:
            return
        for slot in [slot for slot in self._window.slots if slot < child.slot]:
            self._window.drop(slot)
            self._owed_since.pop(slot, None)

    async def _arrived(self, slot: Slot, block: Block) -> Sequence[Update]:
        match self._lineage.judge(block):
            case Fit.FOLLOWS:
                self._window.drop(slot)
                self._owed_since.pop(slot, None)
                self._lineage.append(block)
                self._finality.note_delivered()
                self._arrivals.note_made(slot, block.time)
                return (block,)
            case Fit.HOLE:
                self._window.insert(block.parent_slot, self._plan)
                self._owed_since.setdefault(block.parent_slot, self._clock.monotonic_s())
                return ()
            case Fit.FORK:
                ancestor = await self._ancestor(block)
                await self.reset()
                if not self._lineage.holds(ancestor):  # a later block is final by now
                    ancestor = self._lineage.floor
                log.info("chain_forked", slot=slot, ancestor_slot=ancestor.slot)
                self._lineage.rewind(ancestor)
                return ()

    async def _missing(self, missing: Missing) -> Sequence[Update]:
        """Handle the answer that the slot of *missing* has no block; return the gap, if any.

        The slot counts as skipped, unless a later block names it as its parent.  Then it is
        requested again, or becomes a gap if its block is given up.
        """
        self._window.drop(missing.slot)
        owed_since = self._owed_since.get(missing.slot)
        if owed_since is None:
            return ()
        reason = await self._lost(missing, owed_since)
        if reason is None:
            self._tell_awaited(missing, owed_since)
            await self._sleep(HOLE_PAUSE_S)
            if await self._is_owed_still(missing.slot):
                self._window.insert(missing.slot, self._plan)
            return ()
        del self._owed_since[missing.slot]
        gap = Gap(Slot(self._lineage.tip.slot + 1), missing.slot, reason)
        log.warning("gap", first=gap.first, last=gap.last, reason=reason)
        self._lineage.skip_to(missing.slot)
        return (gap,)

    def _tell_awaited(self, missing: Missing, owed_since: float) -> None:
        """Log once that a block has been missing for AWAITED_S; all later blocks wait for it."""
        waited_s = self._clock.monotonic_s() - owed_since
        if waited_s >= AWAITED_S and missing.slot != self._reported_awaited:
            self._reported_awaited = missing.slot
            log.warning("block_awaited", slot=missing.slot, reason=missing.reason)

    async def _is_owed_still(self, slot: Slot) -> bool:
        """Return whether a received block proves that the block at *slot* must exist.

        It is the parent of that block.  If the node no longer has the received block, drop it,
        request its slot again and return False.
        """
        # If the received block has died, its parent may never come: do not wait for either.
        child = self._window.child_of(slot)
        if child is None:
            return False
        header = await self._rpc.header(child.slot, self._finality.commitment(child.slot))
        if not isinstance(header, Missing) and header.blockhash == child.blockhash:
            return True
        log.info("block_in_hand_died", slot=child.slot, parent_slot=slot)
        self._owed_since.pop(slot, None)
        self._owed_since.pop(child.slot, None)
        self._window.drop(child.slot)
        self._window.insert(child.slot, self._plan)  # another block may have replaced the dead one
        return False

    async def _lost(self, missing: Missing, owed_since: float) -> str | None:
        """Return the reason to give up a block that must exist; None: continue to wait."""
        if missing.absence is Absence.PURGED or missing.slot < await self._rpc.first_available():
            return "the node no longer has these slots"
        if self._clock.monotonic_s() - owed_since > self._polling.gap_after_s:
            said = f": {missing.reason}" if missing.reason else ""
            return f"asked in vain for {self._polling.gap_after_s:g} s{said}"
        return None

    async def _ancestor(self, block: Block) -> Position:
        """Return the newest delivered ancestor of *block*; if not found, the newest final block.

        Raises OtherChain if the node's chain does not have the newest final block.
        """
        # If the floor is returned, blocks are delivered again, which does no harm.
        floor = self._lineage.floor
        parent = Position(block.parent_slot, block.parent_blockhash)
        for _ in range(WALK_BLOCKS_MAX):
            if self._lineage.holds(parent):
                return parent
            if parent.slot <= floor.slot:
                await self._expect_same_chain()
                return floor
            header = await self._rpc.header(parent.slot, self._finality.commitment(parent.slot))
            if isinstance(header, Missing) or header.blockhash != parent.blockhash:
                return floor
            parent = Position(header.parent_slot, header.parent_blockhash)
        return floor

    async def _expect_same_chain(self) -> None:
        floor = self._lineage.floor
        if floor.blockhash is not None and await self._finality.fate(floor) is Fate.DEAD:
            raise OtherChain(
                f"expected final block {floor.blockhash} at slot {floor.slot}; the node has a chain"
                " without it: another cluster, or a restarted devchain? Use another data_dir"
            )

    async def _settle(self, settled: Settled) -> Sequence[Update]:
        """Return the report of a new final block; empty if there is none.

        If a later delivered block was abandoned, forget all blocks after the newest final one, so
        that they are read again.
        """
        final, dead = settled
        # A fork may have removed the dead block during the requests.
        if dead is not None and self._lineage.holds(dead):
            log.warning("confirmed_block_died", slot=dead.slot)
            await self.reset()
            self._lineage.rewind(self._lineage.floor)
        return () if final is None else (Finalized(final.slot),)


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
