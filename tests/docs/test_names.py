"""Only tests that are about an engine name a class of it; others run on any engine."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# These test an engine or make stores; all other tests use support/scenes/stores.py.
MAY_NAME_AN_ENGINE: Final = (
    "stores/",
    "accounts/store/",
    "contract/",
    "support/",
    "e2e/paying_service.py",  # its subject is the flushes of SQLite
)
ENGINE: Final = re.compile(r"\b" + "Sqlite" + r"[A-Z]\w*")


def test_tests_of_other_parts_name_no_class_of_an_engine() -> None:
    tests = ROOT / "tests"
    found = {
        name: sorted(names)
        for path in sorted(tests.rglob("*.py"))
        if not (name := path.relative_to(tests).as_posix()).startswith(MAY_NAME_AN_ENGINE)
        and (names := set(ENGINE.findall(path.read_text())))
    }
    assert found == {}
