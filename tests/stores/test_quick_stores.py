"""A file that a test copies equals one that the migrations make: most tests depend on it."""

from contextlib import closing
from pathlib import Path

import pytest

from mintscope.kit.sql import sqlite
from mintscope.kit.sql.sqlite import open_store
from support.scenes.quick_stores import OPEN


@pytest.mark.parametrize("kind", ["money", "market", "webhooks"])
def test_a_copied_file_is_byte_for_byte_a_migrated_one(kind: str, tmp_path: Path) -> None:
    open_store(tmp_path / "copied", kind).close()
    OPEN(tmp_path / "migrated", kind).close()

    copied, migrated = (tmp_path / name for name in ("copied", "migrated"))
    assert copied.read_bytes() == migrated.read_bytes()
    assert copied.stat().st_mode == migrated.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied", "migrated"]


def test_an_existing_file_is_not_overwritten_by_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "money.sqlite"
    with closing(open_store(path, "money")) as db:
        db.execute("CREATE TABLE mine (value TEXT)")
    with closing(open_store(path, "money")) as db:
        assert db.table_exists(None, "mine")


def test_a_copy_uses_the_migrations_that_a_test_patches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = sqlite.migrations("money")
    monkeypatch.setattr(sqlite, "migrations", lambda _: known[:2])
    with closing(open_store(tmp_path / "money.sqlite", "money")) as db:
        assert db.execute("SELECT max(number) FROM migration").get == known[1][0]
