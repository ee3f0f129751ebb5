"""Rate limits that two processes share in a real PostgreSQL, and faults of that connection."""

import asyncio
import gc
import signal
import warnings
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final

import psycopg
import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import Admitted, Denied, Limit
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.limits import AskedWindow, FoundWindow, LimitBatches, SharedLimits
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.postgres_limits import PostgresWindows
from support.processes.servers import PostgresServer
from support.scenes.limits import database, dsn, empty_postgres, shared

START = UnixMs(1_750_000_000_000)
TWO = Limit(name="test", count=2, window_s=60)
ONE_EACH = 2  # processes
SESSIONS: Final = """
SELECT count(*) FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)  # its tables outlive a kill
    server.start()
    database = PostgresDatabase(server.dsn)
    migrate(database, "limits")
    database.close()
    yield server
    server.remove()


def window(name: str, *, taken: int = 1) -> AskedWindow:
    return AskedWindow(name.encode().ljust(16), 30, 60_000_000, 0, taken)


def limits_at(server: PostgresServer, patience_s: float) -> SharedLimits:
    clock = ManualClock(START)
    store = PostgresWindows(server.dsn)
    batches = LimitBatches(store, clock, patience_s=patience_s, pause_s=0)
    return SharedLimits(batches, clock, replicas=ONE_EACH)


async def shared_again(limits: SharedLimits) -> None:
    """Wait until requests count in the shared store again: a window then admits two requests."""
    probe = limits.limiter(TWO, window="probe")
    async with asyncio.timeout(30):
        for number in range(1_000_000):
            if await probe.take(number) == Admitted(1, 60):
                return
            await asyncio.sleep(0)


async def test_a_late_answer_is_not_read_as_the_answer_to_the_next_request() -> None:
    empty_postgres()
    async with aclosing(PostgresWindows(dsn())) as windows:
        await windows.settle([window("busy", taken=7)])
        # The request is cancelled at several points of its execution
        for turns in range(6):
            late = asyncio.ensure_future(windows.settle([window("busy")]))
            for _ in range(turns):
                await asyncio.sleep(0)
            late.cancel()
            await asyncio.wait((late,))

            assert await windows.settle([window(f"quiet {turns}")]) == [FoundWindow(0, 0)]


async def test_a_connection_ended_by_the_server_is_replaced_at_once() -> None:
    empty_postgres()
    clock = ManualClock(START)
    async with shared(clock, store_clock=clock, replicas=ONE_EACH) as limits:
        limiter = limits.limiter(TWO)
        await limiter.take("one")
        database().execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND query LIKE '%INSERT INTO limit_window%'"
        )

        assert await limiter.take("one") == Admitted(0, 60)
        assert await limiter.take("one") == Denied(60)


async def test_two_processes_that_request_the_same_keys_do_not_deadlock() -> None:
    empty_postgres()
    keys = [window(f"{number}") for number in range(200)]
    one, other = PostgresWindows(dsn()), PostgresWindows(dsn())
    async with aclosing(one), aclosing(other):
        for held in range(0, 20, 2):
            found = await asyncio.gather(one.settle(keys), other.settle(keys[::-1]))

            counts = [
                sorted((a.held, b.held)) for a, b in zip(found[0], found[1][::-1], strict=True)
            ]
            assert counts == [[held, held + 1]] * len(keys)


async def test_each_process_has_its_share_until_a_killed_server_is_back(
    own_server: PostgresServer,
) -> None:
    async with aclosing(limits_at(own_server, 30)) as limits:
        limiter = limits.limiter(TWO)
        assert [await limiter.take("a") for _ in range(2)] == [Admitted(1, 60), Admitted(0, 60)]
        own_server.stop()
        assert [await limiter.take("b") for _ in range(2)] == [Admitted(0, 60), Denied(60)]

        own_server.start()
        await shared_again(limits)
        assert [await limiter.take("c") for _ in range(2)] == [Admitted(1, 60), Admitted(0, 60)]


class SilentServer:
    """A PostgreSQL that accepts a client, and answers a query only after the query is cancelled."""

    READY: Final = b"Z\0\0\0\x05I"
    KEY: Final = b"K\0\0\0\x0c" + bytes(8)  # with which a client cancels
    LET_IN: Final = b"R\0\0\0\x08\0\0\0\0" + KEY + READY  # AuthenticationOk
    CANCELLED: Final = b"E\0\0\0\x1bSERROR\0C57014\0Mcancel\0\0" + READY
    CANCEL: Final = (80_877_102).to_bytes(4)

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._client: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client leaves."""
        length = int.from_bytes(await reader.readexactly(4))
        startup = await reader.readexactly(length - 4)
        if startup.startswith(self.CANCEL):
            assert self._client is not None
            self._client.write(self.CANCELLED)
        else:
            self._client = writer
            writer.write(self.LET_IN)
            while await reader.read(1000):
                self.asked.set()
        writer.close()


async def test_a_connection_cancelled_during_its_setup_is_closed() -> None:
    silent = SilentServer()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with server, asyncio.timeout(30):
            host, port = server.sockets[0].getsockname()
            dsn = f"host={host} port={port} user=a dbname=a sslmode=disable gssencmode=disable"
            async with aclosing(PostgresWindows(dsn)) as windows:
                asking = asyncio.ensure_future(windows.settle([window("a")]))
                await silent.asked.wait()
                asking.cancel()
                await asyncio.wait((asking,))
        del asking
        gc.collect()

    assert [str(each.message) for each in warned] == []


async def test_two_calls_at_once_leave_one_connection_open(own_server: PostgresServer) -> None:
    """A call that is being cancelled overlaps with the next one."""
    store = PostgresWindows(own_server.dsn)
    async with aclosing(store):
        await asyncio.gather(store.settle([]), store.settle([]))
        async with (
            asyncio.timeout(30),
            await psycopg.AsyncConnection.connect(own_server.dsn, autocommit=True) as watching,
        ):
            open_count = 2
            while open_count != 1:
                await asyncio.sleep(0.01)  # the server ends a closed session a moment later
                row = await (await watching.execute(SESSIONS)).fetchone()
                assert row is not None
                open_count = row[0]


async def test_requests_do_not_wait_for_a_frozen_server(own_server: PostgresServer) -> None:
    async with aclosing(limits_at(own_server, 0.2)) as limits:
        limiter = limits.limiter(TWO)
        await shared_again(limits)
        own_server.send(signal.SIGSTOP)
        try:
            assert [await limiter.take("b") for _ in range(2)] == [Admitted(0, 60), Denied(60)]
        finally:
            own_server.send(signal.SIGCONT)

        await shared_again(limits)
        assert [await limiter.take("c") for _ in range(2)] == [Admitted(1, 60), Admitted(0, 60)]
