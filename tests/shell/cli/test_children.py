"""Processes that a command started end in order: each has what it reads from until its own end."""

import sys
import time
from pathlib import Path

import pytest

from mintscope.shell.cli.service.children import Children

# Tells that it runs; on SIGTERM does its last work for a while, then says how the others were.
PROGRAM = """
import pathlib, signal, sys, time

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])

def end(number, frame):
    if name == "server":
        time.sleep(0.5)
        (folder / "server ended").write_text(str((folder / "chain ended").exists()))
    else:
        (folder / "chain ended").touch()
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
(folder / (name + " runs")).touch()
time.sleep(30)
"""


@pytest.mark.process
def test_the_chain_ends_after_the_server_that_asks_it(tmp_path: Path) -> None:
    """So nothing warns, while the server ends, of a chain that does not answer."""
    with Children(command=(sys.executable, "-c", PROGRAM)) as children:
        for name in ("chain", "server"):
            children.start(name, [name, str(tmp_path)])
        give_up_s = time.monotonic() + 20
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < give_up_s:
            children.pause(0.05)

    assert (tmp_path / "server ended").read_text() == "False"
    assert (tmp_path / "chain ended").exists()
