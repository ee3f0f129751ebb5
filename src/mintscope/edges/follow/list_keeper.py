"""Snapshots of the list of all tokens, for processes that start."""

import asyncio
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.core.market.listing.snapshot import FORM, Head, NotASnapshot, Restoring, pieces
from mintscope.core.market.listing.store import FactPlace, ListSnapshots, SnapshotMark
from mintscope.core.market.listing.token_list import TokenList

LOG = structlog.get_logger(__name__)

# A snapshot is due once a starting process needs a second or so to catch up from the last one; the
# log keeps a quarter of an hour.  A list of fewer mints is loaded as fast without a snapshot.
MINTS_MIN: Final = 2_000
TRADES: Final = 100_000
EVERY_S: Final = 300.0
TRIES: Final = 3  # a newer snapshot may replace the one that is read


class ListKeeper:
    """Stores snapshots of this process's list, unless another process has just stored its own."""

    def __init__(
        self, snapshots: ListSnapshots, clock: Clock, *, mints_min: int = MINTS_MIN
    ) -> None:
        """Store in *snapshots* a list of at least *mints_min* mints."""
        self._snapshots = snapshots
        self._clock = clock
        self._mints_min = mints_min
        self._kept_seq = 0  # of the newest known snapshot that can be read
        self._kept_at_s: float | None = None
        self._trade_count = 0  # since that snapshot
        self._is_writable = True

    def note(self, trade_count: int) -> None:
        """Note the number of trades of mints that were added to the list."""
        self._trade_count += trade_count

    async def restore(self) -> tuple[TokenList, Head] | None:
        """Return the list of the newest snapshot; None if none can be read.

        Raises ServiceUnavailable
        """
        for _ in range(TRIES):
            mark = await self._snapshots.newest()
            if mark is None or mark.form != FORM:
                return None
            try:
                found = await self._read(mark)
            except NotASnapshot as reason:
                LOG.warning("list_snapshot_unreadable", reason=str(reason))
                return None
            if found is not None:
                self._start_over(mark.folded_seq)
                return found
        return None

    async def _read(self, mark: SnapshotMark) -> tuple[TokenList, Head] | None:
        """Return the list of *mark*, None if a newer snapshot has replaced it meanwhile."""
        restoring = Restoring()
        for place in range(mark.piece_count):
            piece = await self._snapshots.piece(mark.number, place)
            if piece is None:
                return None
            await asyncio.to_thread(restoring.add, piece)
        return restoring.whole()

    async def keep(self, tokens: TokenList, tracked_seq: int, facts: FactPlace) -> None:
        """Store a snapshot of *tokens*, which must not change meanwhile, if one is due.

        If the store does not answer, the next attempt is made when a snapshot is due again.
        """
        if len(tokens) < self._mints_min or not self._is_due():
            return
        try:
            await self._keep(tokens, tracked_seq, facts)
        except ServiceUnavailable as error:
            if self._is_writable:
                LOG.warning("list_not_kept", error=repr(error.__cause__ or error))
            self._is_writable = False
            self._start_over(self._kept_seq)
        else:
            self._is_writable = True

    async def _keep(self, tokens: TokenList, tracked_seq: int, facts: FactPlace) -> None:
        newest = await self._snapshots.newest()
        if newest is not None and newest.form == FORM and newest.folded_seq > self._kept_seq > 0:
            self._start_over(newest.folded_seq)
            return
        number = await self._snapshots.begin(self._clock.now())
        if number is not None:
            made = pieces(tokens, tracked_seq, facts)
            count = 0
            while (piece := await asyncio.to_thread(next, made, None)) is not None:
                await self._snapshots.add(number, count, piece)
                count += 1
            await self._snapshots.end(SnapshotMark(number, FORM, tokens.folded.seq, count))
            self._kept_seq = tokens.folded.seq
        self._start_over(self._kept_seq)

    def _is_due(self) -> bool:
        if self._kept_at_s is None or self._trade_count >= TRADES:
            return True
        return self._clock.monotonic_s() - self._kept_at_s >= EVERY_S

    def _start_over(self, kept_seq: int) -> None:
        self._kept_seq = kept_seq
        self._trade_count = 0
        self._kept_at_s = self._clock.monotonic_s()
