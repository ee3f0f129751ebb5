"""Reads the updates of a source, decodes their blocks and writes them to the store."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog
from prometheus_client import REGISTRY

from mintscope.history.join_store import SqlBackfillMerge
from mintscope.ingest.coverage import VenueWatch
from mintscope.ingest.decoding import DecodeAhead
from mintscope.ingest.fold import FinalFold, MeasuredFinality, not_measured
from mintscope.ingest.slots import Decode, Slots
from mintscope.kit.clock import Clock
from mintscope.kit.errors import NeedsOperator, ServiceUnavailable
from mintscope.kit.metrics import INGEST_LAG_S, INGEST_SLOT
from mintscope.kit.primitives import Mint, Slot
from mintscope.market.ports import Change, Floor
from mintscope.market.quotes import QuoteMints
from mintscope.market.shard import WHOLE, Shard
from mintscope.market.standings import Standings
from mintscope.market.store.log_writer import SqlMarketStore
from mintscope.solana.blocks import WSOL, Block, Source, SourceError, Update

Offer: TypeAlias = Callable[[Block], None]

UPDATES_MAX: Final = 32
# Reading pauses while the buffered blocks have this size; a block of mainnet is about 7 MB.  At
# least one block is read, however large it is.
BYTES_MAX: Final = 128 * 1024 * 1024
# Maximum number of updates that are written together if blocks are offered; meanwhile, more are
# read and decoded.
TAKEN_MAX: Final = 16
CANCEL_AGAIN_S: Final = 1.0


class ReadAhead:
    """Buffers the updates of a source, in order, until the source ends."""

    def __init__(
        self, updates: AsyncIterator[Update], bytes_max: int, offer: Offer | None = None
    ) -> None:
        self._updates = updates
        self._offer = offer
        self._bytes_max = bytes_max
        self._held: deque[Update] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()
        self._has_ended = False
        self._failure: Exception | None = None

    async def pump(self) -> None:
        """Read the source to its end, into the buffer."""
        failure: Exception | None = None
        try:
            async for update in self._updates:
                async with self._changed:
                    await self._changed.wait_for(self._has_room)
                    # A block that is taken at once need not be decoded in advance.
                    if self._offer is not None and self._held and isinstance(update, Block):
                        self._offer(update)
                    self._held.append(update)
                    self._bytes += _size(update)
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - raised again where the updates are taken
            failure = error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The source was cancelled, not this task: without a failure, `take` would never return.
            failure = SourceError("the source cancelled its own read")
        async with self._changed:
            self._has_ended = True
            self._failure = failure
            self._changed.notify_all()

    @property
    def holds_updates(self) -> bool:
        """Whether `take` would return at once, with updates or because the source has ended."""
        return bool(self._held) or self._has_ended

    async def take(self) -> list[Update]:
        """Wait for updates, and return the next ones, in order; [] after the end of the source.

        Returns all buffered updates, or, if blocks are offered, at most TAKEN_MAX.  An error of the
        source is raised once all updates before the error were returned.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._held or self._has_ended)
            count = len(self._held) if self._offer is None else TAKEN_MAX
            updates = [self._held.popleft() for _ in range(min(count, len(self._held)))]
            self._bytes -= sum(map(_size, updates))
            self._changed.notify_all()
        if not updates and self._failure is not None:
            raise self._failure
        return updates

    def _has_room(self) -> bool:
        return not self._held or (len(self._held) < UPDATES_MAX and self._bytes < self._bytes_max)


@asynccontextmanager
async def read_ahead(
    updates: AsyncIterator[Update], *, bytes_max: int = BYTES_MAX, offer: Offer | None = None
) -> AsyncIterator[ReadAhead]:
    """Yield a buffer into which a task reads *updates* while the body of the `async with` runs.

    bytes_max   reading pauses while the buffered blocks have this size
    offer       called with each block that must wait until earlier updates are taken; None: nothing
                is called, and `take` returns all buffered updates
    """
    ahead = ReadAhead(updates, bytes_max, offer)
    reading = asyncio.create_task(ahead.pump(), name="read-ahead")
    try:
        yield ahead
    finally:
        while not reading.done():  # the source may ignore a cancellation
            reading.cancel()
            await asyncio.wait([reading], timeout=CANCEL_AGAIN_S)
        if isinstance(updates, AsyncGenerator):
            await updates.aclose()


def _size(update: Update) -> int:
    return update.size if isinstance(update, Block) else 0


log = structlog.get_logger()

HOLES_MAX: Final = 5
TRIM_EVERY: Final = 4
TRIM_EVENTS_MAX: Final = 1_000


class SourceBroken(SourceError):
    """The blocks of the source do not follow the blocks of the log."""


class WrongChain(SourceBroken, NeedsOperator):
    """The source belongs to another chain than the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Writes the blocks of a source, decoded, to the swap log, and folds the final ones."""

    source: Source
    store: SqlMarketStore
    decode: Decode
    clock: Clock
    mints: Sequence[Mint] = (WSOL,)  # the mints that are tracked in a new store
    floor: Floor | None = None  # every mint that reaches it is tracked; None: only listed mints
    follows_files: bool = False  # whether the market takes its time from replayed files
    quote_mints: QuoteMints = QuoteMints()  # noqa: RUF009 - immutable
    history: SqlBackfillMerge | None = None  # joins finished backfills; None: there are none
    ahead: DecodeAhead | None = None  # decodes waiting blocks in a second process, if any
    finality: MeasuredFinality = not_measured  # the delay of finality, None while unknown
    venues: VenueWatch | None = None  # counts the swaps of each block, by program
    shard: Shard = WHOLE  # the part of all mints that this ingest writes

    async def run(self) -> None:
        """Ingest until the source ends or the task is cancelled.

        Raises ForkBelowFinalized or WrongChain if an operator must decide, a SourceError if the
        source fails, or an error of the store.
        """
        mints = [mint for mint in self.mints if self.shard.owns(mint)]
        tail = await self.store.start(mints=mints, follows_files=self.follows_files)
        standings = Standings(await self.store.price_pools())
        decode_block = None if self.ahead is None else self.ahead.decoded
        chain = Slots(
            tail,
            self.decode,
            standings,
            decode_block=decode_block,
            quote_mints=self.quote_mints,
            venues=self.venues,
            shard=self.shard,
        )
        fold = FinalFold(
            self.store, self.floor, self.clock, pace=lambda: chain.pace, finality=self.finality
        )
        # An earlier process may have left final slots that are not folded yet.
        await self._finish(fold, chain)
        await self._expect_same_chain()
        holes = 0
        while True:
            before = chain.tip
            hole = await self._follow(chain, fold)
            if hole is None:
                return
            # Only holes in a row without a new block count.
            holes = holes + 1 if chain.tip == before else 1
            if holes > HOLES_MAX:
                raise SourceBroken(
                    f"expected block {hole.parent_slot} before {hole.slot};"
                    f" the source skipped it {holes} times"
                )
            log.info("hole", slot=hole.slot, parent_slot=hole.parent_slot)

    async def _expect_same_chain(self) -> None:
        """Raise WrongChain if the log has blocks of another chain than that of the source.

        If the log has no chain yet, store that of the source.
        """
        genesis_hash = await self.source.genesis_hash()
        if genesis_hash is None:
            return
        recorded = await self.store.claim(genesis_hash)
        if recorded != genesis_hash:
            raise WrongChain(
                f"expected a node of the chain that this data_dir holds, genesis hash {recorded};"
                f" was {genesis_hash}: another cluster? Use its own data_dir"
            )

    async def _follow(self, chain: Slots, fold: FinalFold) -> Block | None:
        """Apply the updates of the source until its end, or until a block whose parent is missing.

        Return this block; None at the end of the source.
        """
        try:
            offer = None if self.ahead is None else self.ahead.offer
            async with read_ahead(self.source.updates(chain.tip), offer=offer) as queue:
                hole = await self._apply(queue, chain, fold)
        except Exception:
            await fold.finish()  # fold everything final before a restart
            raise
        finally:
            if self.ahead is not None:
                self.ahead.forget()
        await self._finish(fold, chain)
        return hole

    async def _apply(self, queue: ReadAhead, chain: Slots, fold: FinalFold) -> Block | None:
        batches = 0
        while updates := await queue.take():
            changes: list[Change] = []
            try:
                hole = chain.apply(updates, changes)
            finally:
                # Before a fork is raised, the changes before it are written.
                await self._write(chain, changes, fold)
            batches += 1
            if batches % TRIM_EVERY == 0:
                await self.store.trim(TRIM_EVENTS_MAX)
            if hole is not None:
                return hole
            while fold.hurries and not queue.holds_updates:
                await fold.go_on()
                await asyncio.sleep(0)  # on SQLite, folding itself never lets other tasks run
        return None

    async def _write(self, chain: Slots, changes: Sequence[Change], fold: FinalFold) -> None:
        if not changes:
            return
        await self.store.write(changes)
        if chain.tip is not None and chain.time is not None:
            INGEST_SLOT.set(chain.tip.slot)
            newest_s = chain.time
            INGEST_LAG_S.measure(lambda: self.clock.now() / 1000 - newest_s)
        await fold.go_on()
        await self._join(chain)

    async def _finish(self, fold: FinalFold, chain: Slots) -> None:
        await fold.finish()
        await self._join(chain)

    async def _join(self, chain: Slots) -> None:
        while self.history is not None and (mint := await self.history.join()) is not None:
            # The join has changed price pools in the store.
            chain.standings = Standings(await self.store.price_pools())
            log.info("history_joined", mint=mint)


def newest_stored() -> tuple[Slot | None, float | None]:
    """Return the slot and the age in seconds of the newest block that this process has stored.

    Both are None if this process has stored no block.
    """
    slot = REGISTRY.get_sample_value("mintscope_ingest_slot")
    age_s = REGISTRY.get_sample_value("mintscope_ingest_lag_s")
    return None if slot is None else Slot(int(slot)), age_s


class Writing:
    """A readiness check, which fails after a failed write to the market until a block is stored."""

    def __init__(self) -> None:
        self._trouble = ""
        self._slot: Slot | None = None

    def note(self, trouble: Exception) -> None:
        """Record a failed write."""
        self._trouble = str(trouble)
        self._slot, _ = newest_stored()

    async def expect_stored(self) -> None:
        """Raise ServiceUnavailable if a write failed and no block was stored since."""
        if not self._trouble:
            return
        if newest_stored()[0] != self._slot:
            self._trouble = ""
            return
        raise ServiceUnavailable(
            f"the market cannot be written: {self._trouble}: check that the disk has free space and"
            " that PostgreSQL runs"
        )
