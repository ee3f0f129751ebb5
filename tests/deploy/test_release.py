"""`make release`: two builds of one commit are equal, complete, and have checksums."""

import subprocess
import sys
import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from prove.supply.release import PLACES, build, checksums, differences, head, notes
from test_containerfile import is_sent
from typer.testing import CliRunner

from mintscope import __version__
from mintscope.app.cli.app import app
from mintscope.app.running.commit import SHOWN
from support.deployment import ROOT

SERVER: Final = f"mintscope-{__version__}-py3-none-any.whl"
CLIENT: Final = f"mintscope_client-{__version__}-py3-none-any.whl"
SDIST: Final = f"mintscope-{__version__}.tar.gz"
CONTEXT: Final = f"mintscope-{__version__}-container.tar.gz"


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    scratch = tmp_path_factory.mktemp("release")
    return [build(head(), place, scratch) for place in PLACES]


def unpacked(packed: bytes) -> dict[str, tarfile.TarInfo]:
    """Return the entries of the archive *packed*, by path below its only top-level folder."""
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        return {each.name.partition("/")[2]: each for each in archive.getmembers()}


@pytest.mark.process
def test_two_builds_of_a_commit_are_equal(builds: list[dict[str, bytes]]) -> None:
    first, second = builds

    assert {SERVER, CLIENT, SDIST, CONTEXT, "SHA256SUMS", "RELEASE_NOTES.md"} < set(first)
    assert differences(first, second) == []


@pytest.mark.process
def test_the_server_needs_the_client_of_its_version(builds: list[dict[str, bytes]]) -> None:
    with ZipFile(BytesIO(builds[0][SERVER])) as wheel:
        metadata = wheel.read(f"mintscope-{__version__}.dist-info/METADATA").decode()

    assert f"Requires-Dist: mintscope-client=={__version__}\n" in metadata


@pytest.mark.process
def test_the_sdist_gives_the_same_wheel(builds: list[dict[str, bytes]], tmp_path: Path) -> None:
    with tarfile.open(fileobj=BytesIO(builds[0][SDIST])) as archive:
        for entry in archive:
            archive.extract(entry, tmp_path)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=tmp_path / f"mintscope-{__version__}",
        env={"SOURCE_COMMIT": head().commit, "SOURCE_DATE_EPOCH": str(head().time)},
        check=True,
        capture_output=True,
    )
    with ZipFile(tmp_path / SERVER) as ours, ZipFile(BytesIO(builds[0][SERVER])) as theirs:
        assert {each.filename: each.CRC for each in ours.infolist()} == {
            each.filename: each.CRC for each in theirs.infolist()
        }


@pytest.mark.process
def test_the_context_contains_exactly_the_files_for_the_builder(
    builds: list[dict[str, bytes]],
) -> None:
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    entries = unpacked(builds[0][CONTEXT])
    sent = {name for name in listed if is_sent(Path(name))}

    assert set(entries) == sent | {"deploy/Containerfile", "deploy/Containerfile.dockerignore"}
    assert {each.mtime for each in entries.values()} == {head().time}


def test_checksums_have_the_format_of_sha256sum() -> None:
    lines = checksums({"b": b"two", "a": b"one"}).decode()

    assert lines == f"{sha256(b'one').hexdigest()}  a\n{sha256(b'two').hexdigest()}  b\n"


def test_a_build_that_differs_is_found() -> None:
    assert differences({"a": b"1", "b": b"1"}, {"a": b"1", "b": b"2", "c": b""}) == ["b", "c"]


def test_notes_are_the_section_of_the_version() -> None:
    changelog = "# Changelog\n\n## 0.1.1\n\n- b\n\n## 0.1.0 - 2026-11-26\n\n- a\n"

    assert notes(changelog, "0.1.0") == "## 0.1.0 - 2026-11-26\n\n- a\n"
    with pytest.raises(ValueError, match=r"`## 0\.2\.0`"):
        notes(changelog, "0.2.0")


@pytest.mark.process
def test_the_version_is_printed_with_the_commit() -> None:
    printed = CliRunner().invoke(app, ["--version"]).stdout

    assert printed == f"mintscope {__version__} ({head().commit[:SHOWN]})\n"
