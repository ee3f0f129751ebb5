"""Commands never migrate: a store that waits for its upgrade is left as it is, and none is lost."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

from mintscope.base.errors import NeedsUpgrade
from mintscope.edges.storage.postgres import migrating
from mintscope.edges.storage.postgres.migrating import Migration
from mintscope.edges.storage.sqlite import connection
from mintscope.shell.cli.app import app
from mintscope.shell.config.load import load
from mintscope.shell.wiring.storage.identity import expect_own_stores
from mintscope.shell.wiring.storage.migrations import (
    expect_upgraded,
    migrations,
    waiting_migrations,
)
from support.scenes.postgres import url_in

NUMBER: Final = 9_001
NAME: Final = "9001_newer.sql"
SCRIPT: Final = "CREATE TABLE IF NOT EXISTS newer (a integer)"
READING: Final = (
    ("sales", "status"),
    ("sales", "orphans"),
    ("credits", "list"),
    ("tokens", "list"),
    ("users", "list"),
    ("gaps", "list"),
    ("programs", "--unread"),
    ("applications", "list"),
)
RESTORE: Final = ("restore", "another data_dir")


@pytest.fixture(params=["sqlite", "postgresql"])
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """Return the settings of an installation that the version before has made."""
    settings = {
        "MINTSCOPE_DATA_DIR": str(tmp_path / "data"),
        "MINTSCOPE_CREDITS__PEPPER": sha256(b"the pepper of the tests").hexdigest(),
        "MINTSCOPE_CHAIN__RPC_URL": "http://127.0.0.1:1",
    }
    if request.param == "postgresql":
        settings["MINTSCOPE_STORE"] = url_in(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    expect_own_stores(load(None).config)
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
    return waiting_migrations(load(None).config)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_that_reads_says_what_waits(
    environment: Mapping[str, str], command: tuple[str, ...]
) -> None:
    before = waiting()
    result = run(environment, *command)

    assert f"money {NAME}" in before
    assert result.exit_code == 1
    assert "migrations wait" in result.output
    assert "mintscope migrate" in result.output
    assert not [word for word in RESTORE if word in result.output]
    assert waiting() == before


def test_the_doctor_warns_and_looks_no_further(environment: Mapping[str, str]) -> None:
    before = waiting()
    result = run(environment, "doctor")

    lines = [line for line in result.output.splitlines() if " store: " in line]
    assert len(lines) == 1, result.output
    assert lines[0].startswith("warn")
    assert "mintscope migrate" in lines[0]
    assert not [word for word in RESTORE if word in result.output]
    assert not [line for line in result.output.splitlines() if " money: " in line]
    assert waiting() == before


def test_migrate_upgrades_and_then_commands_read(environment: Mapping[str, str]) -> None:
    dry = run(environment, "migrate", "--dry-run")
    assert f"would run money {NAME}" in dry.output
    with pytest.raises(NeedsUpgrade):
        expect_upgraded(load(None).config)
    assert run(environment, "migrate").exit_code == 0

    assert waiting() == []
    expect_upgraded(load(None).config)
    assert run(environment, "credits", "list").exit_code == 0
    assert "migrations wait" not in run(environment, "doctor").output


def test_a_new_store_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path / "none"))
    config = load(None).config

    assert waiting_migrations(config) == []
    assert migrations(config, is_done=False) != []
    assert not (tmp_path / "none").exists()
