"""A whole `mintscope api` process with a separate folder."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mintscope.app.config.load import child_environment
from support.processes.listening import addresses_in

READY_S = 60.0
PAUSE_S = 0.05
END_S = 20.0


def settings(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that stores its files in *folder* / "data"."""
    return child_environment(
        {
            "MINTSCOPE_DATA_DIR": str(folder / "data"),
            "MINTSCOPE_CHAIN__SOURCE": "files",
            "MINTSCOPE_CHAIN__FILES": str(folder / "none.jsonl"),
            "MINTSCOPE_API__PORT": "0",
            "MINTSCOPE_METRICS__ENABLED": "false",
            "MINTSCOPE_MAIL__DELIVERY": "page",
            **more,
        }
    )


def command(
    environment: Mapping[str, str], *words: str, typed: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a `mintscope` command to its end, with *typed* as its input; return the result."""
    return subprocess.run(
        [sys.executable, "-m", "mintscope", *words],
        env=dict(environment),
        input=typed,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )


@contextmanager
def api_process(environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """Run `mintscope api` and yield its address; SIGTERM must end it without an error.

    log   the file to which it writes its log
    """
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "mintscope", "api"], env=dict(environment), stderr=stderr
        ) as process,
    ):
        try:
            yield _address(process, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0, log.read_text()
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end_s = time.monotonic() + READY_S
    while time.monotonic() < end_s and process.poll() is None:
        if found := addresses_in(log.read_text()):
            return found[0]
        time.sleep(PAUSE_S)
    raise AssertionError(log.read_text())
