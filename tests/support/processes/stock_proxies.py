"""nginx and Caddy with default settings, apart from their addresses."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.processes.proxied import CADDY, await_port, settings
from support.processes.servers import free_port

WAIT_S: Final = 15.0
SEARCHED: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"  # noqa: TID251 - where programs are
# All directives except these have nginx's built-in defaults.
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


@contextmanager
def nginx_before(upstream: str, folder: Path, also: str = "") -> Iterator[str]:
    """Run nginx in front of *upstream*; yield its address.  Skip if it is missing, except in CI.

    also   additional directives of its location
    """
    program = shutil.which("nginx", path=SEARCHED)
    if program is None:
        reason = "did not run: there is no nginx here; `make test` fetches it where it can"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)  # noqa: TID251
        raise AssertionError(reason)
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream, also=also))
    with _running([program, "-p", str(folder), "-c", str(config)], port, folder) as url:
        yield url


@contextmanager
def caddy_before(upstream: str, folder: Path) -> Iterator[str]:
    """Run `caddy reverse-proxy` in front of *upstream*; yield its address."""
    port = free_port()
    to = upstream.removeprefix("http://")
    words = ["reverse-proxy", "--from", f"http://127.0.0.1:{port}", "--to", to]
    with _running([str(CADDY), *words], port, folder) as url:
        yield url


@contextmanager
def _running(command: Sequence[str], port: int, folder: Path) -> Iterator[str]:
    log = folder / "output"
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=settings(folder), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        await_port(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(WAIT_S)
