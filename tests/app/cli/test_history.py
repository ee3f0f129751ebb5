"""Commands show people the progress of reading history."""

import os
import subprocess
import sys

import pytest

from mintscope.app.running.service import CommandHistory


@pytest.mark.parametrize("total", [0, -3, 10])
def test_progress_below_zero_after_a_reorg_is_not_the_end(
    total: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a reorg, a source may begin with a negative number of slots read."""
    with CommandHistory() as history:
        history(-5, total)
        assert "history read" not in capsys.readouterr().err
        history(10, 10)

    assert "history read" in capsys.readouterr().err


READ_ALL = """
from mintscope.app.running.service import CommandHistory
with CommandHistory() as history:
    for done in range(0, 101, 5):
        history(done, 100)
"""


@pytest.mark.process
def test_progress_is_a_bar_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "80", "PATH": ""}
    with subprocess.Popen([sys.executable, "-c", READ_ALL], stderr=theirs, env=environment):
        os.close(theirs)
        shown = ""
        while part := _read(ours):
            shown += part.decode(errors="replace")
    os.close(ours)

    assert "━━━━" in shown
    assert "reading history:" not in shown
    assert shown.rstrip().endswith("history read, following the chain")


@pytest.mark.process
def test_progress_is_a_line_at_each_20_percent_without_a_terminal() -> None:
    ran = subprocess.run([sys.executable, "-c", READ_ALL], check=True, capture_output=True)

    assert ran.stderr.decode().splitlines() == [
        *(f"reading history: {percent} %" for percent in (20, 40, 60, 80)),
        "history read, following the chain",
    ]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
