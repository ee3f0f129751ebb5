"""From a source of blocks to the swap log and its finalized fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import NeedsOperator
from mintscope.base.metrics import INGEST_LAG_S, INGEST_SLOT
from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL, Block, Source, SourceError
from mintscope.core.market.basis.standings import Standings
from mintscope.core.market.history.store import HistoryJoin
from mintscope.core.market.quotes import QuoteMints
from mintscope.core.market.registry import Floor
from mintscope.core.market.shards.shard import WHOLE, Shard
from mintscope.core.market.store import Change, MarketStore
from mintscope.edges.ingest.decode_ahead import DecodeAhead
from mintscope.edges.ingest.fold import FinalFold, MeasuredFinality, not_measured
from mintscope.edges.ingest.read_ahead import ReadAhead, read_ahead
from mintscope.edges.ingest.slots import Decode, Slots
from mintscope.edges.ingest.venues import VenueWatch

log = structlog.get_logger()

HOLES_MAX: Final = 5
TRIM_EVERY: Final = 4
TRIM_EVENTS_MAX: Final = 1_000


class SourceBroken(SourceError):
    """The source offers blocks that never join the log."""


class WrongChain(SourceBroken, NeedsOperator):
    """The source is of another chain than the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Follows one source into one store.

    mints           tracked on a fresh installation
    floor           follow every mint that reaches it; None: only listed mints
    follows_files   the market's clock is that of the files being replayed
    quote_mints     dollars and staking tokens that others are priced in
    history         merges the backfills that a command has read
    ahead           decodes in a second process while several blocks wait; None: nothing does
    finality        returns the time to finality of the chain, None while it is not known
    venues          counts the swaps of each block, by program
    shard           the part of all mints that this ingest writes
    """

    source: Source
    store: MarketStore
    decode: Decode
    clock: Clock
    mints: Sequence[Mint] = (WSOL,)
    floor: Floor | None = None
    follows_files: bool = False
    quote_mints: QuoteMints = QuoteMints()  # noqa: RUF009 - immutable
    history: HistoryJoin | None = None
    ahead: DecodeAhead | None = None
    finality: MeasuredFinality = not_measured
    venues: VenueWatch | None = None
    shard: Shard = WHOLE

    async def run(self) -> None:
        """Ingest until the source ends, or for ever; stops cleanly when cancelled.

        Raises ForkBelowFinalized or WrongChain where an operator must decide, else SourceError.
        """
        mints = [mint for mint in self.mints if self.shard.owns(mint)]
        tail = await self.store.start(mints=mints, follows_files=self.follows_files)
        standings = Standings(await self.store.deciding_pools())
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
        await self._finish(fold, chain)
        await self._expect_same_chain()
        holes = 0
        while True:
            before = chain.tip
            hole = await self._follow(chain, fold)
            if hole is None:
                return
            holes = holes + 1 if chain.tip == before else 1
            if holes > HOLES_MAX:
                raise SourceBroken(
                    f"expected block {hole.parent_slot} before {hole.slot};"
                    f" the source skipped it {HOLES_MAX} times"
                )
            log.info("hole", slot=hole.slot, parent_slot=hole.parent_slot)

    async def _expect_same_chain(self) -> None:
        """Record which chain the log is of; raise WrongChain where the source is of another."""
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
        """Apply what the source yields; return a block that cannot join, None at the end."""
        try:
            offer = None if self.ahead is None else self.ahead.offer
            async with read_ahead(self.source.updates(chain.tip), offer=offer) as queue:
                hole = await self._apply(queue, chain, fold)
        except Exception:
            await fold.finish()  # nothing that is final waits for the next start
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
                await self._write(chain, changes, fold)
            batches += 1
            if batches % TRIM_EVERY == 0:
                await self.store.trim(TRIM_EVENTS_MAX)
            if hole is not None:
                return hole
            while fold.hurries and not queue.holds_updates:
                await fold.go_on()
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
        """Fold everything that is final, and join the pasts that reach to it."""
        await fold.finish()
        await self._join(chain)

    async def _join(self, chain: Slots) -> None:
        """Join the pasts that are ready and folded up to."""
        while self.history is not None and (mint := await self.history.join()) is not None:
            chain.standings = Standings(await self.store.deciding_pools())
            log.info("history_joined", mint=mint)
