"""Litestream copies commits as they are made, and its restored copy is sound."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.config.load import load
from mintscope.app.engine import engine_of
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE, WEBHOOKS_FILE
from mintscope.app.stores.stores import expect_own_stores
from support.deployment import DEPLOY

PROGRAM: Final = Path(sys.executable).with_name("litestream")
FILES: Final = {"money": MONEY_FILE, "market": MARKET_FILE, "webhooks": WEBHOOKS_FILE}
TOKENS: Final = 30
COPIED_S: Final = 30.0

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not PROGRAM.exists(), reason="did not run: no litestream in this environment"
    ),
]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run Litestream with deploy/litestream.yml on an installation; yield the path of its file."""
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path / "data"))
    engine_of(load(None).config).migrations(is_done=True)
    expect_own_stores(load(None).config, writes=True)
    text = (DEPLOY / "litestream.yml").read_text()
    text = text.replace("/var/lib/mintscope", str(tmp_path / "data"))
    file = tmp_path / "litestream.yml"
    file.write_text(text.replace("/srv/mintscope-copy", str(tmp_path / "copy")))
    with (tmp_path / "litestream.log").open("w") as log:
        running = subprocess.Popen(
            [PROGRAM, "replicate", "-config", str(file)], stdout=log, stderr=log
        )
        try:
            yield file
        finally:
            running.kill()
            running.wait()


def run(*words: str, **settings: str) -> Result:
    return CliRunner().invoke(
        app, words, env={f"MINTSCOPE_{name}": value for name, value in settings.items()}
    )


def restored(file: Path, folder: Path) -> Path:
    """Restore each database by Litestream into the new *folder*, and copy the pepper.

    Return *folder*.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    data = file.parent / "data"
    for name in FILES.values():
        words = [str(each) for each in (PROGRAM, "restore", "-config", file, "-o")]
        words += [str(folder / name), str(data / name)]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr + (file.parent / "litestream.log").read_text()
        (folder / name).chmod(0o600)
    shutil.copy(data / PEPPER_FILE, folder / PEPPER_FILE)
    return folder


def test_a_restored_copy_has_all_committed_tokens_and_is_sound(
    configured: Path, tmp_path: Path
) -> None:
    issued = [run("credits", "issue", "2").stdout.strip() for _ in range(TOKENS)]
    end_s = time.monotonic() + COPIED_S
    listed: set[str] = set()
    while len(listed) < TOKENS:
        assert time.monotonic() < end_s, f"{len(listed)} of {TOKENS} were copied"
        time.sleep(0.5)
        try:
            folder = restored(configured, tmp_path / "restored")
        except AssertionError:
            assert time.monotonic() < end_s
            continue  # a file has no copy yet
        found = run("credits", "list", "--json", DATA_DIR=str(folder))
        listed = {each["token"] for each in json.loads(found.stdout)}

    assert listed == {f"...{token[-8:]}" for token in issued}
    verified = run("backup", "verify", str(folder), "--json")
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["creditTokens"] == TOKENS
