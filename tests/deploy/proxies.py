"""Caddy with the configuration in deploy/, and nginx and Caddy with default settings."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import httpx
import pytest
from typing_extensions import override

from support.deployment import DEPLOY
from support.processes.servers import await_port, free_port

CADDY: Final = Path(sys.executable).with_name("caddy")
WAIT_S: Final = 15.0
SEARCHED: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"  # noqa: TID251 - where programs are
# All directives except these have the built-in defaults of nginx.
NGINX: Final = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; {also} }}
  }}
}}
"""


class Upstream(ThreadingHTTPServer):
    """A server in place of an api process.

    is_ready, is_alive   whether its probes of readiness and liveness succeed
    requests             the method and path of each request except probes
    second_event         a stream of /events sends its second event when this is set
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.is_ready = self.is_alive = True
        self.requests: list[tuple[str, str]] = []
        self.second_event = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: some tests end connections on purpose."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = WAIT_S
    server: Upstream

    def do_GET(self) -> None:
        if self.path in {"/readyz", "/healthz"}:
            is_well = self.server.is_ready if self.path == "/readyz" else self.server.is_alive
            self._send(200 if is_well else 503, b"{}")
            return
        self.server.requests.append((self.command, self.path))
        if self.path == "/hangs-up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif self.path == "/events":
            self._stream()
        else:
            kind = "text/html" if self.path == "/page" else "application/json"
            self._send(200, json.dumps(dict(self.headers)).encode().ljust(4_096), kind)

    def do_POST(self) -> None:
        self.server.requests.append((self.command, self.path))
        if self.path == "/hangs-up":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        with suppress(OSError):
            size = int(self.headers["Content-Length"])
            self._send(200, b"%d" % len(self.rfile.read(size)))

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: one\n\n")
        self.wfile.flush()
        self.server.second_event.wait(WAIT_S)
        self.wfile.write(b"data: two\n\n")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@dataclass(frozen=True)
class Proxy:
    url: str
    upstreams: Sequence[Upstream]
    log: Path

    def answers(self, path: str, status: int) -> None:
        """Request *path* until the answer has *status*; Caddy probes every tenth of a second.

        Raises AssertionError if no answer has *status* within WAIT_S.
        """
        until_s = time.monotonic() + WAIT_S
        while True:
            was = httpx.get(self.url + path, timeout=WAIT_S).status_code
            if was == status:
                return
            assert time.monotonic() < until_s, f"expected {status}; was {was}"
            time.sleep(0.05)


def caddyfile(hosts: Sequence[str]) -> str:
    """Return the Caddyfile with *hosts* as its upstreams, and with more frequent probes."""
    text = (DEPLOY / "Caddyfile").read_text()
    for number, host in enumerate(hosts, 1):
        text = text.replace(f"api-{number}:8402", host)
    return text.replace("health_interval 1s", "health_interval 100ms")


@contextmanager
def proxied(folder: Path) -> Iterator[Proxy]:
    """Run Caddy in front of three upstreams, with its files in *folder*, until the block ends."""
    upstreams = [Upstream() for _ in range(3)]
    for upstream in upstreams:
        threading.Thread(target=upstream.serve_forever, args=(0.05,), daemon=True).start()
    config = folder / "Caddyfile"
    config.write_text(caddyfile([each.address for each in upstreams]))
    url = f"http://127.0.0.1:{free_port()}"
    command = [str(CADDY), "run", "--config", str(config), "--adapter", "caddyfile"]
    with _running(command, url, folder, SITE_HOST=url) as log:
        try:
            yield Proxy(url, upstreams, log)
        finally:
            for upstream in upstreams:
                upstream.second_event.set()
                upstream.shutdown()
                upstream.server_close()


@contextmanager
def nginx_before(upstream: str, folder: Path, also: str = "") -> Iterator[str]:
    """Run nginx in front of *upstream*; yield its address.

    If nginx is missing, skip the test, or fail in CI.

    also   additional directives in the location of *upstream*
    """
    program = shutil.which("nginx", path=SEARCHED)
    if program is None:
        reason = "did not run: there is no nginx here; `make test` fetches it where it can"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)  # noqa: TID251
        raise AssertionError(reason)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream, also=also))
    with _running([program, "-p", folder, "-c", config], url, folder):
        yield url


@contextmanager
def caddy_before(upstream: str, folder: Path) -> Iterator[str]:
    """Run `caddy reverse-proxy` in front of *upstream*; yield its address."""
    url = f"http://127.0.0.1:{free_port()}"
    to = upstream.removeprefix("http://")
    with _running([CADDY, "reverse-proxy", "--from", url, "--to", to], url, folder):
        yield url


@contextmanager
def _running(command: Sequence[str | Path], url: str, folder: Path, **more: str) -> Iterator[Path]:
    """Run a proxy that listens at *url*; yield the file of its output."""
    log = folder / "output"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=settings(folder, **more), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        await_port(url, process, log)
        yield log
    finally:
        process.terminate()
        process.wait(WAIT_S)


def settings(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment in which Caddy stores all its data in *folder*."""
    inherited = {"PATH": os.defpath, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    return inherited | {"CADDY_ADMIN": f"127.0.0.1:{free_port()}"} | more
