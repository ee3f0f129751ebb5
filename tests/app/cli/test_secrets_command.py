"""`mintscope secrets rotate` adds a root that signs; the pepper and all credentials stay valid."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mintscope.app.cli.credits import app as credits_app
from mintscope.app.cli.table import app
from mintscope.app.config.load import ConfigError, load
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import parse_root


def run(folder: Path, *arguments: str) -> Result:
    environment = {"MINTSCOPE_DATA_DIR": str(folder)}
    return CliRunner().invoke(app, ["secrets", *arguments], env=environment)


def credits_of(folder: Path, *arguments: str) -> Result:
    environment = {"MINTSCOPE_DATA_DIR": str(folder)}
    return CliRunner().invoke(credits_app, ["credits", *arguments], env=environment)


def test_a_rotation_adds_a_root_and_keeps_the_pepper_and_every_credential(tmp_path: Path) -> None:
    folder = tmp_path / "installation"
    token = credits_of(folder, "issue", "7").stdout.strip()
    pepper = (folder / "pepper").read_text()

    first, second = run(folder, "rotate"), run(folder, "rotate", "--in", "10")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "restart the service" in first.stdout
    roots = [parse_root(line) for line in (folder / "roots").read_text().splitlines()]
    now_s = SystemClock().now() // 1000
    assert [round((root.since_s - now_s) / 60) for root in roots] == [0, 10]
    assert stat.S_IMODE((folder / "roots").stat().st_mode) == 0o600
    assert (folder / "pepper").read_text() == pepper
    assert "7 credits left" in credits_of(folder, "show", token[-8:]).stdout


def test_a_store_with_an_example_pepper_is_usable_after_a_rotation(tmp_path: Path) -> None:
    folder = tmp_path / "installation"
    folder.mkdir(mode=0o700)
    (folder / "pepper").touch(mode=0o600)
    (folder / "pepper").write_text("0" * 64)
    CreditBook(folder / "money.sqlite", pepper=bytes(32)).close()

    refused = credits_of(folder, "issue", "7")
    assert refused.exit_code == 1
    assert "`mintscope secrets rotate`" in refused.stderr
    assert run(folder, "rotate").exit_code == 0
    assert credits_of(folder, "issue", "7").exit_code == 0


def test_rotate_with_print_prints_a_root_for_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run(tmp_path, "rotate", "--print")
    assert not (tmp_path / "roots").exists()

    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER", "0" * 64)
    with pytest.raises(ConfigError, match="the documents of mintscope, which are public"):
        load()
    monkeypatch.setenv("MINTSCOPE_CREDITS__ROOTS", printed.stdout.strip())
    (kept,) = load().config.credits.roots
    assert str(parse_root(kept.get_secret_value())) == printed.stdout.strip()


def test_an_example_pepper_is_accepted_only_beside_a_root_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, "rotate").exit_code == 0
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER", "0" * 64)
    assert load().config.credits.pepper is not None

    (tmp_path / "roots").chmod(0o644)
    with pytest.raises(ConfigError, match=r"roots to be closed to other users"):
        load()
    (tmp_path / "roots").unlink()
    with pytest.raises(ConfigError, match="the documents of mintscope, which are public"):
        load()


def test_an_invalid_root_is_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINTSCOPE_CREDITS__ROOTS", "1:hunter2")
    with pytest.raises(ConfigError, match=r"ROOTS .*expected SECONDS:HEX") as caught:
        load()
    assert "hunter2" not in str(caught.value)
