"""A process logs its start with its version, and its stop with the reason; all lines are JSON."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from mintscope import __version__
from mintscope.app.running.commit import commit
from mintscope.app.stores.folder import MONEY_FILE
from support.processes.api_process import api_process, settings
from support.processes.listening import addresses_in, json_lines

ROOT = Path(__file__).resolve().parents[3]
READY_S = 60


def started(process: str, folder: Path, **more: str) -> "subprocess.Popen[str]":
    environment = settings(folder, **more) | {"MINTSCOPE_CREDITS__PEPPER": os.urandom(32).hex()}
    return subprocess.Popen(
        [sys.executable, "-m", "mintscope", *process.split()],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def of(lines: list[dict[str, Any]], event: str) -> dict[str, Any]:
    (line,) = [line for line in lines if line["event"] == event]
    return line


@pytest.mark.process
def test_an_api_logs_its_start_and_the_reason_of_its_stop(tmp_path: Path) -> None:
    with started("api", tmp_path, MINTSCOPE_API__STALE_AFTER_S="77") as process:
        try:
            assert process.stderr is not None
            logged = ""
            while not addresses_in(logged):
                line = process.stderr.readline()
                assert line, logged
                logged += line
            process.send_signal(signal.SIGTERM)
            logged += process.stderr.read()
            assert process.wait(READY_S) == 0
        finally:
            process.kill()
    lines = json_lines(logged)
    assert len(lines) == len(logged.splitlines()), "each line is an object"
    start = of(lines, "starts")
    stop = of(lines, "stops")
    assert start["process"] == "api"
    assert start["version"] == __version__
    assert start["commit"] == commit()
    assert start["settings"]["api.stale_after_s"] == "77.0"
    assert start["settings"]["credits.pepper"] == '"(secret)"'
    assert "api.degraded_after_s" not in start["settings"]
    assert (stop["reason"], stop["exit_code"]) == ("SIGTERM", 0)
    assert lines.index(start) == 0
    assert lines.index(stop) == len(lines) - 1


@pytest.mark.process
def test_metrics_port_0_is_a_free_port_for_each_worker(tmp_path: Path) -> None:
    """For another port, worker 2 uses the next one; port 1 would need root."""
    metrics = {"MINTSCOPE_METRICS__ENABLED": "true", "MINTSCOPE_METRICS__API_PORT": "0"}
    with started("api --worker 2", tmp_path, **metrics) as process:
        try:
            assert process.stderr is not None
            logged = ""
            while not addresses_in(logged):
                line = process.stderr.readline()
                assert line, logged
                logged += line
            process.send_signal(signal.SIGTERM)
            assert process.wait(READY_S) == 0
        finally:
            process.kill()
    assert of(json_lines(logged), "starts")["settings"]["metrics.api_port"] == "0"


@pytest.mark.process
def test_a_process_that_needs_an_operator_logs_why_it_stops(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    with started("api", tmp_path) as process:
        _, logged = process.communicate(timeout=READY_S)
    assert process.returncode == 3
    stop = of(json_lines(logged), "stops")
    assert stop["exit_code"] == 3
    assert "to be closed to other users" in stop["reason"]
    assert [line for line in logged.splitlines() if not line.startswith("{")] == []


@pytest.mark.process
def test_the_commit_is_that_of_the_checkout() -> None:
    ran = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        pytest.skip("this is no checkout")
    assert commit() == ran.stdout.strip()[:12]


IMPATIENT_S = 3  # less than DRAIN_S: `serve` must wait for both before it kills the api
DRAIN_S = 4
# `serve` with a short timeout for processes that stop.
SERVE = f"""
from mintscope.app.cli.app import main
from mintscope.app.running import serve

serve.STOP_TIMEOUT_S = {IMPATIENT_S}
main()
"""


@pytest.mark.process
def test_serve_lets_its_api_drain_before_it_ends(tmp_path: Path) -> None:
    environment = settings(tmp_path, MINTSCOPE_DRAIN_S=f"{DRAIN_S}")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve"],
        env=environment | {"MINTSCOPE_CREDITS__PEPPER": os.urandom(32).hex()},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            logged = ""
            while not addresses_in(logged):
                line = process.stderr.readline()
                assert line, logged
                logged += line
            process.send_signal(signal.SIGTERM)
            logged += process.stderr.read()
            assert process.wait(READY_S) == 0
        finally:
            process.kill()
    stops = [line for line in json_lines(logged) if line["event"] == "stops"]
    (stop,) = [line for line in stops if line["process"] == "api"]
    assert (stop["reason"], stop["exit_code"]) == ("SIGTERM", 0)


@pytest.mark.process
def test_a_signal_ends_an_api_that_is_still_starting(tmp_path: Path) -> None:
    with api_process(settings(tmp_path), tmp_path / "first.log"):
        pass
    money = apsw.Connection(str(tmp_path / "data" / MONEY_FILE))
    with closing(money), started("api", tmp_path) as process:
        try:
            # An api waits for the lock when it starts.
            money.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
            assert process.stderr is not None
            assert json_lines(process.stderr.readline())[0]["event"] == "starts"
            process.send_signal(signal.SIGTERM)
            assert process.wait(READY_S) == -signal.SIGTERM
        finally:
            process.kill()


# A command that gets SIGHUP while its module is imported, as by `systemctl reload` after a start.
RELOADED_EARLY = """
import os, signal
from mintscope.app.cli import app

load = app.Command.load

def interrupted(command):
    os.kill(os.getpid(), signal.SIGHUP)
    return load(command)

app.Command.load = interrupted
app.main()
"""


@pytest.mark.process
@pytest.mark.parametrize("process", ["serve", "ingest", "api"])
def test_a_reload_does_not_end_a_process_that_is_still_starting(process: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RELOADED_EARLY, process, "--help"], capture_output=True, check=False
    )
    assert ran.returncode == 0
