"""`mintscope backup` makes, records and rotates complete copies; a restore verifies a copy."""

import asyncio
import json
import re
import resource
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.config.load import load
from mintscope.app.doctor.finding import Level
from mintscope.app.doctor.machine import check_backups
from mintscope.app.stores import backups, folder
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE, ROOTS_FILE
from mintscope.app.stores.stores import expect_own_stores
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import FolderInUse
from mintscope.kit.metrics import BACKUP_AGE_S
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS
from support.scenes.postgres import url_in

NOW: Final = UnixMs(1_800_000_000_000)
CONFIGURED: Final = sha256(b"the pepper of the tests").hexdigest()


@pytest.fixture(params=["sqlite", "postgresql"])
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data_dir of an installation that has issued credits."""
    settings = {"DATA_DIR": str(tmp_path / "data"), "CHAIN__RPC_URL": "http://127.0.0.1:1"}
    if request.param == "postgresql":
        settings["STORE"] = url_in(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(f"MINTSCOPE_{name}", value)
    expect_own_stores(load(None).config, writes=True)
    assert run("credits", "issue", "5").exit_code == 0
    return tmp_path / "data"


def run(*words: str, **settings: str) -> Result:
    names: Mapping[str, str] = {f"MINTSCOPE_{name}": value for name, value in settings.items()}
    return CliRunner().invoke(app, words, env=dict(names))


def silent(_what: str, _count: int) -> None: ...


def test_a_backup_goes_into_a_folder_of_its_own_and_is_noted(data: Path, tmp_path: Path) -> None:
    result = run("backup", "--to", str(tmp_path / "kept"), "--json")
    report = json.loads(result.stdout)
    (made,) = (tmp_path / "kept").glob("mintscope-*")

    assert result.exit_code == 0, result.output
    assert report == {"folder": str(made), "removed": []}
    assert {MONEY_FILE, MARKET_FILE, PEPPER_FILE} <= {each.name for each in made.iterdir()}
    upgrade = json.loads(run("upgrade", "--check", "--json").stdout)
    assert upgrade["backup"]["place"] == str(made)
    assert data.exists()


def test_a_backup_goes_to_the_configured_or_to_a_named_folder_and_is_noted(
    data: Path, tmp_path: Path
) -> None:
    del data
    assert run("backup").exit_code == 2
    assert run("backup", BACKUP__TO=str(tmp_path / "kept")).exit_code == 0
    assert run("backup", str(tmp_path / "mine")).exit_code == 0
    upgrade = json.loads(run("upgrade", "--check", "--json").stdout)

    assert len(list((tmp_path / "kept").glob("mintscope-*"))) == 1
    assert upgrade["backup"]["place"] == str(tmp_path / "mine")


def test_a_partial_backup_is_removed_by_the_next_backup(data: Path, tmp_path: Path) -> None:
    del data
    left = tmp_path / "kept" / ".mintscope-20260101T000000Z.partial"
    left.mkdir(parents=True)
    (left / MONEY_FILE).touch()
    made = backups.take(load(None).config, tmp_path / "kept", silent, NOW)

    assert not left.exists()
    assert made.name == "mintscope-20270115T080000Z"


def test_the_noted_place_of_a_backup_is_absolute(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del data
    monkeypatch.chdir(tmp_path)
    config = load(None).config
    made = backups.take(config, Path("kept"), silent, NOW)
    noted = backups.newest(config)

    assert noted is not None
    assert noted.place == str(tmp_path / made)


def test_a_second_backup_into_a_folder_in_use_is_refused(data: Path, tmp_path: Path) -> None:
    del data
    with (
        folder.held(tmp_path / "kept", "backup", may_be_open=True),
        pytest.raises(FolderInUse, match="only backup"),
    ):
        backups.take(load(None).config, tmp_path / "kept", silent, NOW)


def test_rotation_keeps_the_newest_backups_and_one_of_each_day(data: Path, tmp_path: Path) -> None:
    del data
    root = tmp_path / "kept"
    for hours in range(60):
        at = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hours)
        (root / f"mintscope-{at:{backups.STAMP}}").mkdir(parents=True)
    (root / "of others").mkdir()
    (root / "mintscope-notes").touch()
    removed = backups.rotate(root, kept_max=5, keep_days=2)
    left = sorted(each.name for each in root.iterdir())

    assert len(removed) == 54
    assert left == [
        "mintscope-20261121T230000Z",
        *(f"mintscope-20261122T{hour:02}0000Z" for hour in range(7, 12)),
        "mintscope-notes",
        "of others",
    ]


@given(st.sets(st.integers(0, 40 * 24), max_size=60), st.integers(1, 30), st.integers(0, 40))
def test_rotation_keeps_the_same_backups_as_a_calendar(
    hours: set[int], kept_max: int, keep_days: int
) -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    times = sorted(begin + timedelta(hours=each) for each in hours)
    found = [Path(f"mintscope-{at:{backups.STAMP}}") for at in times]
    days = sorted({at.date() for at in times}, reverse=True)[:keep_days]
    expected = {
        path
        for place, (path, at) in enumerate(zip(found, times, strict=True))
        if place >= len(found) - kept_max
        or (at.date() in days and at == max(each for each in times if each.date() == at.date()))
    }

    assert backups.kept(found, kept_max, keep_days) == expected


def test_backup_verify_audits_a_restored_copy_and_shows_its_faults(
    data: Path, tmp_path: Path
) -> None:
    del data
    made = backups.take(load(None).config, tmp_path / "kept", silent, NOW)
    sound = run("backup", "verify", str(made), "--scratch", str(tmp_path), "--json")
    with apsw.Connection(str(made / MONEY_FILE)) as db:
        db.execute("UPDATE credit_account SET balance = balance + 1")
    later = backups.take(load(None).config, tmp_path / "kept", silent, UnixMs(NOW + HOUR_MS))
    both = run("backup", "verify", str(later), str(made))
    wrong = run("backup", "verify", str(made))

    report = json.loads(sound.stdout)
    assert sound.exit_code == 0, sound.output
    assert report["isSound"]
    assert (report["creditTokens"], report["entries"]) == (1, 1)
    assert not list(tmp_path.glob("mintscope-verify-*"))
    assert (both.exit_code, wrong.exit_code) == (1, 1)
    assert both.output.count("isSound         True") == 1, "of the later one"
    assert f"folder          {made}" in both.output
    assert "I2: a balance is not the sum of its entries" in wrong.output


def test_a_damaged_copy_and_another_pepper_are_refused(data: Path, tmp_path: Path) -> None:
    del data
    made = backups.take(load(None).config, tmp_path / "kept", silent, NOW)
    other = run("backup", "verify", str(made), CREDITS__PEPPER=CONFIGURED)
    content = bytearray((made / MONEY_FILE).read_bytes())
    content[5_000:9_000] = bytes(4_000)
    (made / MONEY_FILE).write_bytes(content)
    damaged = run("backup", "verify", str(made))

    assert (other.exit_code, damaged.exit_code) == (1, 1)
    assert "pepper" in other.output
    assert "whole" in damaged.output or "malformed" in damaged.output


def test_a_backup_in_a_named_folder_has_no_pepper_if_secrets_are_kept_apart(
    data: Path, tmp_path: Path
) -> None:
    made = tmp_path / "mine"
    safe = tmp_path / "safe"
    result = run("backup", str(made), BACKUP__SECRETS_TO=str(safe))

    assert result.exit_code == 0, result.output
    assert not (made / PEPPER_FILE).exists()
    assert (safe / PEPPER_FILE).read_text() == (data / PEPPER_FILE).read_text()
    assert f"pepper and roots are in {safe}" in result.output


@pytest.mark.parametrize("is_named", [True, False])
def test_a_pepper_that_is_kept_apart_is_restored(
    data: Path, tmp_path: Path, *, is_named: bool
) -> None:
    safe = tmp_path / "safe"
    apart = {"BACKUP__SECRETS_TO": str(safe)}
    assert run("backup", "--to", str(tmp_path / "kept"), **apart).exit_code == 0
    (made,) = (tmp_path / "kept").glob("mintscope-*")
    pepper = (data / PEPPER_FILE).read_text()

    assert not (made / PEPPER_FILE).exists()
    assert (safe / PEPPER_FILE).read_text() == pepper
    assert (safe / PEPPER_FILE).stat().st_mode & 0o777 == 0o600
    assert "there is none" in run("backup", "verify", str(made)).output
    assert run("backup", "verify", str(made), **apart).exit_code == 0
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": ""}
    misnamed = run("restore", str(made), "--secrets", str(tmp_path / "sfae"), **new)
    assert misnamed.exit_code == 1
    assert f"expected the file {tmp_path / 'sfae' / PEPPER_FILE}" in misnamed.stderr
    assert not (tmp_path / "new" / MONEY_FILE).exists()
    secrets = ("--secrets", str(safe)) if is_named else ()
    restored = run("restore", str(made), *secrets, **new, **({} if is_named else apart))
    assert restored.exit_code == 0, restored.output
    assert (tmp_path / "new" / PEPPER_FILE).read_text() == pepper
    assert run("credits", "list", **new).exit_code == 0


def test_a_restore_is_refused_if_the_configured_folder_of_secrets_has_no_pepper(
    data: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    assert run("backup", str(made), BACKUP__SECRETS_TO=str(tmp_path / "safe")).exit_code == 0
    assert (data / PEPPER_FILE).exists()
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": ""}
    refused = run("restore", str(made), **new, BACKUP__SECRETS_TO=str(tmp_path / "other"))

    assert refused.exit_code == 1
    assert f"expected the file {tmp_path / 'other' / PEPPER_FILE}" in refused.stderr
    assert not (tmp_path / "new" / MONEY_FILE).exists()


def test_a_restore_needs_no_folder_of_secrets_if_the_pepper_is_there(tmp_path: Path) -> None:
    """The database was lost, and the folder of the installation was not."""
    safe = tmp_path / "safe"
    own = {"DATA_DIR": str(tmp_path / "own"), "BACKUP__SECRETS_TO": str(safe)}
    store = {"STORE": url_in(tmp_path, ())}
    assert run("credits", "issue", "5", **own).exit_code == 0
    assert run("backup", str(tmp_path / "made"), **own).exit_code == 0
    (safe / PEPPER_FILE).unlink()
    restored = run("restore", str(tmp_path / "made"), **own, **store)

    assert restored.exit_code == 0, restored.output
    assert run("credits", "list", **own, **store).exit_code == 0


def test_a_backup_of_an_empty_folder_does_not_replace_the_copied_pepper(
    data: Path, tmp_path: Path
) -> None:
    """The service has a new, empty disk, so it began as a new installation with another pepper."""
    safe = tmp_path / "safe"
    apart = {"BACKUP__SECRETS_TO": str(safe)}
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": ""}
    assert run("backup", str(tmp_path / "first"), **apart).exit_code == 0
    assert run("credits", "issue", "5", **new).exit_code == 0
    refused = run("backup", str(tmp_path / "second"), **apart, **new)

    assert refused.exit_code == 1
    assert f"move {safe / PEPPER_FILE} to another name" in refused.stderr
    assert (safe / PEPPER_FILE).read_text() == (data / PEPPER_FILE).read_text()
    assert not (tmp_path / "second").exists()
    (safe / PEPPER_FILE).rename(safe / "pepper of before")
    assert run("backup", str(tmp_path / "second"), **apart, **new).exit_code == 0
    assert (safe / PEPPER_FILE).read_text() == (tmp_path / "new" / PEPPER_FILE).read_text()


@pytest.mark.parametrize("is_apart", [True, False])
def test_roots_are_restored_if_the_pepper_is_configured(
    data: Path, tmp_path: Path, *, is_apart: bool
) -> None:
    safe = tmp_path / "safe"
    apart = {"BACKUP__SECRETS_TO": str(safe)} if is_apart else {}
    assert run("secrets", "rotate").exit_code == 0
    assert run("backup", "--to", str(tmp_path / "kept"), **apart).exit_code == 0
    (made,) = (tmp_path / "kept").glob("mintscope-*")
    other = tmp_path / "other"
    pepper = (data / PEPPER_FILE).read_text().strip()
    store = "" if load(None).config.store is None else url_in(other, ())
    new = {"DATA_DIR": str(other), "STORE": store, "CREDITS__PEPPER": pepper}
    secrets = ("--secrets", str(safe)) if is_apart else ()
    restored = run("restore", str(made), *secrets, **new)

    assert restored.exit_code == 0, restored.output
    assert (other / ROOTS_FILE).exists(), "the pepper would sign"
    assert (other / ROOTS_FILE).read_text() == (data / ROOTS_FILE).read_text()
    assert (other / ROOTS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_restore_keeps_a_root_that_is_newer_than_the_backup(tmp_path: Path) -> None:
    old = {"DATA_DIR": str(tmp_path / "old")}
    assert run("credits", "issue", "5", **old).exit_code == 0
    assert run("secrets", "rotate", **old).exit_code == 0
    assert run("backup", str(tmp_path / "made"), **old).exit_code == 0
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": url_in(tmp_path, ())}
    assert run("secrets", "rotate", "--in", "10", **new).exit_code == 0
    newer = (tmp_path / "new" / ROOTS_FILE).read_text()
    restored = run("restore", str(tmp_path / "made"), **new)

    assert restored.exit_code == 0, restored.output
    older = (tmp_path / "old" / ROOTS_FILE).read_text()
    assert (tmp_path / "new" / ROOTS_FILE).read_text() == older + newer


def test_a_store_restored_without_its_pepper_is_refused_and_gets_no_new_pepper(
    data: Path, tmp_path: Path
) -> None:
    del data
    made = backups.take(load(None).config, tmp_path / "kept", silent, NOW)
    (made / PEPPER_FILE).unlink()
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": ""}
    restored = run("restore", str(made), **new)
    result = run("credits", "list", **new)

    assert (restored.exit_code, result.exit_code) == (0, 1)
    assert f"copy the file pepper into {tmp_path / 'new'}" in restored.output
    assert "copy it from a backup" in result.output
    assert not (tmp_path / "new" / PEPPER_FILE).exists()


def test_the_backup_age_is_that_of_the_newest_backup_and_grows_with_time(
    data: Path, tmp_path: Path
) -> None:
    del data
    config = load(None).config
    clock = ManualClock(NOW)
    began = backups.safe_since(config)
    backups.take(config, tmp_path / "kept", silent, NOW)

    async def shown() -> list[float]:
        task = asyncio.create_task(backups.watch(config, clock))
        seen: list[float] = []
        while seen != [0]:  # an earlier test has set another age
            await asyncio.sleep(0.01)
            seen = [each.value for one in BACKUP_AGE_S.collect() for each in one.samples]
        clock.advance(90_000)
        task.cancel()
        return [*seen, *(each.value for one in BACKUP_AGE_S.collect() for each in one.samples)]

    assert began is not None
    assert backups.safe_since(config) == NOW
    assert asyncio.run(shown()) == [0, 90]


def test_an_s3_address_is_refused_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["--to", "s3://bucket/backups"], ["s3://bucket/backups"]):
        result = run("backup", *words)
        assert result.exit_code == 2
        assert "speaks no S3" in re.sub(r"[^\w ]+", " ", result.output).replace("  ", " ")
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_reports_the_age_of_the_newest_backup(data: Path, tmp_path: Path) -> None:
    del data
    config = load(None).config
    none = list(check_backups(config))
    made = backups.take(config, tmp_path / "kept", silent, NOW)
    young = list(check_backups(config, ManualClock(UnixMs(NOW + HOUR_MS))))
    old = list(check_backups(config, ManualClock(UnixMs(NOW + 25 * HOUR_MS))))

    levels = [[each.level for each in found] for found in (none, young, old)]
    assert levels == [[Level.WARN], [Level.OK], [Level.WARN]]
    assert f"{made}, 1.0 h old" in str(young[0])
    assert "25.0 h old" in str(old[0])


def test_a_database_that_is_down_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path / "data"))
    asked = run("backup", "--to", str(tmp_path), STORE="postgresql://127.0.0.1:1/none")

    assert asked.exit_code == 1
    assert isinstance(asked.exception, SystemExit)
    assert asked.stderr.startswith("mintscope: postgresql://127.0.0.1:1/none: connection failed")
    assert not list(tmp_path.glob("mintscope-*"))


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow beyond 20 kB, which SQLite reports like a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.usefixtures("data")
def test_a_full_disk_is_reported_and_no_part_of_the_backup_is_left(tmp_path: Path) -> None:
    backups_of = tmp_path / "backups"
    with full_disk():
        asked = run("backup", "--to", str(backups_of))

    assert asked.exit_code == 1
    assert isinstance(asked.exception, SystemExit)
    assert re.search(r"(disk|room|I/O error|full)", asked.stderr), asked.stderr
    assert {each.name for each in backups_of.iterdir()} == {"backup.lock"}


@pytest.mark.usefixtures("data")
def test_a_restore_that_fails_leaves_no_file_and_can_be_tried_again(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    new = {"DATA_DIR": str(tmp_path / "new"), "STORE": ""}
    assert run("backup", str(backup)).exit_code == 0
    with full_disk():
        failed = run("restore", str(backup), **new)

    assert failed.exit_code == 1
    assert {each.suffix for each in (tmp_path / "new").iterdir()} == {".lock"}
    assert run("restore", str(backup), **new).exit_code == 0
