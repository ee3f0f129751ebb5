"""Readers of the market are woken by PostgreSQL, and poll if no notice comes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import psycopg
import pytest
from structlog.testing import capture_logs

from mintscope.kit.sql.processes import MarketNotices

WOKEN_S_MAX: Final = 0.5
NOTIFY: Final = "SELECT pg_notify('mintscope_market_' || current_schema(), '')"
END_OTHERS: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE application_name = 'mintscope' AND query LIKE 'LISTEN%'
"""


@pytest.fixture
async def notices(dsn: str) -> AsyncIterator[MarketNotices]:
    opened = MarketNotices(dsn)
    await opened.wait(0)  # it connects, and waits a second for a notice
    yield opened
    await opened.aclose()


async def send(dsn: str, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(statement.encode())


async def test_a_write_wakes_a_waiting_reader(dsn: str, notices: MarketNotices) -> None:
    waiting = asyncio.create_task(notices.wait(60))
    await send(dsn, NOTIFY)
    async with asyncio.timeout(WOKEN_S_MAX):
        await waiting


async def test_a_write_between_two_waits_is_not_missed(dsn: str, notices: MarketNotices) -> None:
    await send(dsn, NOTIFY)
    async with asyncio.timeout(WOKEN_S_MAX):
        await notices.wait(60)


async def test_a_reader_looks_again_after_a_second_without_a_write(notices: MarketNotices) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await notices.wait(60)
    assert loop.time() - began_s == pytest.approx(1, abs=0.5)


async def test_a_connection_to_an_unreachable_server_is_lost(notices: MarketNotices) -> None:
    connection: psycopg.AsyncConnection[object] = vars(notices)["_connection"]
    options = connection.info.get_parameters()

    assert options["tcp_user_timeout"] == "20000"
    names = ("keepalives_idle", "keepalives_interval", "keepalives_count")
    assert [options[name] for name in names] == ["5", "5", "3"]


async def test_a_lost_connection_is_reported_once_and_the_poll_goes_on(
    dsn: str, notices: MarketNotices
) -> None:
    await send(dsn, END_OTHERS)
    with capture_logs() as logs:
        for _ in range(3):
            async with asyncio.timeout(WOKEN_S_MAX):
                await notices.wait(0.01)
    assert [line["event"] for line in logs] == ["market_notices_lost"]


async def test_waiting_ends_in_time_without_a_server() -> None:
    notices = MarketNotices("host=127.0.0.1 port=1 user=postgres")
    async with asyncio.timeout(WOKEN_S_MAX):
        await notices.wait(0.01)
    await notices.aclose()
