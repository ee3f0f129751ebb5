"""Stores that commits of main have written upgrade as documented, and lose no data."""

import json
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import psycopg
import pytest
from stores_of_main import CREDITS, EMAIL, Kept, fill_postgres, kept, sqlite_folder
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.config.load import load
from mintscope.app.engine import engine_of
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE
from support.scenes.postgres import dsn_in, url_in

pytestmark = pytest.mark.storm  # each old store, on each engine

KEPT: Final = kept()
# The rows of these tables are moved, or belong to the running process.
NOT_COUNTED: Final = {"migration", "replica_settings", "ingest_epoch"}


@pytest.fixture(
    params=[
        (engine, each)
        for each in KEPT
        for engine in ("sqlite", "postgresql")
        if engine == "sqlite" or "postgres" in each.facts
    ],
    ids=lambda param: f"{param[0]} {param[1].name}",
)
def old(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Kept, Path]:
    """Return an engine, the stored data of an old commit, and a data_dir that contains it."""
    engine, of = request.param
    data = tmp_path / "data"
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(data))
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_URL", "http://127.0.0.1:1")
    if engine == "sqlite":
        sqlite_folder(of, data)
    else:
        data.mkdir(mode=0o700)
        (data / PEPPER_FILE).touch(mode=0o600)
        (data / PEPPER_FILE).write_text(of.facts["pepper"])
        fill_postgres(of, dsn_in(tmp_path, ()))
        monkeypatch.setenv("MINTSCOPE_STORE", url_in(tmp_path, ()))
    return engine, of, data


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def counts(engine: str, data: Path) -> dict[str, int]:
    """Return the number of rows of each table, by name."""
    found: dict[str, int] = {}
    if engine == "postgresql":
        with psycopg.connect(dsn_in(data.parent, ())) as db:
            names = db.execute(
                "SELECT table_name FROM information_schema.tables"
                " WHERE table_schema = current_schema()"
            ).fetchall()
            for (name,) in names:
                (count,) = db.execute(f'SELECT count(*) FROM "{name}"'.encode()).fetchone() or (0,)
                found[str(name)] = count
        return found
    for file in (MONEY_FILE, MARKET_FILE):
        with closing(apsw.Connection(str(data / file))) as db:
            for (name,) in db.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                found[str(name)] = int(db.execute(f'SELECT count(*) FROM "{name}"').get)
    return found


def test_stored_data_of_three_dates_exists_for_both_engines() -> None:
    days = {each.name[:10] for each in KEPT}
    assert len(days) >= 3
    assert len({each.name[:10] for each in KEPT if "postgres" in each.facts}) >= 3


def test_an_old_store_is_upgraded_as_documented_without_data_loss(
    old: tuple[str, Kept, Path], tmp_path: Path
) -> None:
    engine, of, data = old
    before = counts(engine, data)
    waiting = engine_of(load(None).config).waiting_migrations()
    for words in (("doctor",), ("credits", "list"), ("sales", "status"), ("upgrade", "--check")):
        assert "restore" not in run(*words).output, words
    check = json.loads(run("upgrade", "--check", "--json").stdout)
    assert check["migrations"] == waiting != []
    assert len(check["steps"]) == len(waiting)
    assert counts(engine, data) == before
    refused = run("upgrade")
    assert "--without-backup" in refused.output
    assert counts(engine, data) == before

    done = run("upgrade", "--without-backup")
    assert done.exit_code == 0, done.output
    after = counts(engine, data)
    assert engine_of(load(None).config).waiting_migrations() == []
    lost = {
        name: (count, after.get(name))
        for name, count in before.items()
        if name not in NOT_COUNTED and after.get(name, count) < count
    }
    assert lost == {}
    (line,) = json.loads(run("credits", "list", "--json").stdout)
    assert (line["token"], line["left"]) == (f"...{of.token[-8:]}", CREDITS)
    assert EMAIL in run("users", "list").output
    made = run("backup", "--to", str(tmp_path / "kept"), "--json")
    assert made.exit_code == 0, made.output
    verified = run("backup", "verify", json.loads(made.stdout)["folder"], "--json")
    assert verified.exit_code == 0, verified.output
    report = json.loads(verified.stdout)
    assert (report["isSound"], report["creditTokens"], report["migrationsRun"]) == (True, 1, 0)
    assert report["slot"] is not None


def test_a_backup_of_a_store_that_cannot_record_backups_is_complete_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(sqlite_folder(kept()[0], tmp_path / "data")))
    for words in (("--to", str(tmp_path / "kept")), (str(tmp_path / "mine"),)):
        taken = run("backup", *words)
        assert taken.exit_code == 0, taken.output
    refused = run("upgrade")

    assert run("backup", "verify", str(tmp_path / "mine")).exit_code == 0
    assert refused.exit_code == 1
    assert "the store is too old to record one" in " ".join(refused.output.split())
    assert run("upgrade", "--without-backup").exit_code == 0
