"""All packages have one version number, and commits after a release have a later number."""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from mintscope import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
ENTRY_LINES_MAX: Final = 2
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text()


def order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_packages_have_the_version_of_the_service() -> None:
    """Service, client and devchain have the version in `mintscope.__version__`."""
    service = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert service["tool"]["hatch"]["version"] == {"path": "src/mintscope/__init__.py"}
    for place in ("packages/client", "packages/devchain"):
        project = tomllib.loads((ROOT / place / "pyproject.toml").read_text())
        assert project["project"]["version"] == __version__


PAGES = ("docs/clients.md", "packages/client/README.md", "packages/client-ts/README.md")


@pytest.mark.parametrize("page", PAGES)
def test_examples_name_the_version(page: str) -> None:
    named = re.findall(r"mintscope[_-]client-(\d[\d.]*\d)", (ROOT / page).read_text())

    assert set(named) == {__version__}


@pytest.mark.parametrize("file", ["deploy/compose.yaml", "deploy/Containerfile"])
def test_the_image_is_of_the_version(file: str) -> None:
    assert set(re.findall(r"mintscope:(\d[\d.]*\d)", (ROOT / file).read_text())) == {__version__}


def test_the_typescript_package_has_the_version_of_the_service() -> None:
    package = json.loads((ROOT / "packages" / "client-ts" / "package.json").read_text())

    assert package["version"] == __version__


def test_unreleased_entries_have_a_version_after_the_last_release() -> None:
    """`## 0.1.0` in the changelog marks a release; entries above it belong to a later release."""
    released = re.findall(r"^## (\d+\.\d+\.\d+)", CHANGELOG, re.MULTILINE)
    unreleased = CHANGELOG.partition("## Unreleased")[2].partition("\n## ")[0]
    has_entries = "\n- " in unreleased

    assert [each for each in released if order(each) > order(__version__)] == []
    assert not (has_entries and __version__ in released), "raise __version__ after a release"


def test_an_entry_of_the_changelog_has_two_lines_at_most() -> None:
    entries = re.split(r"^- ", CHANGELOG, flags=re.MULTILINE)[1:]
    longer = [
        each
        for each in entries
        if len(each.partition("\n\n")[0].strip().splitlines()) > ENTRY_LINES_MAX
    ]
    kinds = set(re.findall(r"^### (.+)", CHANGELOG, re.MULTILINE))

    assert longer == []
    assert kinds <= {"Added", "Changed", "Fixed", "Removed", "For operators"}
