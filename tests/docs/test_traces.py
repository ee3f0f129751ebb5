"""The tests named in the docstring of tests/spec/test_payment_attacks.py exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TRACE = TESTS / "spec" / "test_payment_attacks.py"


def test_every_test_that_the_docstring_names_exists() -> None:
    there = {path.stem for path in TESTS.rglob("test_*.py")}
    for path in TESTS.rglob("test_*.py"):
        there |= set(re.findall(r"def (test_\w+)", path.read_text()))
    trace = ast.get_docstring(ast.parse(TRACE.read_text())) or ""
    named = re.findall(r"\b[a-z]\w*_\w+\b", trace)

    assert len(named) > 30
    assert [name for name in named if not any(name in each for each in there)] == []
