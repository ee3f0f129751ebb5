"""Api processes that share a PostgreSQL must have the same sales settings and equal clocks."""

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from mintscope.app.config.groups import Config
from mintscope.app.running.serve import EXIT_OPERATOR
from mintscope.app.stores.stores import common_settings
from mintscope.credits.postgres import PostgresCreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql.database import DatabaseAway, SessionLock
from mintscope.kit.sql.processes import LET_GO, MarketNotices, join
from mintscope.kit.time import SECOND_MS
from support.processes.api_process import settings
from support.processes.listening import addresses_in
from support.scenes.postgres import url_in
from support.scenes.stores import PEPPER

SHARED_LOCKS = """
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid = (hashtext(current_schema())::bigint & 4294967295)::oid
"""
SETTINGS = {"api.origin": "https://a.example", "payments.fee_payer_key": "sha256:1234"}


async def test_a_replica_with_other_settings_is_refused_with_the_differences(dsn: str) -> None:
    first, same = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, SETTINGS)
    other = MarketNotices(
        dsn, {"api.origin": "https://b.example", "payments.fee_payer_key": "sha256:5678"}
    )
    await first.open()
    await same.open()
    with pytest.raises(UnusableStore) as refused:
        await other.open()
    assert str(refused.value) == (
        "expected the settings of the api processes that run: api.origin is https://a.example there"
        " and https://b.example here; payments.fee_payer_key differs"
    )
    for each in (first, same, other):
        await each.aclose()


ALONE: Final = "SELECT pg_advisory_lock(hashtext(current_schema()), %s)"
WAITING: Final = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
END_LISTENING: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name = 'mintscope' AND query LIKE 'LISTEN%'
"""


async def test_a_replica_that_differs_after_a_restart_of_the_server_is_refused(dsn: str) -> None:
    """All sessions end, and a replica with other settings is the first to connect again."""
    old, new = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, {"api.origin": "None"})
    await old.open()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(END_LISTENING)
    await new.open()

    await old.wait(0)  # it notices that its session has ended
    with pytest.raises(UnusableStore, match=r"origin is None there and https://a\.example here"):
        await old.wait(0)
    await new.aclose()
    await old.aclose()


@pytest.mark.process
async def test_an_api_process_ends_if_others_then_run(tmp_path: Path) -> None:
    dsn = url_in(tmp_path)
    environment = settings(
        tmp_path,
        MINTSCOPE_STORE=dsn,
        MINTSCOPE_CREDITS__PEPPER=PEPPER.hex(),
        MINTSCOPE_API__ORIGIN="http://localhost",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mintscope", "api", env=environment, stderr=subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        logged = ""
        async with asyncio.timeout(60):
            while not addresses_in(logged):
                logged += (await process.stderr.readline()).decode()
                assert process.returncode is None, logged
        first = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        ending = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        async with first, ending, asyncio.timeout(30):
            # It waits for the lock, so that it gets the lock before the process connects again.
            alone = asyncio.create_task(first.execute(ALONE, (SessionLock.SERVING,)))
            while (await (await ending.execute(WAITING)).fetchone()) != (1,):
                pass
            await ending.execute(END_LISTENING)
            await alone
            await join(first, {"api.origin": "None"})
            await first.execute(LET_GO, (SessionLock.SERVING,))
            logged += (await process.stderr.read()).decode()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert code == EXIT_OPERATOR
    assert "api.origin is None there and http://localhost here" in logged


async def test_other_settings_are_accepted_after_all_replicas_have_ended(dsn: str) -> None:
    first, other = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, {"api.origin": "None"})
    await first.open()
    await first.aclose()
    await other.open()
    await other.aclose()


async def test_a_replica_with_other_settings_joins_when_the_last_one_ends(dsn: str) -> None:
    first, other = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, {"api.origin": "None"})
    await first.open()
    opening = asyncio.ensure_future(other.open())
    looking = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with looking, asyncio.timeout(10):
        while (await (await looking.execute(SHARED_LOCKS)).fetchone()) != (2,):
            pass
    await first.aclose()
    await opening
    await other.aclose()


async def test_a_refused_replica_closes_its_connection(dsn: str) -> None:
    first, other = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, {"api.origin": "None"})
    await first.open()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(UnusableStore):
            await other.open()
        del other
        gc.collect()
    await first.aclose()
    assert [str(each.message) for each in warned] == []


def test_common_settings_contain_no_secret() -> None:
    config = Config.model_validate({"payments": {"price_feed_url": "https://hidden@host/price"}})
    reported = common_settings(config)
    assert "hidden" not in repr(reported)
    assert reported["payments.price_feed_url"].startswith("sha256:")
    assert {"payments.price_usd", "payments.pay_to", "api.origin"} <= reported.keys()
    assert {"accounts.signup_limit_requests", "api.other_limit_window_s"} <= reported.keys()


@pytest.fixture
def book(dsn: str) -> Iterator[PostgresCreditBook]:
    opened = PostgresCreditBook(dsn, pepper=PEPPER)
    yield opened
    opened.close()


@pytest.mark.parametrize("apart_s", [-3, 3])
def test_a_replica_whose_clock_is_off_is_not_ready(dsn: str, apart_s: int) -> None:
    clock = SystemClock()
    book = PostgresCreditBook(dsn, pepper=PEPPER, now_ms=lambda: clock.now() + apart_s * SECOND_MS)
    with pytest.raises(DatabaseAway, match="expected a clock within 2000 ms of the database's"):
        book.expect_writable()
    book.close()


def test_a_replica_whose_clock_is_right_is_ready(book: PostgresCreditBook) -> None:
    book.expect_writable()
