"""Runs the tests of one step of `make prove`, on the unchanged package or on a mutant."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from prove.recipe import ROOT, Mutant, mutated_copy

STEP_S_MAX: Final = 3_600
PASSED, SOME_FAILED = 0, 1  # exit codes of pytest; with any other code, no tests were run
SAID_LINES_MAX: Final = 40


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a step of `make prove`.

    good     whether all tests passed; for a mutant: whether a test failed
    passed   the number of cases that passed
    figures  the measurements of the tests, as text
    skipped  the tests that were skipped, with reasons
    said     the end of the output of pytest
    """

    good: bool
    seconds: float
    passed: int
    figures: list[str]
    skipped: list[str]
    said: str


def run(tests: Sequence[str], *, full: bool, mutant: Mutant | None = None) -> Outcome:
    """Run *tests* on the package, or on *mutant*, until the first failure if there is a mutant.

    full    whether the tests run at full length
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        nullcontext() if mutant is None else mutated_copy(mutant) as package,
    ):
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", *(() if mutant is None else ("-x",))]
        began_s = time.monotonic()
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=ROOT,
            env=_environment(package, full=full),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_S_MAX,
            check=False,
        )
        seconds = time.monotonic() - began_s
        passed, figures, skipped = _read(report)
    return Outcome(
        good=done.returncode == (PASSED if mutant is None else SOME_FAILED),
        seconds=seconds,
        passed=passed,
        figures=figures,
        skipped=skipped,
        said="\n".join(done.stdout.splitlines()[-SAID_LINES_MAX:]),
    )


def _environment(package: Path | None, *, full: bool) -> dict[str, str]:
    environment = dict(os.environ)  # noqa: TID251 - it is handed on to pytest
    environment.pop("STORM", None)
    if full:
        environment["STORM"] = "full"
        environment["PYTEST_TIMEOUT"] = "1800"  # the limit of `make storm`
    if package is not None:
        environment["PYTHONPATH"] = str(package)  # it precedes the installed package
    return environment


def _read(report: Path) -> tuple[int, list[str], list[str]]:
    """Read a JUnit report; return the number of passed tests, their figures, and skipped tests."""
    if not report.is_file():
        return 0, [], []
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - pytest wrote it
    skipped = [(case, reason) for case in cases if (reason := case.find("skipped")) is not None]
    failed = sum(
        case.find("failure") is not None or case.find("error") is not None for case in cases
    )
    figures = [
        each.get("value", "")
        for case in cases
        for each in case.iter("property")
        if each.get("name") == "figure"
    ]
    reported = [f"{case.get('name')}: {reason.get('message')}" for case, reason in skipped]
    return len(cases) - len(skipped) - failed, figures, reported
