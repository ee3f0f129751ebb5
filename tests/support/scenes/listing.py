"""A market for lists, on any engine or in memory, whose slots are final and folded at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.mint_facts import MintFacts
from mintscope.market.ports import DEFAULT_RETENTION, FinalSlot, NewSlot, Retention
from mintscope.market.screening.snapshot import ListReader
from support.fakes.list_reader import FakeListReader
from support.scenes.market_engines import MARKET_ENGINES, market_of

LIST_ENGINES: Final = ("memory", *MARKET_ENGINES)


class ListedMarket(Protocol):
    """A market to which a test appends events."""

    async def append(self, slot: int, time: int, *swaps: PricedSwap) -> None:
        """Append *slot* as final and folded."""

    async def track(self, mint: Mint) -> None: ...

    async def untrack(self, mint: Mint) -> None: ...

    async def learn(self, mint: Mint, facts: MintFacts) -> None: ...

    async def trim(self) -> None:
        """Delete all events that the log need not keep."""


class KeptMarket:
    """A ListedMarket over a store."""

    def __init__(self, market: Market) -> None:
        self.market = market

    async def append(self, slot: int, time: int, *swaps: PricedSwap) -> None:
        header = SlotHeader(
            slot=Slot(slot), parent_slot=Slot(slot - 1), blockhash=f"{slot}", time=UnixS(time)
        )
        await self.market.store.write([NewSlot(header, swaps), FinalSlot(Slot(slot))])
        while await fold_once(self.market.store, None):
            pass

    async def track(self, mint: Mint) -> None:
        assert await self.market.tracking.add(mint)

    async def untrack(self, mint: Mint) -> None:
        assert await self.market.tracking.remove(mint)

    async def learn(self, mint: Mint, facts: MintFacts) -> None:
        assert await self.market.facts.save(mint, facts)

    async def trim(self) -> None:
        while await self.market.store.trim(1_000):
            pass


@asynccontextmanager
async def listed_market(
    engine: str, folder: Path, retention: Retention = DEFAULT_RETENTION
) -> AsyncIterator[tuple[ListedMarket, ListReader]]:
    """Open an empty market that tracks no mint, and the reader of lists over it."""
    if engine == "memory":
        fake = FakeListReader()
        yield fake, fake
        return
    async with market_of(engine, folder, retention=retention) as market:
        await market.store.start(mints=[], follows_files=False)
        yield KeptMarket(market), market.lists
