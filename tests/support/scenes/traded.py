"""Markets to which a test adds slots one by one, on every engine and in memory."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import fold_once
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import LogReader, PricedSwap, SlotHeader
from mintscope.market.ports import DEFAULT_RETENTION, FinalSlot, NewSlot, OrphanedSlot, Retention
from mintscope.market.series.pools import SeriesReader
from mintscope.market.standing import Standing
from mintscope.market.standings import pack
from support.fakes.log import FakeLog
from support.fakes.series import FakeSeries
from support.scenes.market_engines import MARKET_ENGINES, market_of

MEMORY: Final = "memory"
READERS: Final = (*MARKET_ENGINES, MEMORY)


class Traded(Protocol):
    """A market that trades on command."""

    @property
    def reader(self) -> LogReader: ...
    @property
    def series(self) -> SeriesReader: ...

    async def slot(
        self,
        number: int,
        time: int,
        *swaps: PricedSwap,
        standings: Mapping[Mint, Standing] | None = None,
    ) -> None:
        """Add a slot; *standings* has the price pools of each mint after the slot."""

    async def finalize(self, number: int) -> None:
        """Make slots final up to *number*, and fold them."""

    async def retract(self, number: int) -> None:
        """Retract the newest slot."""


class TradedStore:
    """A Traded over a store."""

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
        header = SlotHeader(
            slot=Slot(number),
            parent_slot=Slot(number - 1),
            blockhash=f"hash-{number}-{time}",
            time=UnixS(time),
        )
        await self.market.store.write([NewSlot(header, swaps, standings or {})])

    async def finalize(self, number: int) -> None:
        await self.market.store.write([FinalSlot(Slot(number))])
        while await fold_once(self.market.store, None):
            pass

    async def retract(self, number: int) -> None:
        await self.market.store.write([OrphanedSlot(Slot(number))])


class TradedMemory:
    """A Traded over a log in memory."""

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
        packed = {mint: pack(each) for mint, each in (standings or {}).items()}
        self.reader.append(number, time, *swaps, standings=packed)

    async def finalize(self, number: int) -> None:
        self.reader.finalize(number)

    async def retract(self, _number: int) -> None:
        self.reader.retract()


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
