"""Measures debits a second for 64 clients and a thousand accounts, each durable when answered.

mintscope commits all requests that arrive during a commit together, on SQLite and on PostgreSQL.
The peer sends one UPDATE for each request, with the same journal, over 64 connections.  PostgreSQL
comes from a wheel, runs on this machine, and flushes its log to disk.
"""

import time
from asyncio import Runner, gather
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop
from psycopg import AsyncConnection
from psycopg.raw_cursor import AsyncRawCursor

from bench.figure import Figure, tell
from bench.turns import spread
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Spent
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import CreditAccount
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import PostgresDatabase

CLIENTS: Final = 64
ACCOUNTS: Final = 1_000
CREDITS: Final = 100_000_000
ROUNDS: Final = 5
ROUND_S: Final = 1.0
PEPPER: Final = bytes(range(32))
OURS: Final = "mintscope"
SQLITE: Final = "SQLite"
POSTGRES: Final = "PostgreSQL"
EACH: Final = "one UPDATE a request"
TABLES: Final = """
CREATE TABLE peer_account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE peer_entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account bigint NOT NULL REFERENCES peer_account, delta bigint NOT NULL,
    balance bigint NOT NULL, at bigint NOT NULL);
"""
UPDATE: Final = """
WITH spent AS (
    UPDATE peer_account SET balance = balance - 1 WHERE id = $1 AND balance >= 1
    RETURNING id, balance)
INSERT INTO peer_entry (account, delta, balance, at)
SELECT id, -1, balance, $2 FROM spent RETURNING balance
"""

# Its arguments are the number of the client and the number of the account
Spend = Callable[[int, int], Awaitable[object]]


@dataclass
class Spending:
    """The debits a second and the processor time of one implementation, in each round."""

    a_second: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def run() -> list[Figure]:
    """Measure debits: how many a second in each database engine, and processor time of one."""
    # Import the servers of the tests
    servers: Any = import_module("tests.support.processes.servers")
    server = servers.PostgresServer(durable=True)
    try:
        server.start()
        with closing(PostgresDatabase(server.dsn)) as database:
            migrate(database, "money")
        with (
            TemporaryDirectory() as folder,
            Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(_measure(server.dsn, Path(folder)))
    finally:
        server.remove()


async def _measure(dsn: str, folder: Path) -> list[Figure]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        spends: dict[str, Spend] = {}
        for name, ledger in (
            (SQLITE, SqliteCreditLedger(folder / MONEY_FILE, pepper=PEPPER, clock=clock)),
            (POSTGRES, PostgresCreditLedger(dsn, pepper=PEPPER, clock=clock)),
        ):
            stack.push_async_callback(ledger.close)
            spends[name] = await _together(ledger)
        spends[EACH] = await stack.enter_async_context(_one_by_one(dsn))
        spent = {name: Spending() for name in spends}
        random, order = Random(1), list(spends)
        for number in range(ROUNDS + 1):
            random.shuffle(order)
            for name in order:
                a_second, cpu_us = await _round(spends[name])
                if number > 0:  # the first round is a warm-up
                    spent[name].a_second.append(a_second)
                    spent[name].cpu_us.append(cpu_us)
    return [_figure(name, spent) for name in spends]


async def _together(ledger: GroupCreditLedger) -> Spend:
    accounts: Sequence[CreditAccount] = [
        await ledger.issue(make_credit_token(number.to_bytes(28)), CREDITS, "")
        for number in range(ACCOUNTS)
    ]

    async def spend(_client: int, account: int) -> object:
        outcome = await ledger.spend(accounts[account])
        assert isinstance(outcome, Spent)
        return outcome

    return spend


@asynccontextmanager
async def _one_by_one(dsn: str) -> AsyncGenerator[Spend, None]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(await AsyncConnection.connect(dsn, autocommit=True))
            for _ in range(CLIENTS)
        ]
        await connections[0].execute(TABLES)
        await AsyncRawCursor(connections[0]).execute(
            "INSERT INTO peer_account SELECT generate_series(0, $1 - 1), $2", (ACCOUNTS, CREDITS)
        )

        async def spend(client: int, account: int) -> object:
            cursor = AsyncRawCursor(connections[client])
            await cursor.execute(UPDATE, (account, clock.now()), prepare=True)
            return await cursor.fetchone()

        yield spend


async def _round(spend: Spend) -> tuple[float, float]:
    """Return the debits per second, and the processor time of a debit in microseconds."""
    cpu_s, began_s = time.process_time(), time.perf_counter()
    until_s = began_s + ROUND_S

    async def client(number: int) -> int:
        random, count = Random(number), 0
        while time.perf_counter() < until_s:
            assert await spend(number, random.randrange(ACCOUNTS)) is not None
            count += 1
        return count

    count = sum(await gather(*(client(number) for number in range(CLIENTS))))
    took_s = time.perf_counter() - began_s
    return count / took_s, (time.process_time() - cpu_s) / count * 1e6


def _figure(name: str, spent: dict[str, Spending]) -> Figure:
    is_ours, rate = name != EACH, median(spent[name].a_second)
    return Figure(
        what=f"debits in {name if is_ours else POSTGRES}, {CLIENTS} clients",
        who=OURS if is_ours else EACH,
        value=rate,
        unit="debits/s",
        ratio=None if is_ours else median(spent[POSTGRES].a_second) / rate,
        goal="" if is_ours else ">= 5x",
        spread=spread(spent[name].a_second),
        cpu_us=median(spent[name].cpu_us),
    )


if __name__ == "__main__":
    for figure in run():
        tell(figure)
