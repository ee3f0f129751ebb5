"""The folder of a demo is deleted at its end, or by the next demo if the first was killed."""

import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mintscope.app.running.demo import PREFIX, demo_folder

HOLDS_A_FOLDER = """
import sys
from mintscope.app.running.demo import demo_folder
with demo_folder() as folder:
    (folder / "market.sqlite").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_start_deletes_the_folder_of_a_killed_demo_but_not_of_a_running_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    with demo(tmp_path) as killed, demo(tmp_path) as runs:
        left, held = first_line(killed), first_line(runs)
        killed.kill()
        killed.wait()
        assert left.exists()

        with demo_folder() as folder:
            assert {*tmp_path.iterdir()} == {folder, held, other}
            assert folder.name.startswith(PREFIX)

        runs.communicate(timeout=20)
    assert {*tmp_path.iterdir()} == {other}


@pytest.mark.parametrize("step", ["tempfile.mkdtemp", "os.open", "fcntl.flock"])
def test_demos_that_start_at_the_same_moment_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The second demo starts just after *step* of the first."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module, _, name = step.rpartition(".")
    taken = getattr(import_module(module), name)
    others: list[Path] = []

    def then_another_starts(*args: Any, **kwargs: Any) -> Any:
        outcome = taken(*args, **kwargs)
        monkeypatch.setattr(step, taken)
        others.append(running.enter_context(demo_folder()))
        return outcome

    with ExitStack() as running:
        monkeypatch.setattr(step, then_another_starts)
        with demo_folder() as folder:
            assert {*tmp_path.iterdir()} == {folder, *others}
            assert folder not in others
        assert [*tmp_path.iterdir()] == others
    assert [*tmp_path.iterdir()] == []


def demo(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_FOLDER],
        env={"TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "it ended before it had a folder"
    return Path(line)
