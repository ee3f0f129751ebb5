"""Markets to which a test adds slots and mints, on every engine and in memory."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.mint_facts import MintFacts
from mintscope.market.ports import DEFAULT_RETENTION, FinalSlot, NewSlot, OrphanedSlot, Retention
from mintscope.market.standing import Standing
from mintscope.market.standings import pack
from support.fakes.log import FakeLog
from support.fakes.series import FakeSeries
from support.scenes.market_engines import MARKET_ENGINES, market_of

MEMORY: Final = "memory"
READERS: Final = (*MARKET_ENGINES, MEMORY)


def new_slot(
    number: int,
    time: int,
    swaps: Sequence[PricedSwap] = (),
    standings: Mapping[Mint, Standing] | None = None,
) -> NewSlot:
    header = SlotHeader(Slot(number), Slot(number - 1), f"hash-{number}-{time}", UnixS(time))
    return NewSlot(header, swaps, standings or {})


async def fold_all(market: Market) -> None:
    """Add up all final slots in the candles."""
    while await fold_once(market.store, None):
        pass


class TradedStore:
    """A market in a store, to which a test adds slots."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.reader = market.reader
        self.series = market.series

    async def slot(
        self,
        number: int,
        time: int,
        *swaps: PricedSwap,
        standings: Mapping[Mint, Standing] | None = None,
    ) -> None:
        """Add a slot; *standings* has the price pools of each mint after the slot."""
        await self.slots([new_slot(number, time, swaps, standings)])

    async def slots(self, slots: Sequence[NewSlot]) -> None:
        """Add *slots* in one transaction, as ingest does while it catches up."""
        await self.market.store.write(slots)

    async def finalize(self, number: int) -> None:
        """Make slots final up to *number*, and add them up in the candles."""
        await self.market.store.write([FinalSlot(Slot(number))])
        await fold_all(self.market)

    async def retract(self, number: int) -> None:
        """Retract the newest slot."""
        await self.market.store.write([OrphanedSlot(Slot(number))])

    async def append(self, slot: int, time: int, *swaps: PricedSwap) -> None:
        """Append *slot* with *swaps*, make it final, and fold it into the candles."""
        await self.market.store.write([new_slot(slot, time, swaps), FinalSlot(Slot(slot))])
        await fold_all(self.market)

    async def track(self, mint: Mint) -> None:
        assert await self.market.tracking.add(mint)

    async def untrack(self, mint: Mint) -> None:
        assert await self.market.tracking.remove(mint)

    async def learn(self, mint: Mint, facts: MintFacts) -> None:
        assert await self.market.facts.save(mint, facts)

    async def trim(self) -> None:
        """Delete all events that the log need not keep."""
        while await self.market.store.trim(1_000):
            pass


class TradedMemory:
    """A market in memory: a log, and the series that are read from it."""

    def __init__(self, mints: Sequence[Mint]) -> None:
        self.reader = FakeLog()
        self.series = FakeSeries(self.reader)
        for mint in mints:
            self.reader.track(mint)

    async def slot(
        self,
        number: int,
        time: int,
        *swaps: PricedSwap,
        standings: Mapping[Mint, Standing] | None = None,
    ) -> None:
        await self.slots([new_slot(number, time, swaps, standings)])

    async def slots(self, slots: Sequence[NewSlot]) -> None:
        for each in slots:
            packed = {mint: pack(standing) for mint, standing in each.standings.items()}
            self.reader.append(each.header.slot, each.header.time, *each.swaps, standings=packed)

    async def finalize(self, number: int) -> None:
        self.reader.finalize(number)

    async def retract(self, _number: int) -> None:
        self.reader.retract()


Traded = TradedStore | TradedMemory


@asynccontextmanager
async def traded_on(
    engine: str,
    folder: Path,
    mints: Sequence[Mint],
    *,
    retention: Retention = DEFAULT_RETENTION,
) -> AsyncIterator[Traded]:
    """Open the market of *folder* on *engine*, or a market in memory, with *mints* tracked."""
    if engine == MEMORY:
        yield TradedMemory(mints)
        return
    async with market_of(engine, folder, retention=retention) as market:
        await market.store.start(mints=mints, follows_files=False)
        yield TradedStore(market)
