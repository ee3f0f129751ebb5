"""What is installed is the whole program: built as a wheel, and run away from the checkout."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from mintscope.shell.cli.demo.demo import AGENT

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mintscope"
NOT_INSTALLED = PACKAGE / "edges" / "web" / "assets"  # what the check of the static files needs


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed: Path, *arguments: str) -> str:
    """Run a module of the wheel, elsewhere; its own path comes before the checkout's."""
    script = (
        f"import sys, runpy; sys.path.insert(0, {str(installed)!r}); sys.argv = {[*arguments]!r};"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=installed, check=True, capture_output=True, text=True
    )
    return ran.stdout


@pytest.mark.process
def test_every_file_of_the_package_is_in_the_wheel(installed: Path) -> None:
    kept = {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.is_relative_to(NOT_INSTALLED)
    }
    package = installed / "mintscope"
    found = {
        path.relative_to(package)
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts  # pip and a first run compile
    }

    assert found == kept
    assert {path.suffix for path in found} >= {".py", ".sql", ".html", ".js", ".css", ".typed"}


@pytest.mark.process
def test_every_command_that_the_demo_prints_is_installed(installed: Path) -> None:
    assert "--approve-with" in run(installed, AGENT, "--help")
    assert "demo" in run(installed, "mintscope", "--help")
