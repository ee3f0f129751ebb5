"""A PostgreSQL that is frozen for good: no thread and no request waits forever."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from mintscope.app.stores import postgres as stores
from mintscope.credits import postgres as credits_engine
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable, StoreUnavailable
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql import postgres as connection
from mintscope.kit.sql import processes as notices
from mintscope.kit.sql.database import AccessInThreads, DatabaseAway
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.processes import MarketNotices
from mintscope.payments.protocol.envelope import MessageHash
from support.scenes.postgres import dsn_in

PID = "SELECT pg_backend_pid()"
HANG_S = 20.0
READ_S = 0.3
READS_S_MAX = 3.0  # less than a thread waits for a lock
WAITING_COUNT = 12  # three for each thread


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MARGIN_S", 0.2)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_statement_on_a_frozen_connection_fails_and_the_next_reconnects(tmp_path: Path) -> None:
    with closing(PostgresDatabase(dsn_in(tmp_path), statement_ms=100)) as db:
        pid = db.execute(PID).get
        with frozen(pid):
            with pytest.raises(DatabaseAway, match=r"within 0\.3 s"):
                db.execute("SELECT 1")
            assert db.execute(PID).get != pid


def test_a_large_statement_on_a_frozen_connection_fails(tmp_path: Path) -> None:
    with (
        closing(PostgresDatabase(dsn_in(tmp_path), statement_ms=100)) as db,
        frozen(db.execute(PID).get),
        pytest.raises(DatabaseAway),
    ):
        # More than the buffers of a connection hold, so that sending it blocks
        db.execute("SELECT length(?::text)", ("x" * 50_000_000,))


async def test_readers_end_when_their_access_is_closed(tmp_path: Path) -> None:
    connect = partial(PostgresDatabase, dsn_in(tmp_path), statement_ms=100)
    access = AccessInThreads(connect, threads=1)
    pid = await access.run(lambda db: db.execute(PID).get)
    with frozen(pid):
        reading = [asyncio.ensure_future(access.run(lambda db: db.execute("SELECT 1")))]
        await asyncio.sleep(0)
        async with asyncio.timeout(HANG_S):
            await asyncio.to_thread(access.close)
            found = await asyncio.gather(*reading, return_exceptions=True)
    assert isinstance(found[0], DatabaseAway)


@pytest.mark.parametrize("table", ['"user"', "payment", "credit_account"])
async def test_all_waiting_reads_of_money_and_accounts_fail_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    for module in (stores, credits_engine):
        monkeypatch.setattr(module, "READ_TIMEOUT_S", READ_S)
    dsn = dsn_in(tmp_path)
    async with AsyncExitStack() as stack:
        accounts = stores.account_connections(dsn)
        stack.push_async_callback(accounts.close)
        payments = stores.payment_store(dsn)
        stack.push_async_callback(payments.close)
        ledger = credits_engine.PostgresCreditLedger(
            dsn, pepper=bytes(32), clock=ManualClock(UnixMs(0))
        )
        stack.push_async_callback(ledger.close)
        reads: dict[str, Callable[[], Awaitable[object]]] = {
            '"user"': lambda: accounts.read(lambda db: db.execute('SELECT 1 FROM "user"').get),
            "payment": lambda: payments.find(MessageHash(bytes(32))),
            "credit_account": lambda: ledger.balance(CreditAccount(1)),
        }
        read = reads[table]
        with closing(PostgresDatabase(dsn)) as locking, locking.transaction():
            locking.execute(f"LOCK TABLE {table}")
            async with asyncio.timeout(READS_S_MAX):
                each = (read() for _ in range(WAITING_COUNT))
                found = await asyncio.gather(*each, return_exceptions=True)
    assert {type(one) for one in found} == {ServiceUnavailable}


async def test_waiting_for_notices_ends_and_opening_fails_if_join_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "NOTICES_ANSWER_S", 0.2)
    listening = MarketNotices(dsn_in(tmp_path), {"a": "1"})

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(notices, "join", never)
    async with asyncio.timeout(HANG_S):
        await listening.wait(0.0)
        with pytest.raises(StoreUnavailable):
            await listening.open()
        await listening.aclose()
