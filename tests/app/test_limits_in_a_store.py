"""Api processes that share a store count limits together; without a store, each counts alone."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Level
from mintscope.app.doctor.store import check_limits
from mintscope.app.stores.stores import expect_limits, open_limits
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import StoreUnavailable
from mintscope.kit.limits import Admitted, Denied, Limit, Limits, MemoryLimits
from mintscope.kit.primitives import UnixMs
from support.processes.servers import PostgresServer, free_port
from support.scenes.postgres import url_in

START: Final = UnixMs(1_750_000_000_000)
THIRTY: Final = Limit(name="requests", count=30, window_s=60)
REQUESTS: Final = 200


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(store=SecretStr(url_in(tmp_path)), replicas_max=2)


@pytest.fixture
def away() -> Config:
    """Return a configuration whose store is a database that does not answer."""
    url = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    return Config(store=SecretStr(url), replicas_max=4)


async def taken(limits: Limits, requests: int) -> list[Admitted | Denied]:
    window = limits.limiter(THIRTY)
    return list(await asyncio.gather(*(window.take("192.0.2.1") for _ in range(requests))))


async def test_two_processes_admit_exactly_the_limit(config: Config) -> None:
    clock = ManualClock(START)
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(open_limits(config, clock)) for _ in range(2)]
        reported = await asyncio.gather(*(taken(each, REQUESTS // 2) for each in both))
    admitted = [each for some in reported for each in some if isinstance(each, Admitted)]
    assert len(admitted) == THIRTY.count


async def test_a_process_admits_its_share_while_the_store_does_not_answer() -> None:
    server = PostgresServer()
    try:
        server.start()
        url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        config = Config(store=SecretStr(url), replicas_max=4)
        async with open_limits(config, ManualClock(START)) as limits:
            server.stop()
            answers = await taken(limits, REQUESTS)
    finally:
        server.remove()
    assert sum(isinstance(each, Admitted) for each in answers) == THIRTY.count // 4


async def test_a_process_without_a_store_counts_limits_in_memory() -> None:
    async with open_limits(Config(), ManualClock(START)) as limits:
        assert isinstance(limits, MemoryLimits)
    assert not await expect_limits(Config())


def test_the_doctor_says_where_limits_are_counted(config: Config) -> None:
    (finding,) = check_limits(config)
    assert (finding.level, finding.what) == (Level.OK, "limits: counted together")
    (finding,) = check_limits(Config())
    assert finding.what == "limits: counted in the memory of the api process"


async def test_the_doctor_warns_of_limits_in_a_store_that_does_not_answer(away: Config) -> None:
    with pytest.raises(StoreUnavailable):
        await expect_limits(away)
    (finding,) = await asyncio.to_thread(lambda: list(check_limits(away)))
    assert finding.level == Level.WARN
    assert "1/4" in str(finding)
