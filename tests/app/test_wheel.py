"""The wheels contain the whole program: installed, it runs without the checkout."""

import ast
import asyncio
import csv
import io
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from mintscope.app.running.demo import AGENT
from mintscope.solana.blocks import WSOL
from support.fakes import reports
from support.processes.listening import listening
from support.scenes.service import running_service
from support.scenes.whole_report import whole_report


def closure(names: Iterable[str], extras: Iterable[str] = ()) -> list[Distribution]:
    """Return the distributions *names*, and all distributions that they require on this machine.

    extras   the extras of *names* whose requirements are included
    """
    found: dict[str, Distribution] = {}
    waiting = [(name, frozenset(extras)) for name in names]
    while waiting:
        name, wanted = waiting.pop()
        if name.lower() in found:
            continue
        found[name.lower()] = each = distribution(name)
        for text in each.requires or ():
            need = Requirement(text)
            marker = need.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in (*wanted, "")):
                waiting.append((need.name, frozenset(need.extras)))
    return list(found.values())


def wheel_of(installed: Distribution, folder: Path) -> Path:
    """Write the wheel of *installed* to *folder*, from its installed files; return its path."""
    tag = next(
        line.removeprefix("Tag: ")
        for line in (installed.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    )
    name = installed.name.replace("-", "_")
    path = folder / f"{name}-{installed.version}-{tag}.whl"
    record = io.StringIO()
    lines = csv.writer(record)
    with ZipFile(path, "w") as archive:
        for file in installed.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or file.name == "RECORD":
                continue
            archive.write(str(file.locate()), str(file))
            lines.writerow((str(file), "", ""))
        where = f"{name}-{installed.version}.dist-info/RECORD"
        lines.writerow((where, "", ""))
        archive.writestr(where, record.getvalue())
    return path


ROOT: Final = Path(__file__).parents[2]
# Each project and the folder of its package.
SERVER: Final = (ROOT, ROOT / "src" / "mintscope")
CLIENT: Final = (ROOT / "packages/client", ROOT / "packages/client/src/mintscope_client")
DEVCHAIN: Final = (ROOT / "packages/devchain", ROOT / "packages/devchain/src/mintscope_devchain")
NOT_INSTALLED: Final = SERVER[1] / "site" / "assets"  # for the check of static files
COMMIT: Final = "mintscope/app/running/commit.txt"  # made by the build
NEEDS: Final = ("httpx", "msgspec", "typing-extensions")

pytestmark = pytest.mark.process


def built(project: Path, folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return the wheels of the server, of the client and of the devchain."""
    folder = tmp_path_factory.mktemp("wheels")
    server, client, devchain = (
        built(project, folder / package.name) for project, package in (SERVER, CLIENT, DEVCHAIN)
    )
    return server, client, devchain


@pytest.fixture(scope="module")
def installed(wheels: tuple[Path, Path, Path]) -> Path:
    """Return a folder with the content of all three wheels."""
    site = wheels[0].parents[1] / "site"
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def run(installed: Path, *arguments: str) -> str:
    """Run a module from the folder *installed*, not from the checkout; return its output."""
    script = (
        f"import sys, runpy; sys.path.insert(0, {str(installed)!r}); sys.argv = {[*arguments]!r};"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=installed, check=True, capture_output=True, text=True
    )
    return ran.stdout


def content(wheel: Path) -> set[str]:
    """Return the names of the files in *wheel*, except its metadata."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_every_file_of_a_package_is_in_its_wheel(wheels: tuple[Path, Path, Path]) -> None:
    for wheel, (_, package) in zip(wheels, (SERVER, CLIENT, DEVCHAIN), strict=True):
        kept = {
            path.relative_to(package.parent).as_posix()
            for path in package.rglob("*")
            if path.is_file()
            and "__pycache__" not in path.parts
            and not path.is_relative_to(NOT_INSTALLED)
        }
        made = {COMMIT} if package == SERVER[1] else set()

        assert content(wheel) == kept | made
        assert {Path(name).suffix for name in kept} >= {".py", ".typed"}


def test_the_wheel_says_which_commit_it_was_built_from(wheels: tuple[Path, Path, Path]) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with ZipFile(wheels[0]) as archive:
        assert archive.read(COMMIT).decode() == head.stdout


def test_the_client_imports_neither_the_server_nor_the_devchain(
    wheels: tuple[Path, Path, Path],
) -> None:
    with ZipFile(wheels[1]) as archive:
        sources = {name: archive.read(name) for name in content(wheels[1]) if name.endswith(".py")}

    wrong = {
        (name, module)
        for name, source in sources.items()
        for module in imported(source)
        if module.split(".")[0] in {"mintscope", "mintscope_devchain"}
    }
    assert len(sources) > 40
    assert wrong == set()


def imported(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_every_command_that_the_demo_prints_is_installed(installed: Path) -> None:
    assert "--approve-with" in run(installed, AGENT, "--help")
    assert "demo" in run(installed, "mintscope", "--help")


def installed_alone(wheel: Path, folder: Path, needs: Sequence[str] = NEEDS) -> str:
    """Install *wheel* and its *needs* in a new venv, in the versions installed here.

    Return the path of the venv's Python.
    """
    for each in closure(needs):
        wheel_of(each, folder)
    venv.create(folder / "venv", with_pip=False)
    python = str(folder / "venv" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--find-links", str(folder), str(wheel)], check=True, timeout=60)
    return python


READ: Final = """
import sys
from mintscope_client import Client

url, credential, mint = sys.argv[1:]
with Client(url, credential=credential) as client:
    print(client.token(mint).price.usd, client.balance())
"""


async def test_the_client_installed_alone_and_offline_reads_a_token(
    wheels: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = await asyncio.to_thread(installed_alone, wheels[1], tmp_path)
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with running_service(tmp_path) as service, listening(service.app) as url:
        token = await service.issue(3)
        reading = await asyncio.create_subprocess_exec(
            python, "-I", "-c", READ, url, token, WSOL, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(reading.communicate(), 60)
    assert printed.split() == [b"87.0", b"2"]
