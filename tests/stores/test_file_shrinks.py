"""A SQLite file returns unused pages to the disk, and its log stays bounded."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from prometheus_client import REGISTRY

from mintscope.alerts.alert import FiringId, SignalId
from mintscope.alerts.queue_store import DueWanted, NewWebhook
from mintscope.app.stores.folder import MARKET_FILE, WEBHOOKS_FILE
from mintscope.app.stores.sqlite import SqliteEngine, webhook_queue
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import sqlite as shrinking
from mintscope.kit.sql.database import AccessAtOnce, AccessInThreads, DatabaseError
from mintscope.kit.sql.sqlite import BUSY_TIMEOUT_MS, SqliteDatabase, size_of
from mintscope.market.store import sqlite as sqlite_market
from mintscope.market.store.log_writer import LogCopier
from mintscope.market.store.sqlite import SqliteMarketTables

FILL = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 3000)
INSERT INTO list_snapshot_piece SELECT 1, n, zeroblob(10000) FROM count
"""

COPIED = "PRAGMA wal_checkpoint(NOOP)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / MARKET_FILE


@pytest.fixture
def db(path: Path) -> Iterator[SqliteDatabase]:
    with closing(SqliteDatabase(path, "market")) as opened:
        yield opened


def pages(db: SqliteDatabase) -> int:
    return int(db.execute("PRAGMA page_count").get)


def empty_and_fill(db: SqliteDatabase) -> int:
    """Fill *db* and empty it; return the number of pages that it had when it was full."""
    db.execute(FILL)
    full = pages(db)
    db.execute("DELETE FROM list_snapshot_piece")
    return full


def test_free_pages_are_returned_to_the_disk_in_steps(
    db: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "FREE_PAGES_MAX", 1_000)
    full = empty_and_fill(db)
    before = full
    while (now := tidied(db)) < before:
        assert before - now <= shrinking.PAGES_A_STEP + 3  # and pages of the pointer map
        before = now
    assert now < full / 3
    assert db.execute("PRAGMA freelist_count").get <= 1_000
    free = REGISTRY.get_sample_value("mintscope_free_bytes", {"store": "market"})
    assert free == db.execute("PRAGMA freelist_count").get * 4_096


def tidied(db: SqliteDatabase) -> int:
    SqliteMarketTables().tidy(db)
    return pages(db)


def test_a_small_number_of_free_pages_is_kept(db: SqliteDatabase) -> None:
    db.execute(FILL.replace("3000", "300"))
    db.execute("DELETE FROM list_snapshot_piece")
    before = pages(db)
    assert tidied(db) == before


async def test_only_trim_copies_the_log_and_only_if_it_is_long(
    db: SqliteDatabase, path: Path
) -> None:
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute(FILL.replace("3000", "1"))
    await trimmed(path)
    _, _, copied = db.execute(COPIED).get
    assert copied == 0  # to copy some pages is not worth two waits for the disk
    db.execute(FILL.replace("3000", "2000").replace("1, n,", "2, n,"))
    _, logged, copied = db.execute(COPIED).get
    assert logged > 4 * sqlite_market.LOG_PAGES
    assert copied == 0
    await trimmed(path)
    _, logged, copied = db.execute(COPIED).get
    assert copied == logged


async def trimmed(path: Path) -> None:
    """Trim the store in the file at *path*, and close it, so that the file has all changes."""
    async with SqliteEngine(path.parent).open_market() as market:
        await market.store.trim(1)


async def test_a_copy_of_the_log_waits_for_no_writer(db: SqliteDatabase, path: Path) -> None:
    db.execute(FILL)
    copier = LogCopier(
        AccessInThreads(lambda: SqliteDatabase(path, "market"), threads=1), sqlite_market.copy_log
    )
    with db.transaction():
        copier.start()
        await copier.close()
    _, logged, copied = db.execute(COPIED).get
    assert copied == logged > sqlite_market.LOG_PAGES


async def test_a_failed_copy_is_reported_at_the_next_start_and_repeated(path: Path) -> None:
    tried = 0

    def fail_once(_: object) -> None:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise DatabaseError("the disk is full")

    copier = LogCopier(AccessAtOnce(SqliteDatabase(path, "market")), fail_once)
    copier.start()
    # Let the copy fail
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(DatabaseError, match="full"):
        copier.start()
    copier.start()
    await copier.close()
    assert tried == 2


def test_a_long_log_is_emptied_after_its_last_reader_ends(
    db: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_market, "WAL_BYTES_MAX", 1_000_000)
    with closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM mint").fetchall()
        empty_and_fill(db)
        SqliteMarketTables().tidy(db)
        assert size_of(db.wal) > 1_000_000
        shown = REGISTRY.get_sample_value("mintscope_wal_bytes", {"store": "market"})
        assert shown == size_of(db.wal)
        reader.execute("ROLLBACK")
    SqliteMarketTables().tidy(db)
    assert size_of(db.wal) == 0
    assert db.execute("PRAGMA busy_timeout").get == BUSY_TIMEOUT_MS


def test_a_file_without_auto_vacuum_shrinks_when_it_is_compacted(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as old:
        old.execute("CREATE TABLE first (n)")  # so that it is no new file
    with closing(SqliteDatabase(path, "market")) as db:
        empty_and_fill(db)
        assert db.execute("PRAGMA auto_vacuum").get == 0
    ((name, before, after),) = SqliteEngine(path.parent).compact()
    assert name == MARKET_FILE
    assert after < before / 10
    with closing(SqliteDatabase(path, "market")) as db:
        assert db.execute("PRAGMA auto_vacuum").get == 2


async def test_the_file_of_webhooks_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "FREE_PAGES_MAX", 100)
    path = tmp_path / WEBHOOKS_FILE
    queue = webhook_queue(path)
    over = [
        NewWebhook(FiringId(number), SignalId(1), UnixMs(1), 1, UnixMs(2), "x" * 1_000)
        for number in range(1, 4_001)
    ]

    def count_pages() -> int:
        with closing(apsw.Connection(str(path))) as reader:
            return int(reader.execute("PRAGMA page_count").get)

    await queue.transact(lambda rows: rows.take_in(FiringId(4_000), over, UnixMs(3)))
    full = count_pages()
    await queue.transact(lambda rows: rows.purge(UnixMs(9), 0))
    for _ in range(8):
        await queue.transact(lambda rows: rows.claim(UnixMs(9), UnixMs(9), DueWanted(1, 1)))
    await queue.close()
    assert full > 1_000
    assert count_pages() < full / 4
