"""The database file is opened safely, or refused in one clear sentence."""

import os
import stat
from pathlib import Path

import apsw
import pytest

from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql import sqlite as connection
from mintscope.kit.sql.sqlite import open_store, snapshot, transaction


def test_a_store_is_durable_and_strict(tmp_path: Path) -> None:
    db = open_store(tmp_path / "a.sqlite", "market")

    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("synchronous") == 2
    assert db.pragma("foreign_keys") == 1
    with pytest.raises(apsw.SQLError):
        db.execute('SELECT "no such column"')


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_store_and_its_log_are_readable_only_by_the_owner(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        db = open_store(tmp_path / "money.sqlite", "money")
        db.execute("UPDATE migration SET name = name")
    finally:
        os.umask(before)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("money.sqlite", "money.sqlite-wal", "money.sqlite-shm"), 0o600)


def test_reopening_a_store_runs_no_migration(tmp_path: Path) -> None:
    with_schema = open_store(tmp_path / "a.sqlite", "market")
    seen = with_schema.execute("SELECT number, name FROM migration").fetchall()
    open_store(tmp_path / "a.sqlite", "market")

    assert with_schema.execute("SELECT number, name FROM migration").fetchall() == seen


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_an_sqlite_version_that_corrupts_files_is_refused(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(UnusableStore, match=rf"3\.51\.3 or newer.*was {version}"):
        open_store(tmp_path / "a.sqlite", "market")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(UnusableStore, match="it is not one"):
        open_store(tmp_path / "a.sqlite", "market")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableStore, match="cannot open"):
        open_store(tmp_path / "nowhere" / "a.sqlite", "market")


def test_another_kind_of_store_is_refused(tmp_path: Path) -> None:
    db = open_store(tmp_path / "a.sqlite", "market")
    db.execute("UPDATE migration SET kind = 'money'")
    with pytest.raises(UnusableStore, match=r"expected a market database.*is a money database"):
        open_store(tmp_path / "a.sqlite", "market")


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    db = open_store(tmp_path / "a.sqlite", "market")
    db.execute("INSERT INTO migration VALUES (9999, '9999_future.sql', 'market')")
    with pytest.raises(UnusableStore, match="newer mintscope"):
        open_store(tmp_path / "a.sqlite", "market")


def test_a_reader_never_migrates(tmp_path: Path) -> None:
    apsw.Connection(str(tmp_path / "a.sqlite")).execute("CREATE TABLE t (a)")
    with pytest.raises(UnusableStore, match="has not migrated"):
        open_store(tmp_path / "a.sqlite", "market", read_only=True)


def test_a_failed_migration_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kind: str) -> list[tuple[int, str, str]]:
        return [(1, f"0001_{kind}.sql", "CREATE TABLE good (a); CREATE nonsense")]

    monkeypatch.setattr(connection, "migrations", broken)
    with pytest.raises(apsw.SQLError):
        open_store(tmp_path / "a.sqlite", "market")

    assert not apsw.Connection(str(tmp_path / "a.sqlite")).table_exists(None, "good")


def test_a_transaction_that_raises_leaves_nothing(tmp_path: Path) -> None:
    db = open_store(tmp_path / "a.sqlite", "market")
    db.execute("CREATE TABLE t (a)")

    def half_done() -> None:
        with transaction(db):
            db.execute("INSERT INTO t VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        half_done()

    assert db.execute("SELECT count(*) FROM t").get == 0


def test_a_snapshot_does_not_see_later_writes(tmp_path: Path) -> None:
    writer = open_store(tmp_path / "a.sqlite", "market")
    writer.execute("CREATE TABLE t (a)")
    reader = open_store(tmp_path / "a.sqlite", "market", read_only=True)
    with snapshot(reader):
        assert reader.execute("SELECT count(*) FROM t").get == 0
        writer.execute("INSERT INTO t VALUES (1)")
        assert reader.execute("SELECT count(*) FROM t").get == 0

    assert reader.execute("SELECT count(*) FROM t").get == 1
