"""The newest part of the log: where a block belongs, what died, what time it is.

A source may drop, repeat, reorder and fork.  Everything that decides what the
log says about it is here, and rests on slot headers alone, so a restart that
reads them back decides the same.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mintscope.base.errors import NeedsOperator
from mintscope.base.primitives import Slot, UnixS
from mintscope.base.solana import Block, Gap, Tip
from mintscope.core.market.log import SlotHeader
from mintscope.core.market.pricing import RATE_WINDOW_S, sol_usd
from mintscope.core.market.sol_rate import Sample

DEAD_MAX: Final = 1_024
GAPS_MAX: Final = 1_024
# A block time beyond this is no time: nothing after it could ever be dated again.
TIME_MAX: Final = 1 << 33


class ForkBelowFinalized(NeedsOperator):
    """The source contradicts what it called final: an operator must look."""


class Known(NamedTuple):
    """The block adds nothing: in the log, not newer than what is final, or its own ancestor."""


class Hole(NamedTuple):
    """The block cannot join: a slot before it is missing.  *dead* slots died all the same."""

    dead: Sequence[SlotHeader]


class Follows(NamedTuple):
    """The block is next, once the *dead* slots, newest first, are retracted."""

    dead: Sequence[SlotHeader]


class Tail:
    """The headers a new block can still be compared with.

    headers     alive, oldest first: from 60 s before the finalized one
    finalized   the newest slot that cannot be retracted
    dead        (slot, blockhash) of slots that were retracted
    """

    def __init__(
        self,
        *,
        headers: Iterable[SlotHeader] = (),
        finalized: Slot | None = None,
        dead: Iterable[tuple[Slot, str]] = (),
        gaps: Iterable[Gap] = (),
    ) -> None:
        self._headers = deque(headers)
        self._by_slot = {header.slot: header for header in self._headers}
        self._finalized = finalized
        self._dead = deque(dead, maxlen=DEAD_MAX)
        self._gaps = deque(gaps, maxlen=GAPS_MAX)

    def __len__(self) -> int:
        """Return how many headers are held."""
        return len(self._headers)

    @property
    def headers(self) -> Iterable[SlotHeader]:
        """The living headers that are held, oldest first."""
        return self._headers

    @property
    def tip(self) -> Tip | None:
        """The newest block of the log: where a source resumes."""
        return Tip(self._headers[-1].slot, self._headers[-1].blockhash) if self._headers else None

    @property
    def time(self) -> UnixS | None:
        """The effective time of the tip."""
        return self._headers[-1].time if self._headers else None

    @property
    def finalized(self) -> Slot | None:
        """The newest slot that can no longer die."""
        return self._finalized

    def place(self, block: Block) -> Known | Hole | Follows:
        """Say where *block* belongs; nothing changes yet.

        Raises ForkBelowFinalized if a finalized slot would have to die for it.
        """
        if not self._headers:
            return Follows(())
        if self._is_settled(block) or block.parent_slot >= block.slot:
            return Known()
        parent = self._by_slot.get(block.parent_slot)
        if parent is None:
            return self._orphan(block)
        if parent.blockhash != block.parent_blockhash:
            return self._other_parent(block, parent.slot)
        if self._is_final(parent.slot + 1) and (block.slot, block.blockhash) in self._dead:
            return Known()
        return Follows(self._from(Slot(parent.slot + 1), block))

    def header(self, block: Block, samples: tuple[Sample, ...]) -> SlotHeader:
        """Return the header *block* joins the log with, after the present tip."""
        time = self.effective(block.time)
        # Before the first block time ever there is no time to price at.
        rate = sol_usd(reversed(self._headers), samples, time) if time else None
        return SlotHeader(
            slot=block.slot,
            parent_slot=block.parent_slot,
            blockhash=block.blockhash,
            time=time,
            sol_usd=None if rate is None else rate.usd,
            sol_usd_time=None if rate is None else rate.at,
            samples=samples,
        )

    def append(self, header: SlotHeader) -> None:
        """Make *header* the tip."""
        assert not self._headers or header.slot > self._headers[-1].slot
        self._headers.append(header)
        self._by_slot[header.slot] = header

    def retract(self) -> None:
        """Drop the tip; it died."""
        header = self._headers.pop()
        assert not self._is_final(header.slot)
        del self._by_slot[header.slot]
        self._dead.append((header.slot, header.blockhash))

    def finalize(self, slot: Slot) -> Slot | None:
        """Return the newest slot that is final now, if *slot* being final makes it a newer one."""
        newest = next((h.slot for h in reversed(self._headers) if h.slot <= slot), None)
        if newest is None or self._is_final(newest):
            return None
        self._finalized = newest
        self._forget(self._by_slot[newest].time)
        return newest

    def lose(self, gap: Gap) -> bool:
        """Remember *gap*: the first block after it may follow the tip.  False if it is known."""
        if gap in self._gaps:
            return False
        self._gaps.append(gap)
        return True

    def _is_settled(self, block: Block) -> bool:
        """Say whether *block* is in the log, or too old to change anything in it."""
        if self._is_final(block.slot) or block.slot < self._headers[0].slot:
            return True
        ours = self._by_slot.get(block.slot)
        return ours is not None and ours.blockhash == block.blockhash

    def _orphan(self, block: Block) -> Hole | Follows:
        """Place a block whose parent is not in the log."""
        after_gap = any(gap.first <= block.parent_slot <= gap.last for gap in self._gaps)
        if after_gap and block.slot > self._headers[-1].slot:
            return Follows(())
        return Hole(())

    def _other_parent(self, block: Block, slot: Slot) -> Hole:
        """Place a block that says another block than ours was at *slot*, its parent's."""
        is_stale = (block.parent_slot, block.parent_blockhash) in self._dead
        return Hole(() if is_stale else self._from(slot, block))

    def _is_final(self, slot: int) -> bool:
        return self._finalized is not None and slot <= self._finalized

    def _from(self, slot: Slot, block: Block) -> Sequence[SlotHeader]:
        """Return the headers from *slot* on, newest first: those that die for *block*."""
        dead = []
        for header in reversed(self._headers):
            if header.slot < slot:
                break
            if self._is_final(header.slot):
                raise ForkBelowFinalized(
                    f"expected every new block to build on finalized slot {self._finalized};"
                    f" block {block.slot} has parent {block.parent_slot}"
                )
            dead.append(header)
        return dead

    def effective(self, time: UnixS | None) -> UnixS:
        """Return the time of a block dated *time* that follows the tip."""
        previous = self._headers[-1].time if self._headers else UnixS(0)
        if time is None or not 0 <= time <= TIME_MAX:
            return previous
        return max(time, previous)

    def _forget(self, finalized: UnixS) -> None:
        """Drop the headers that neither a fork nor a rate can need again."""
        while finalized - self._headers[0].time > RATE_WINDOW_S:
            del self._by_slot[self._headers.popleft().slot]
