"""Alerts are evaluated again after rounds that failed, whichever read of the store fails."""

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from watching import Scene, opened, trade

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.account_stores import ENGINES

T = TypeVar("T")


@pytest.fixture(params=ENGINES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with opened(request.param, tmp_path) as found:
        yield found


@dataclass
class FailingReads:
    """The accounts of *store*, whose reads with the numbers in *failing* raise an error."""

    store: AccountStore
    failing: Collection[int] = ()
    reads: int = 0

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        self.reads += 1
        if self.reads in self.failing:
            raise ServiceUnavailable("expected the store to answer")
        return await self.store.read(work)

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.transact(work)

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.claim(work)


async def test_a_crossing_fires_after_reads_of_the_store_failed_in_two_rounds(
    scene: Scene,
) -> None:
    """The first read of a round fails, and any one of the round after it."""
    for number in range(1, 9):
        await scene.begin_again()
        signal_id = await scene.make()
        store = FailingReads(scene.store)
        watcher = scene.watcher(store=store)
        begun, waited = Semaphore(0), Semaphore(0)

        async def wait(begun: Semaphore = begun, waited: Semaphore = waited) -> None:
            waited.release()
            await begun.acquire()

        watcher.wait = wait
        running = asyncio.create_task(watcher.run())
        await waited.acquire()
        for failing in (1, number):
            store.reads, store.failing = 0, {failing}
            begun.release()
            await waited.acquire()
        store.failing = ()
        trade(scene.log, 11.0)
        begun.release()
        await waited.acquire()
        running.cancel()
        await asyncio.wait([running])
        assert len(await scene.fired(signal_id)) == 1, number
