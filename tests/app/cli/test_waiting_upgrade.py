"""Commands that read a store do not migrate it: they report waiting migrations and run none."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from mintscope import __version__
from mintscope.app.cli.app import app
from mintscope.app.config.load import load
from mintscope.app.engine import engine_of
from mintscope.app.stores.folder import held
from mintscope.app.stores.stores import expect_own_stores
from mintscope.app.stores.upgrade import expect_upgraded
from mintscope.kit.errors import NeedsUpgrade
from mintscope.kit.sql import migrating
from mintscope.kit.sql import sqlite as connection
from mintscope.kit.sql.database import SessionLock
from mintscope.kit.sql.migrating import Migration
from mintscope.kit.sql.processes import SHARE, session
from mintscope.market.follow.list_cache import NotStored
from mintscope.solana.blocks import USDC, WSOL
from mintscope_devchain.svm.genesis import Genesis
from support.scenes.market_engines import market_of
from support.scenes.postgres import url_in
from support.scenes.traded import TradedStore

NUMBER: Final = 9_001
NAME: Final = "9001_newer.sql"
SCRIPT: Final = "CREATE TABLE IF NOT EXISTS newer (a INTEGER PRIMARY KEY)"
SIGNATURE: Final = "1" * 64
READING: Final = (
    ("sales", "status"),
    ("sales", "orphans"),
    ("credits", "list"),
    ("tokens", "list"),
    ("users", "list"),
    ("gaps", "list"),
    ("programs", "--unread"),
    ("applications", "list"),
    ("applications", "show", "1"),
    ("payments", "find", "ffffffff"),
    ("credits", "show", "ffffffff"),
    ("tokens", "show", WSOL),
    ("sales", "acknowledge", SIGNATURE, "--note", "refunded"),
)
READS: Final = {"list", "show", "find", "status", "orphans"}
RESTORE: Final = ("restore", "another data_dir")


@pytest.fixture(params=["sqlite", "postgresql"])
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """Return the environment variables of an installation that the previous version created."""
    settings = {
        "MINTSCOPE_DATA_DIR": str(tmp_path / "data"),
        "MINTSCOPE_CREDITS__PEPPER": sha256(b"the pepper of the tests").hexdigest(),
        "MINTSCOPE_CHAIN__RPC_URL": "http://127.0.0.1:1",
    }
    if request.param == "postgresql":
        settings["MINTSCOPE_STORE"] = url_in(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    expect_own_stores(load(None).config, writes=True)
    known, older = connection.migrations, migrating.migrations
    monkeypatch.setattr(
        connection, "migrations", lambda kind: [*known(kind), (NUMBER, NAME, SCRIPT)]
    )
    monkeypatch.setattr(
        migrating, "migrations", lambda kind: [*older(kind), Migration(NUMBER, NAME, SCRIPT)]
    )
    return settings


def run(environment: Mapping[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env=dict(environment))


def waiting() -> list[str]:
    return engine_of(load(None).config).waiting_migrations()


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_that_reads_reports_waiting_migrations_and_runs_none(
    environment: Mapping[str, str], command: tuple[str, ...]
) -> None:
    before = waiting()
    result = run(environment, *command)

    assert f"money {NAME}" in before
    assert result.exit_code == 1
    assert "migrations wait" in result.output
    assert "mintscope upgrade" in result.output
    assert not [word for word in RESTORE if word in result.output]
    assert waiting() == before


def test_the_doctor_warns_of_waiting_migrations_and_skips_the_check_of_money(
    environment: Mapping[str, str],
) -> None:
    before = waiting()
    result = run(environment, "doctor")

    lines = [line for line in result.output.splitlines() if " store: " in line]
    assert len(lines) == 1, result.output
    assert lines[0].startswith("warn")
    assert "mintscope upgrade" in lines[0]
    assert not [word for word in RESTORE if word in result.output]
    assert not [line for line in result.output.splitlines() if " money: " in line]
    assert waiting() == before


def test_the_doctor_advises_to_run_the_newer_version_that_wrote_the_store(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(environment, "migrate").exit_code == 0
    monkeypatch.undo()
    result = run(environment, "doctor")

    failed = [line for line in result.output.splitlines() if " or older; it is at" in line]
    assert len(failed) >= 2, result.output  # of the market and of the money
    assert all(line.endswith("— run the newer mintscope; nothing is lost") for line in failed)
    assert not [line for line in result.output.splitlines() if RESTORE[1] in line]


def test_migrate_upgrades_a_store_so_that_commands_can_read_it(
    environment: Mapping[str, str],
) -> None:
    dry = run(environment, "migrate", "--dry-run")
    assert f"would run money {NAME}" in dry.output
    with pytest.raises(NeedsUpgrade):
        expect_upgraded(load(None).config)
    assert run(environment, "migrate").exit_code == 0

    assert waiting() == []
    expect_upgraded(load(None).config)
    assert run(environment, "credits", "list").exit_code == 0
    assert "migrations wait" not in run(environment, "doctor").output


def test_a_store_that_does_not_exist_has_no_waiting_migrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path / "none"))
    config = load(None).config

    assert engine_of(config).waiting_migrations() == []
    assert engine_of(config).migrations(is_done=False) != []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "command",
    [*READING, ("tokens", "remove", USDC), ("sales", "resume"), ("doctor",), ("backup", "{}/b")],
    ids=" ".join,
)
def test_a_command_creates_no_file_in_a_folder_without_data(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {
        "MINTSCOPE_DATA_DIR": str(tmp_path / "none"),
        "MINTSCOPE_CHAIN__RPC_URL": "http://127.0.0.1:1",
        "MINTSCOPE_PAYMENTS__ENABLED": "true",
        "MINTSCOPE_PAYMENTS__PAY_TO": str(Genesis(0).treasury.pubkey()),
        "MINTSCOPE_PAYMENTS__FEE_PAYER_KEY": str(Genesis(0).fee_payer),
    }
    result = run(settings, *(word.format(tmp_path) for word in command))

    assert result.exit_code == 1, result.output
    if command[0] not in {"doctor", "backup"}:
        assert "there is no data here" in result.output
    assert not list(tmp_path.iterdir())


def test_upgrade_check_measures_the_migrations_and_does_not_run_them(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    before = waiting()
    result = run(environment, "upgrade", "--check", "--json")
    plan = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert plan["migrations"] == before
    steps = {f"{each['store']} {each['migration']}": each["tookS"] for each in plan["steps"]}
    assert steps.keys() == set(before)
    assert min(steps.values()) >= 0
    assert plan["whyNotMeasured"] is None
    assert [each["version"] for each in plan["writtenBy"]] == [__version__]
    assert plan["backup"] is None
    assert waiting() == before
    assert not list(tmp_path.rglob(".mintscope-upgrade-*"))
    shown = run(environment, "upgrade", "--check").output
    for said in ("to run ", "as measured on a copy", "none is recorded", "written by  mintscope"):
        assert said in shown, shown


def test_upgrade_check_reports_a_longer_time_for_a_slower_migration(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, the report also has the bytes that the upgrade needs and the free bytes."""
    is_sqlite = "MINTSCOPE_STORE" not in environment
    slow = (
        "CREATE TABLE slow AS WITH RECURSIVE n (i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
        if is_sqlite
        else "SELECT pg_sleep(0.2)"
    )
    known = connection.migrations
    older = migrating.migrations
    monkeypatch.setattr(
        connection, "migrations", lambda kind: [*known(kind), (NUMBER + 1, "9002_slow.sql", slow)]
    )
    monkeypatch.setattr(
        migrating,
        "migrations",
        lambda kind: [*older(kind), Migration(NUMBER + 1, "9002_slow.sql", slow)],
    )
    plan = json.loads(run(environment, "upgrade", "--check", "--json").stdout)
    times = {each["migration"]: each["tookS"] for each in plan["steps"] if each["store"] == "money"}

    assert times["9002_slow.sql"] > times[NAME]
    if is_sqlite:
        assert plan["bytesNeeded"] > 300_000
        assert plan["bytesFree"] > 0


def test_an_upgrade_is_refused_without_a_backup_of_the_last_day(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run(environment, "upgrade")
    assert refused.exit_code == 1
    assert "expected a backup from the last day" in refused.output
    assert waiting() != []
    with monkeypatch.context() as older:  # the older version, which still runs, takes the backup
        known = connection.migrations
        known_there = migrating.migrations
        older.setattr(connection, "migrations", lambda kind: known(kind)[:-1])
        older.setattr(migrating, "migrations", lambda kind: known_there(kind)[:-1])
        taken = run(environment, "backup", "--to", str(tmp_path / "kept"))
        assert taken.exit_code == 0, taken.output
    done = run(environment, "upgrade")

    assert done.exit_code == 0, done.output
    assert waiting() == []
    assert f"ran money {NAME}" in done.output
    with monkeypatch.context() as older:  # the older version refuses the newer store
        known = connection.migrations
        known_there = migrating.migrations
        older.setattr(connection, "migrations", lambda kind: known(kind)[:-1])
        older.setattr(migrating, "migrations", lambda kind: known_there(kind)[:-1])
        downgraded = run(environment, "credits", "list")
    assert downgraded.exit_code == 1
    (made,) = (tmp_path / "kept").glob("mintscope-*")
    assert f"restore the backup that mintscope {__version__} took: {made}" in downgraded.output


@pytest.mark.parametrize("option", [("--to",), ()], ids=["in rotation", "of one's own"])
def test_a_backup_does_not_run_waiting_migrations(
    environment: Mapping[str, str], option: tuple[str, ...], tmp_path: Path
) -> None:
    """The timer of backups runs the new version while the service still runs the older version."""
    before = waiting()
    taken = run(environment, "backup", *option, str(tmp_path / "kept"))

    assert waiting() == before
    if "MINTSCOPE_STORE" in environment:  # only the older version can copy such a database
        assert taken.exit_code == 1
        assert "migrations wait" in taken.output
        return
    assert taken.exit_code == 0, taken.output
    made = Path(
        json.loads(run(environment, "upgrade", "--check", "--json").stdout)["backup"]["place"]
    )
    assert made.is_relative_to(tmp_path / "kept")
    for store in ("", url_in(tmp_path / "other", ())):
        place = {"MINTSCOPE_DATA_DIR": str(tmp_path / f"of{store[:5]}"), "MINTSCOPE_STORE": store}
        restored = run({**environment, **place}, "restore", str(made))
        assert restored.exit_code == 0, restored.output
    assert run(environment, "upgrade").exit_code == 0


def test_a_copy_refuses_a_source_with_waiting_migrations(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    before = waiting()
    source = environment.get("MINTSCOPE_STORE", f"sqlite:{environment['MINTSCOPE_DATA_DIR']}")
    refused = run(environment, "copy", "--from", source, "--to", f"sqlite:{tmp_path / 'new'}")

    assert waiting() == before
    assert refused.exit_code == 1
    assert "migrations wait: run mintscope upgrade first" in refused.output


@pytest.mark.parametrize("environment", ["postgresql"], indirect=True)
def test_upgrade_check_measures_nothing_in_a_database_of_a_running_service(
    environment: Mapping[str, str],
) -> None:
    with session(environment["MINTSCOPE_STORE"]) as connected:
        connected.execute(SHARE, (SessionLock.SERVING,))
        plan = json.loads(run(environment, "upgrade", "--check", "--json").stdout)
        shown = run(environment, "upgrade", "--check").output

    assert plan["steps"] == []
    assert "the service runs" in plan["whyNotMeasured"]
    assert "not measured" in shown


@pytest.mark.parametrize("environment", ["sqlite"], indirect=True)
def test_upgrade_check_measures_a_copy_of_the_files_of_a_running_service(
    environment: Mapping[str, str],
) -> None:
    before = waiting()
    with ExitStack() as running:
        for role in ("serve", "ingest", "api"):
            running.enter_context(held(Path(environment["MINTSCOPE_DATA_DIR"]), role))
        plan = json.loads(run(environment, "upgrade", "--check", "--json").stdout)

    assert [f"{each['store']} {each['migration']}" for each in plan["steps"]] == before
    assert plan["whyNotMeasured"] is None
    assert waiting() == before


def test_every_command_that_reads_is_in_the_list_of_this_module() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    found = set()
    for name in group.list_commands(typer.Context(group)):
        command = group.get_command(typer.Context(group), name)
        if isinstance(command, TyperGroup) and name != "faults":
            found |= {(name, verb) for verb in command.commands if verb in READS}

    assert found - {each[:2] for each in READING} == set()


def test_upgrade_reports_as_json_and_in_words_why_no_list_was_stored(tmp_path: Path) -> None:
    async def folded() -> None:
        async with market_of("sqlite", tmp_path) as opened:
            await opened.store.start(mints=[], follows_files=False)
            await TradedStore(opened).append(1, 1_700_000_000)

    asyncio.run(folded())
    settings = {"MINTSCOPE_DATA_DIR": str(tmp_path)}
    result = CliRunner().invoke(app, ["upgrade", "--json", "--without-backup"], env=settings)

    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["tokensListed"] is None
    assert facts["whyNotListed"] == NotStored.FEW
    result = CliRunner().invoke(app, ["upgrade", "--without-backup"], env=settings)
    assert NotStored.FEW in result.stdout
