"""Decision 2 gives the reason for each dependency of the project."""

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
(DECISION,) = (ROOT / "docs" / "decisions").glob("0002-*.md")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS: Final = {
    requirement
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in group
}
NAMES: Final = sorted({re.split(r"[\[<>=]", each)[0] for each in REQUIREMENTS})


@pytest.mark.parametrize("name", NAMES)
def test_decision_2_names_the_dependency(name: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", DECISION.read_text())
