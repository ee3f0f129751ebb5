"""A version has one number: commits after a release have another one."""

import re
import tomllib
from pathlib import Path
from typing import Final

from mintscope import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text()


def order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_every_package_has_the_same() -> None:
    projects = [
        tomllib.loads((ROOT / place / "pyproject.toml").read_text())["project"]
        for place in (".", "packages/client")
    ]
    wanted = [each for each in projects[0]["dependencies"] if each.startswith("mintscope-client")]

    assert {each["version"] for each in projects} == {__version__}
    assert [each.partition("==")[2] for each in wanted] == [__version__]


def test_what_comes_after_a_release_has_a_number_of_its_own() -> None:
    """`## 0.1.0` in the changelog is a release; entries above it belong to a later one."""
    released = re.findall(r"^## (\d+\.\d+\.\d+)", CHANGELOG, re.MULTILINE)
    unreleased = CHANGELOG.partition("## Unreleased")[2].partition("\n## ")[0]
    has_entries = "\n- " in unreleased

    assert [each for each in released if order(each) > order(__version__)] == []
    assert not (has_entries and __version__ in released), "raise __version__ after a release"
