"""The worked examples of CONTRIBUTING.md: applied to a copy of the repository, their tests pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = (
    (ROOT / "CONTRIBUTING.md").read_text().partition("## Five common changes")[2].split("\n## ")[0]
)
COPIED: Final = ("src", "tests", "docs", "packages", "deploy")
FILES: Final = ("Makefile", "hatch_build.py", "pyproject.toml")
TREES: Final = ("src", "packages/client/src", "packages/devchain/src")
RUNS_S_MAX: Final = 300  # a run takes 20 s of processor time
CHANGED_FILES_MAX: Final = 6  # of source and documents, by an example
NAMED: Final = (
    "tests/market/test_indicators_with_parameters.py::test_midpoint",
    "tests/docs/test_indicators_page.py",
    "tests/market/test_engine.py::test_every_value_appears_at_its_candle",
    "tests/market/test_engine.py::test_a_closed_value_appears_when_its_candle_has_passed",
    "tests/market/test_engine.py::test_the_row_of_a_mint_takes_at_most_14500_bytes",
    "tests/market/test_engine_edges.py::test_a_series_equals_the_values_served_candle_by_candle",
    "tests/market/test_engine_edges.py::test_a_loaded_old_mint_equals_a_mint_that_stayed_in_memory",
    "tests/market/test_asked_frames.py::test_frames_agree_with_the_definitions_wherever_they_begin",
    "tests/site/test_docs_pages.py::test_every_indicator_is_defined",
    "tests/spec/test_openapi.py::test_each_operation_has_a_clear_name_of_its_own[sqlite-application]",
    "tests/client/test_wire.py",
    "tests/docs/test_api_page.py",
    "tests/dex/test_programs.py",
    "tests/dex/test_every_venue.py",
    "tests/docs/test_readme.py::test_the_program_table_equals_the_table_of_the_decoder",
    "tests/docs/test_operators_pages.py::test_the_reference_equals_the_output_of_the_command",
    "tests/docs/test_operators_pages.py::test_every_setting_has_a_meaning_and_is_in_the_reference",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the repository to which all examples are applied."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    for file in (*ROOT.glob("*.md"), *(ROOT / name for name in FILES)):
        shutil.copy2(file, tmp_path)
    patches = re.findall(r"```diff\n(.*?)```", EXAMPLES, re.DOTALL)
    assert len(patches) == 5
    for patch in patches:
        assert len(re.findall(r"^\+\+\+ b/(?!tests/)", patch, re.MULTILINE)) <= CHANGED_FILES_MAX
        # -C1: the line before and after must fit, wherever in the file they are.
        ran = subprocess.run(
            ["git", "apply", "-C1", "-"],
            cwd=tmp_path,
            input=patch,
            text=True,
            capture_output=True,
            check=False,
            env={"PATH": os.defpath, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        )
        assert ran.returncode == 0, ran.stderr
    return tmp_path


def run(copy: Path, *words: str) -> str:
    """Run Python in the copy, whose modules come first; return its output."""
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env={
            **os.environ,  # noqa: TID251 - handed on
            "PYTHONPATH": ":".join(str(copy / tree) for tree in TREES),
            "NUMBA_DISABLE_JIT": "1",  # kernels that changed would take a minute to compile
        },
        capture_output=True,
        text=True,
        timeout=RUNS_S_MAX,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-2_000:]
    return ran.stdout


@pytest.mark.process
@pytest.mark.timeout(420)
def test_the_examples_apply_and_their_tests_pass(copy: Path) -> None:
    page = run(copy, "-m", "mintscope", "config", "--markdown")
    (copy / "docs" / "reference" / "config.md").write_text(page)

    printed = run(copy, "-m", "pytest", "-q", "-p", "no:randomly", *NAMED)

    assert re.search(r"^\d+ passed", printed, re.MULTILINE), printed[-1_000:]
    assert "log.folded_s" in page


def test_the_tests_that_run_are_named_by_an_example() -> None:
    for name in {each.partition("::")[0] for each in NAMED}:
        assert f"`{name}`" in EXAMPLES, name
