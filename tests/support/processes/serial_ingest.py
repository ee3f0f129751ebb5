"""An ingest on SQLite that reads a chain up to a slot, and ends."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mintscope.app.config.groups import DexConfig
from mintscope.app.running.decode_worker import decoder
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, Slot
from mintscope.solana.blocks import Endpoint, Finalized, Source, Tip, Update
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from support.scenes.stores import market_in

POLLING = Polling(start="first", backfill_s=0)


@dataclass(frozen=True)
class UpTo:
    """A Source that ends as soon as *slot* is final, and reports no later finality."""

    source: Source
    slot: Slot

    async def genesis_hash(self) -> str | None:
        return await self.source.genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        async for update in self.source.updates(after):
            if isinstance(update, Finalized) and update.slot >= self.slot:
                yield Finalized(self.slot)
                return
            yield update


async def ingest_serially(folder: Path, rpc_url: str, mints: Sequence[Mint], slot: int) -> None:
    """Ingest the blocks of the chain at *rpc_url* into *folder*, until *slot* is final.

    mints   the mints that are tracked from the first slot
    """
    clock = SystemClock()
    async with (
        market_in(folder) as market,
        Rpc(Endpoint(url=rpc_url), clock=clock) as rpc,
    ):
        await Ingest(
            source=UpTo(Poller(rpc, POLLING, clock=clock), Slot(slot)),
            store=market.store,
            decode=decoder(DexConfig()),
            clock=clock,
            mints=mints,
        ).run()
