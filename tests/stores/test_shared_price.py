"""The price of the payment token in one row: all api processes sell at the same price."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from pydantic import SecretStr

from mintscope.app.config.groups import PaymentsConfig
from mintscope.app.payments import price_basis
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import AccessInThreads
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.payments.price_cache import PinnedPrice
from mintscope.payments.pricing import SNAPSHOT_S, Doubt, Quote
from mintscope.payments.store.postgres import SharedPrice
from mintscope.solana.blocks import USDC, WSOL
from support.scenes.postgres import dsn_in

NOW: Final = UnixMs(1_800_000_000_000)
BASIS: Final = "the same settings"
TWO, THREE = Decimal(2), Decimal("3.000000001")
DATABASE_MS: Final = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class NoPrice:
    """A source that never has a price."""

    async def read(self, now: UnixMs) -> Quote | Doubt:
        del now
        return Doubt.SHALLOW


class Shared:
    """Several processes that share one stored price, each with its own source of prices.

    A test can make the stored price older.
    """

    def __init__(self, dsn: str) -> None:
        self._connect = partial(PostgresDatabase, dsn)
        self._database = self._connect()
        self.opened: list[SharedPrice] = []

    def process(self, source: PinnedPrice | NoPrice, basis: str = BASIS) -> SharedPrice:
        self.opened.append(SharedPrice(source, AccessInThreads(self._connect, threads=1), basis))
        return self.opened[-1]

    def pass_s(self, seconds: float) -> None:
        move = "UPDATE token_price SET read_at = read_at - ?::bigint"
        self._database.execute(move, (int(seconds * 1000),))

    async def close(self) -> None:
        self._database.close()
        for each in self.opened:
            await each.close()


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    shared = Shared(dsn_in(tmp_path))
    yield shared
    await shared.close()


async def usd(process: SharedPrice) -> Decimal:
    found = await process.read(NOW)
    assert isinstance(found, Quote)
    return found.usd


async def test_all_processes_sell_at_the_price_that_one_has_read(shared: Shared) -> None:
    first, second = shared.process(PinnedPrice(TWO)), shared.process(PinnedPrice(THREE))
    assert [await usd(first), await usd(second)] == [TWO, TWO]
    shared.pass_s(SNAPSHOT_S)
    assert [await usd(second), await usd(first)] == [THREE, THREE]


async def test_a_price_of_other_settings_is_not_used(shared: Shared) -> None:
    """The operator stops all processes, and starts them with another payment token."""
    before, after = shared.process(PinnedPrice(TWO)), shared.process(PinnedPrice(THREE), "changed")
    assert await usd(before) == TWO
    assert await usd(after) == THREE
    assert await usd(shared.process(PinnedPrice(TWO), "changed")) == THREE


@pytest.mark.parametrize(
    "change",
    [
        {"asset": str(WSOL), "decimals": 9},
        {"decimals": 9},
        {"price_usd": Decimal("0.00002")},
        {"price_source": "market"},
        {"price_source": "feed", "price_feed_url": SecretStr("https://feed.example/price")},
    ],
)
def test_each_setting_of_the_price_is_a_part_of_its_basis(change: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"asset": str(USDC), "decimals": 6}
    bases = [price_basis(PaymentsConfig(**(usual | each))) for each in ({}, {}, change)]
    assert bases[0] == bases[1] != bases[2]


async def test_processes_that_read_concurrently_use_the_same_price(shared: Shared) -> None:
    prices = [Decimal(n) for n in range(1, 9)]
    found = await asyncio.gather(*(usd(shared.process(PinnedPrice(each))) for each in prices))
    assert len(set(found)) == 1


async def test_a_process_that_waited_for_the_row_takes_the_price_stored_meanwhile(
    shared: Shared, tmp_path: Path
) -> None:
    dsn = dsn_in(tmp_path)
    with psycopg.connect(dsn) as first, psycopg.connect(dsn, autocommit=True) as watching:
        first.execute(f"INSERT INTO token_price VALUES (1, '3', 1, {DATABASE_MS}, '{BASIS}')")
        second = asyncio.create_task(usd(shared.process(PinnedPrice(TWO))))
        async with asyncio.timeout(10):
            while watching.execute(WAITING).fetchone() == (0,):  # noqa: ASYNC110 - by polling only
                await asyncio.sleep(0.01)
        first.execute(f"UPDATE token_price SET read_at = {DATABASE_MS}")
        first.commit()
        assert await second == 3


async def test_a_stored_price_lasts_only_for_the_rest_of_its_minute(shared: Shared) -> None:
    process = shared.process(PinnedPrice(TWO))
    await usd(process)
    shared.pass_s(40)
    found = await process.read(NOW)
    assert isinstance(found, Quote)
    assert 0 < found.lasts_s <= SNAPSHOT_S - 40


async def test_a_doubt_of_one_process_does_not_affect_the_others(shared: Shared) -> None:
    doubtful, sure = shared.process(NoPrice()), shared.process(PinnedPrice(TWO))
    assert await doubtful.read(NOW) is Doubt.SHALLOW
    assert await usd(sure) == TWO
    assert await usd(SharedPrice(NoPrice(), doubtful.database, BASIS)) == TWO


async def test_a_stored_price_from_the_future_is_ignored(shared: Shared) -> None:
    process, other = shared.process(PinnedPrice(TWO)), shared.process(PinnedPrice(THREE))
    await usd(process)
    shared.pass_s(-1_000)  # the clock of the database was set back
    assert await usd(other) == THREE


async def test_no_price_is_read_without_the_database() -> None:
    nowhere = partial(PostgresDatabase, "host=127.0.0.1 port=1 user=none")
    process = SharedPrice(PinnedPrice(TWO), AccessInThreads(nowhere, threads=1), BASIS)
    assert await process.read(NOW) is Doubt.NO_ANSWER
    await process.close()
