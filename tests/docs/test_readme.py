"""The pages and the repository agree about programs, commands, files and decisions."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mintscope.app.cli.app import COMMANDS, app
from mintscope.dex.programs import TABLE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> set[str]:
    return set(COMMANDS)


def _program_table() -> str:
    """Return the exchange programs that the decoder reads as a Markdown table."""
    lines = [
        "| program | id | amounts from | proven by a recorded transaction |",
        "| -- | -- | -- | -- |",
    ]
    for program in TABLE:
        how = "the programs it calls" if program.read is None else program.how
        proven = "yes" if program.proven else "not yet"
        lines.append(f"| {program.name} | `{program.address}` | {how} | {proven} |")
    return "\n".join(lines)


def test_the_program_table_equals_the_table_of_the_decoder() -> None:
    assert _program_table() in (ROOT / "docs" / "programs.md").read_text()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def _commands(page: Path) -> str:
    """Return the parts of *page* that can contain commands: code, not prose."""
    found = re.findall(r"```(?:sh)?\n(.*?)```|(`mintscope [^`]*`)", page.read_text(), re.DOTALL)
    return "\n".join("".join(each) for each in found)


def test_every_command_a_page_names_exists() -> None:
    command = re.compile(r"^(?:|.*`)mintscope ([a-z][a-z-]*)", re.MULTILINE)
    named = {(page.name, name) for page in PAGES for name in command.findall(_commands(page))}

    assert {(page, name) for page, name in named if name not in commands()} == set()
    assert named


def test_every_command_is_named_by_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)

    assert [name for name in commands() if f"mintscope {name}" not in text] == []


def test_every_file_a_page_links_to_exists() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    ]

    assert [(page, target) for page, target in links if not (page.parent / target).exists()] == []
    assert links


def test_every_make_target_the_readme_names_exists() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE))

    assert named - set(targets) == set()
    assert named >= {"demo", "test"}


@pytest.mark.process
def test_make_adds_prometheus_and_nginx_to_an_older_checkout(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("dev", "browser")]
    for stamp in kept:
        stamp.touch()
    command = ["make", "-n", "test", f"VENV={tmp_path}", *(f"--old-file={each}" for each in kept)]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "in prometheus;" in planned
    assert "in nginx;" in planned
    assert "chromium" not in planned


def test_decisions_are_numbered_and_begin_with_their_number() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [int(path.name[:4]) for path in decisions]

    assert numbers == list(range(1, len(numbers) + 1))
    for path, number in zip(decisions, numbers, strict=True):
        assert path.read_text().startswith(f"# {number}. ")


@pytest.mark.parametrize("words", ["--help", "credits --help", "tokens --help", "--version"])
def test_the_command_line_prints_its_help_and_version(words: str) -> None:
    result = CliRunner().invoke(app, shlex.split(words))

    assert result.exit_code == 0
    assert result.stdout
