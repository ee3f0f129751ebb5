"""Each command of the pages runs: ```sh blocks, sorted by what they need."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mintscope.shell.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

# Run whole elsewhere: a process until it is stopped, a chain, a browser, or a wallet that pays.
RUNS_IN = {
    "mintscope serve": "e2e/test_serve.py",
    "mintscope doctor": "shell/doctor",
    "mintscope buy": "docs/test_buying_page.py",
    "mintscope decode": "shell/cli",
    "mintscope indicators": "shell/cli",
    "mintscope report": "shell/cli",
    "mintscope admin create": "shell/cli",
    "mintscope applications": "shell/cli",
    "curl": "e2e/test_demo.py",
    "python -m bench": "bench/test_bench.py",
    "python -m apsw": "",
    ". .venv": "",
    "export": "",
    "cp": "",
}


def commands() -> list[str]:
    """Return each command of a ```sh block, continued lines joined, without its comment."""
    blocks = (
        block
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    )
    lines = (line for block in blocks for line in block.replace("\\\n", " ").splitlines())
    texts = (" ".join(shlex.split(line, comments=True)) for line in lines)
    return sorted({text for text in texts if text})


COMMANDS = commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_known(command: str) -> None:
    """It is run here, or in the test that RUNS_IN names."""
    if command.startswith(("make ", "mintscope tokens ", "mintscope credits ")):
        return
    (where,) = [test for start, test in RUNS_IN.items() if command.startswith(start)]
    assert (ROOT / "tests" / where).exists()


@pytest.mark.process
@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("make ")])
def test_make_knows_the_target(command: str) -> None:
    ran = subprocess.run(
        ["make", "-n", *shlex.split(command)[1:]],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("mintscope ")])
def test_its_options_exist(command: str) -> None:
    words = shlex.split(command)[1:]

    result = CliRunner().invoke(app, [*words, "--help"])

    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if each.startswith(("mintscope tokens", "mintscope credits"))],
)
def test_it_runs_on_a_folder(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))

    result = CliRunner().invoke(app, shlex.split(command)[1:])

    assert result.exit_code == 0, result.output
