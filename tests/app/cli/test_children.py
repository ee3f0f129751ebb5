"""Processes that a command starts are restarted when they end, and are stopped in order."""

import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from mintscope.app.running.processes import Sibling
from mintscope.app.running.serve import EXIT_OPERATOR, ChildEnded, Children, Role

GIVE_UP_S = 20

# Creates a file when it runs.  On SIGTERM, the chain creates a file and ends; the server works for
# half a second, then writes whether the chain has ended.
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
def test_the_chain_is_stopped_after_the_server_that_uses_it(tmp_path: Path) -> None:
    """If the chain stopped first, the server would warn that the chain does not answer."""
    with Children(command=(sys.executable, "-c", PROGRAM)) as children:
        children.start("chain", ["chain", str(tmp_path)], role=Role(has_memory=True))
        children.start("server", ["server", str(tmp_path)])
        until(children, lambda: len(list(tmp_path.iterdir())) == 2)

    assert (tmp_path / "server ended").read_text() == "False"
    assert (tmp_path / "chain ended").exists()


def until(children: Children, is_so: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + GIVE_UP_S
    while not is_so():
        assert time.monotonic() < give_up_s
        children.pause(0.02)


# Records each start and the messages of its parent; ends at once if an exit code is given.
RECORDER = """
import pathlib, sys

name, folder, *code = [each for each in sys.argv[1:] if each != "--again"]
with (pathlib.Path(folder) / name).open("a") as starts:
    starts.write("+" if sys.argv[-1] == "--again" else ".")
if code:
    sys.exit(int(code[0]))
for line in sys.stdin:
    (pathlib.Path(folder) / (name + " heard")).write_text(line)
"""


def recording() -> Children:
    return Children(command=(sys.executable, "-c", RECORDER))


def starts(folder: Path, name: str) -> int:
    return len(text(folder / name))


def heard(folder: Path, name: str) -> Mapping[str, Sibling]:
    line = text(folder / f"{name} heard")
    return msgspec.json.decode(line, type=dict[str, Sibling]) if line.endswith("\n") else {}


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.process
@pytest.mark.parametrize("code", [0, 1, 70])
def test_a_process_that_ends_is_restarted_while_the_other_keeps_running(
    tmp_path: Path, code: int
) -> None:
    with recording() as children:
        children.start("api", ["api", str(tmp_path)])
        children.start("ingest", ["ingest", str(tmp_path), str(code)])
        until(children, lambda: starts(tmp_path, "ingest") >= 3)
        until(children, lambda: heard(tmp_path, "api").get("ingest", Sibling()).restarts >= 2)

    assert starts(tmp_path, "api") == 1
    assert not heard(tmp_path, "api")["ingest"].is_stopped


@pytest.mark.process
def test_a_failed_fork_is_retried_and_the_other_process_goes_on(
    tmp_path: Path,
) -> None:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    with recording() as children:
        children.start("api", ["api", str(tmp_path)])
        children.start("ingest", ["ingest", str(tmp_path), "1"])
        until(children, lambda: starts(tmp_path, "ingest") >= 2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, usual[1]))
        try:
            children.pause(1.0)  # several starts are due
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        before = starts(tmp_path, "ingest")
        until(children, lambda: starts(tmp_path, "ingest") > before)

    assert starts(tmp_path, "api") == 1


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_of_a_pause_is_handled(number: signal.Signals) -> None:
    """The signal arrives before each line of Python that the pause runs."""

    def send(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            signal.raise_signal(number)
        return send

    def reload() -> Sequence[str]:
        reloads.append(number)
        return ()

    reloads: list[int] = []
    usual = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the pause does not end"))
    with Children() as children:
        children.on_hang_up(reload)
        signal.setitimer(signal.ITIMER_REAL, GIVE_UP_S)
        sys.settrace(send)
        try:
            children.pause(0.1)
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)

    assert children.stopping is (number == signal.SIGTERM)
    assert bool(reloads) is (number == signal.SIGHUP)


@pytest.mark.process
def test_a_restarted_process_gets_the_argument_for_restarts(tmp_path: Path) -> None:
    with recording() as children:
        role = Role(again=("--again",))
        children.start("api", ["api", str(tmp_path), "1"], role=role)
        until(children, lambda: starts(tmp_path, "api") >= 2)

    assert text(tmp_path / "api")[:2] == ".+"


@pytest.mark.process
def test_a_process_that_needs_an_operator_is_not_restarted_but_reported(
    tmp_path: Path,
) -> None:
    with recording() as children:
        children.start("api", ["api", str(tmp_path)])
        children.start("ingest", ["ingest", str(tmp_path), str(EXIT_OPERATOR)])
        until(children, lambda: heard(tmp_path, "api").get("ingest", Sibling()).is_stopped)
        children.pause(0.3)  # a restart would come within 0.1 s

    assert (starts(tmp_path, "api"), starts(tmp_path, "ingest")) == (1, 1)


@pytest.mark.process
@pytest.mark.parametrize(
    ("role", "code"),
    [(Role(is_vital=True), EXIT_OPERATOR), (Role(has_memory=True, is_vital=True), 1)],
)
def test_a_vital_process_that_cannot_be_restarted_ends_its_parent(
    tmp_path: Path, role: Role, code: int
) -> None:
    with recording() as children:
        children.start("api", ["api", str(tmp_path), str(code)], role=role)
        with pytest.raises(ChildEnded, match=f"ended with exit code {code}") as caught:
            until(children, lambda: False)
    assert caught.value.needs_operator is (code == EXIT_OPERATOR)


@pytest.mark.process
def test_a_process_that_may_end_is_not_restarted(tmp_path: Path) -> None:
    with recording() as children:
        children.start("files", ["files", str(tmp_path), "0"], role=Role(may_end=True))
        until(children, lambda: starts(tmp_path, "files") == 1)
        children.pause(0.5)  # a restart would come within 0.1 s

    assert starts(tmp_path, "files") == 1


@pytest.mark.process
def test_a_process_that_may_end_is_restarted_if_a_reload_ends_it(tmp_path: Path) -> None:
    runs = tmp_path / "files runs"
    with Children(command=(sys.executable, "-c", PROGRAM)) as children:
        children.on_hang_up(lambda: ["files"])
        children.start("files", ["files", str(tmp_path)], role=Role(may_end=True))
        until(children, runs.exists)
        runs.unlink()
        signal.raise_signal(signal.SIGHUP)
        until(children, runs.exists)


# Writes the signals that it gets to a file, and ends when another file exists.
SIGNALLED = """
import pathlib, signal, sys, time

name = sys.argv[1]
folder = pathlib.Path(sys.argv[2])

def note(number, frame):
    with (folder / name).open("a") as signals:
        signals.write(signal.Signals(number).name + " ")

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, note)
(folder / (name + " runs")).touch()
while not (folder / (name + " ends")).exists():
    time.sleep(0.01)
"""


@pytest.mark.process
def test_a_second_reload_does_not_signal_the_process_that_the_first_one_ends(
    tmp_path: Path,
) -> None:
    """A second SIGTERM would interrupt the end of the process, a SIGHUP could kill it."""
    runs = [tmp_path / f"{name} runs" for name in ("ingest", "api")]
    with Children(command=(sys.executable, "-c", SIGNALLED)) as children:
        children.on_hang_up(lambda: ["ingest"])
        for name in ("ingest", "api"):
            children.start(name, [name, str(tmp_path)])
        until(children, lambda: all(each.exists() for each in runs))
        signal.raise_signal(signal.SIGHUP)
        until(children, lambda: text(tmp_path / "api") == "SIGHUP ")
        signal.raise_signal(signal.SIGHUP)
        until(children, lambda: text(tmp_path / "api") == "SIGHUP SIGHUP ")
        runs[0].unlink()
        (tmp_path / "ingest ends").touch()
        until(children, runs[0].exists)
        signals = text(tmp_path / "ingest")
        (tmp_path / "api ends").touch()

    assert signals == "SIGTERM "


# On SIGTERM, waits until the other process has also got SIGTERM, then ends.
TOGETHER = """
import pathlib, signal, sys, time

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])

def end(number, frame):
    (folder / (name + " ends")).touch()
    while len(list(folder.glob("* ends"))) < 2:
        time.sleep(0.01)
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
(folder / name).touch()
time.sleep(30)
"""


@pytest.mark.process
def test_processes_end_at_the_same_time(tmp_path: Path) -> None:
    """Each process waits until both are stopping; stopped one by one, they would be killed."""
    with Children(command=(sys.executable, "-c", TOGETHER)) as children:
        for name in ("ingest", "api"):
            children.start(name, [name, str(tmp_path)])
        until(children, lambda: len(list(tmp_path.iterdir())) == 2)
        start_s = time.monotonic()

    assert time.monotonic() - start_s < 10


def asked(listener: socket.socket) -> tuple[str, bytes]:
    """Send a request to *listener*; return the head and the body of the answer."""
    with socket.create_connection(listener.getsockname(), timeout=GIVE_UP_S) as client:
        client.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(partial(client.recv, 65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body


@pytest.mark.process
def test_clients_of_a_process_that_cannot_start_get_503_with_retry_after(
    tmp_path: Path,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(8) as clients,
        recording() as children,
    ):
        children.start("api", ["api", str(tmp_path), "1"], listener=listener)
        waiting = [clients.submit(asked, listener) for _ in range(100)]
        until(children, lambda: all(each.done() for each in waiting))

    for each in waiting:
        head, body = each.result()
        error = msgspec.json.decode(body)["error"]
        assert head.startswith("HTTP/1.1 503 ")
        assert "\r\nRetry-After: 5\r\n" in head
        assert error["code"] == "SERVICE_UNAVAILABLE"
        assert f"\r\nContent-Length: {len(body)}\r\n" in head


@pytest.mark.process
def test_clients_get_no_answer_during_the_first_restarts_of_a_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, recording() as children:
        children.start("api", ["api", str(tmp_path), "1"], listener=listener)
        with socket.create_connection(listener.getsockname()) as client:
            client.settimeout(0.0)
            until(children, lambda: starts(tmp_path, "api") == 3)
            with pytest.raises(BlockingIOError):
                client.recv(1)


@pytest.mark.process
def test_clients_get_no_503_while_another_worker_can_serve_them(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, recording() as children:
        children.start("api", ["api", str(tmp_path)], listener=listener)
        children.start("api-2", ["api-2", str(tmp_path), "1"], listener=listener)
        with socket.create_connection(listener.getsockname()) as client:
            client.settimeout(0.0)
            until(children, lambda: starts(tmp_path, "api-2") == 5)
            with pytest.raises(BlockingIOError):
                client.recv(1)
