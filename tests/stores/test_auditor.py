"""Of several api processes that share a database, one audits; when it ends, another does."""

import asyncio
from pathlib import Path

from mintscope.app.stores import postgres as openers
from mintscope.app.stores.sqlite import payment_books
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.postgres import PostgresDatabase
from support.scenes.postgres import dsn_in
from support.scenes.stores import money_in

SETTING = "SELECT setting FROM pg_settings WHERE name = 'idle_session_timeout'"


async def test_one_of_three_processes_audits(tmp_path: Path) -> None:
    processes = [openers.payment_books(dsn_in(tmp_path)) for _ in range(3)]
    for _ in range(2):
        assert [await each.is_auditor() for each in processes] == [True, False, False]
    await processes[0].close()
    audits: list[bool] = []
    while not any(audits):  # the server notices within moments that the connection is closed
        audits = [await each.is_auditor() for each in processes[1:]]
    assert audits in ([True, False], [False, True])
    for each in processes[1:]:
        await each.close()


async def test_the_session_of_an_auditor_has_an_idle_timeout_of_60_s(tmp_path: Path) -> None:
    books = openers.payment_books(dsn_in(tmp_path))
    assert await books.is_auditor()
    database: PostgresDatabase = vars(books)["_db"]
    assert database.execute(SETTING).get == "60000"  # the server ends a session that is silent
    await books.close()


async def test_a_process_on_sqlite_is_the_auditor(tmp_path: Path) -> None:
    books = payment_books(tmp_path / "money.sqlite")
    assert await books.is_auditor()
    await books.close()


async def test_an_audit_runs_while_payments_are_listed(tmp_path: Path) -> None:
    async with (
        money_in(tmp_path, clock=ManualClock(UnixMs(0))) as money,
        vars(money.read_books)["_lock"],
        asyncio.timeout(30),
    ):
        assert (await money.books.walked()).entry_count == 0
