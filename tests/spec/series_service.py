"""The API over a market in which a test makes each trade, on the engine of the test."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap
from mintscope.market.ports import DEFAULT_RETENTION, NewSlot, Retention
from mintscope.solana.blocks import USDC, USDT, WSOL
from support.scenes.engine import is_postgresql
from support.scenes.service import Service, bearer, running_service
from support.scenes.traded import Traded, new_slot, traded_on

TOKEN, QUIET, UNTRACKED = WSOL, USDC, USDT
BEGIN_S: Final = 1_750_000_020  # Unix seconds: the start of a minute


@dataclass
class SeriesService:
    """An API over swaps of TOKEN that a test adds slot by slot; QUIET is tracked, without swaps."""

    service: Service
    traded: Traded
    follower: LogTailer
    slots: int = 0

    @property
    def client(self) -> httpx.AsyncClient:
        return self.service.client

    async def trade(
        self, after_s: int, price: float | None, *, is_buy: bool = True, volume: int = 10**6
    ) -> None:
        """Add a slot with a swap of TOKEN, *after_s* seconds after BEGIN_S."""
        await self.add([self.made(after_s, price, is_buy=is_buy, volume=volume)])

    def made(
        self, after_s: int, price: float | None, *, is_buy: bool = True, volume: int = 10**6
    ) -> NewSlot:
        """Return the next slot, with a swap of TOKEN; the caller logs it with `add`."""
        self.slots += 1
        sol = None if price is None else price / 100
        swap = PricedSwap(TOKEN, 0, 0, -1, 0, is_buy, volume, price, sol, "pool")
        return new_slot(self.slots, BEGIN_S + after_s, [swap])

    async def add(self, slots: Sequence[NewSlot]) -> None:
        """Add *slots* in one transaction, which is fast, and set the time to the last one's."""
        await self.traded.slots(slots)
        clock = self.service.clock
        clock.step(slots[-1].header.time * 1000 - clock.now())

    async def ask(
        self, path: str, *, credit_token: str | None = None, mint: str = TOKEN, **query: Any
    ) -> httpx.Response:
        headers = {} if credit_token is None else bearer(credit_token)
        asked = {name.rstrip("_"): value for name, value in query.items()}
        return await self.client.get(f"/v1/token/{mint}/{path}", params=asked, headers=headers)

    async def report(self, credit_token: str) -> httpx.Response:
        """Request the report of TOKEN, which includes the newest slot; return the answer."""
        await self.follower.catch_up()
        return await self.client.get(f"/v1/token/{TOKEN}", headers=bearer(credit_token))


@asynccontextmanager
async def series_service(
    folder: Path, *, retention: Retention = DEFAULT_RETENTION, **options: Any
) -> AsyncIterator[SeriesService]:
    clock = ManualClock(UnixMs(BEGIN_S * 1000))
    engine = "postgresql" if is_postgresql() else "sqlite"
    async with traded_on(engine, folder, [TOKEN, QUIET], retention=retention) as traded:
        follower = LogTailer(traded.reader, LiveMarket(4), clock)
        async with running_service(
            folder, clock=clock, reports=follower, series=traded.series, **options
        ) as service:
            yield SeriesService(service, traded, follower)


@pytest.fixture
async def market(tmp_path: Path) -> AsyncIterator[SeriesService]:
    async with series_service(tmp_path) as market:
        yield market
