"""Two ingests at one database: one writes, and the other takes over if the first is silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mintscope.kit.errors import StoreUnavailable
from mintscope.kit.sql import postgres
from mintscope.kit.sql.database import DatabaseAway
from mintscope.kit.sql.postgres import PostgresDatabase, TakenOver, WriteLock
from mintscope.kit.sql.processes import SILENT_MS_MAX, IngestLock, backfill_lock
from support.scenes.postgres import IDLE_MS

WAIT_S_MAX: Final = 10.0
TAKE_OVER_S_MAX: Final = 5.0
FINALIZE: Final = "UPDATE progress SET finalized_slot = ?"
FINALIZED: Final = "SELECT finalized_slot FROM progress"
FAILING: Final = """
CREATE FUNCTION broken.hashtext(name) RETURNS integer LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'out of order'; END $$
"""


@asynccontextmanager
async def waiting(lock: IngestLock) -> AsyncIterator[asyncio.Event]:
    """Wait for *lock* in a task; yield an event that is set once it holds *lock*, until the end."""
    is_held, is_over = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with lock.held():
            is_held.set()
            await is_over.wait()

    task = asyncio.create_task(hold())
    try:
        yield is_held
    finally:
        is_over.set()
        await asyncio.wait_for(task, WAIT_S_MAX)


def writer(dsn: str, epoch: int) -> PostgresDatabase:
    return PostgresDatabase(dsn, WriteLock.MARKET, epoch=epoch)


def test_only_one_process_at_a_time_holds_the_backfill_lock(dsn: str) -> None:
    with backfill_lock(dsn) as is_first:
        assert is_first
        with backfill_lock(dsn) as is_second:
            assert not is_second
    with backfill_lock(dsn) as is_third:
        assert is_third
    with pytest.raises(StoreUnavailable), backfill_lock("host=127.0.0.1 port=1 connect_timeout=1"):
        pass


def test_a_database_error_at_the_lock_raises_store_unavailable(dsn: str) -> None:
    """The test replaces `hashtext`, which computes the lock's number, by a function that fails."""
    with psycopg.connect(dsn) as database:
        database.execute("CREATE SCHEMA broken")
        database.execute(FAILING)
    broken = make_conninfo(dsn, options="-c search_path=broken,pg_catalog")
    with pytest.raises(StoreUnavailable, match="out of order"), backfill_lock(broken):
        pass


async def test_a_second_ingest_waits_until_the_first_releases_the_lock(
    dsn: str,
) -> None:
    first, second = IngestLock(dsn), IngestLock(dsn)
    async with AsyncExitStack() as stack:
        async with first.held():
            second_holds = await stack.enter_async_context(waiting(second))
            keeping = asyncio.create_task(first.keep())
            with pytest.raises(TimeoutError):
                # Longer than the silence after which another ingest takes over
                async with asyncio.timeout(SILENT_MS_MAX / 1000 + 1):
                    await second_holds.wait()
            keeping.cancel()
        async with asyncio.timeout(WAIT_S_MAX):
            await second_holds.wait()
    assert second.epoch == first.epoch + 1


async def test_a_silent_ingest_is_replaced_within_5_s_and_can_no_longer_write(
    dsn: str,
) -> None:
    first, second = IngestLock(dsn), IngestLock(dsn)
    async with first.held():  # without `keep`: as if the process were frozen
        database = writer(dsn, first.epoch)
        with database.transaction():
            database.execute(FINALIZE, (1,))
        async with waiting(second) as second_holds:
            async with asyncio.timeout(TAKE_OVER_S_MAX):
                await second_holds.wait()
            with pytest.raises(TakenOver), database.transaction():
                database.execute(FINALIZE, (2,))
            with pytest.raises(StoreUnavailable):
                async with asyncio.timeout(WAIT_S_MAX):
                    await first.keep()
            successor = writer(dsn, second.epoch)
            with successor.transaction():
                successor.execute(FINALIZE, (3,))
            assert database.execute(FINALIZED).get == 3
            successor.close()
        database.close()


async def test_a_transaction_of_the_previous_holder_ends_before_the_new_epoch(
    dsn: str,
) -> None:
    first, second = IngestLock(dsn), IngestLock(dsn)
    async with first.held():
        epoch = first.epoch
    database = writer(dsn, epoch)
    async with waiting(second) as second_holds:
        with database.transaction():
            database.execute(FINALIZE, (1,))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):  # less than a transaction may be idle
                    await second_holds.wait()
        async with asyncio.timeout(WAIT_S_MAX):
            await second_holds.wait()
        assert database.execute(FINALIZED).get == 1
    database.close()


async def test_a_frozen_transaction_of_the_previous_holder_is_rolled_back(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IDLE_IN_TRANSACTION_MS", IDLE_MS)
    first, second = IngestLock(dsn), IngestLock(dsn)
    async with first.held():
        epoch = first.epoch
    database = writer(dsn, epoch)
    async with waiting(second) as second_holds:
        with pytest.raises(DatabaseAway), database.transaction():  # noqa: PT012 - its end is refused
            database.execute(FINALIZE, (1,))
            async with asyncio.timeout(TAKE_OVER_S_MAX):
                await second_holds.wait()
    assert database.execute(FINALIZED).get is None
    database.close()


async def test_a_database_that_does_not_answer_is_reported() -> None:
    lock = IngestLock("host=127.0.0.1 port=1 user=postgres connect_timeout=1")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        async with lock.held():
            pytest.fail("it is held")
