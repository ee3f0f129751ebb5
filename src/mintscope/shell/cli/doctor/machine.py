"""Checks this machine: folder, disk, SQLite, pepper, ports."""

import os
import shutil
import socket
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Final

import httpx

from mintscope.base.credentials import PEPPER_BYTES_MIN
from mintscope.base.errors import UnusablePepper, UnusableStore
from mintscope.shell.cli.doctor.finding import Finding, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.site import in_url
from mintscope.shell.wiring.stores import OTHERS, engine_version, expect_pepper, pepper_file

GIB: Final = 1024**3
DISK_BYTES_MIN: Final = GIB // 2
DISK_BYTES_LOW: Final = 5 * GIB
PROBE_TIMEOUT_S: Final = 2.0


def check_folder(config: Config) -> Iterator[Finding]:
    """Write where files are to be kept, and look for room."""
    folder = config.data_dir
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    try:
        with TemporaryFile(dir=existing):
            pass
    except OSError as error:
        fix = "let this user write there, or set data_dir"
        yield fail(f"data folder: cannot write in {existing}: {error.strerror}", fix)
        return
    free_bytes = shutil.disk_usage(existing).free
    room = f"data folder: {folder}, {free_bytes / GIB:.1f} GiB free"
    if free_bytes < DISK_BYTES_MIN:
        yield fail(room, "make room, or set data_dir to a larger disk")
    elif free_bytes < DISK_BYTES_LOW:
        yield warn(room, "make room, or keep less: market.retention_*")
    else:
        yield ok(room if folder.exists() else f"{room}, made at the first start")
    if folder.exists() and folder.stat().st_mode & OTHERS:
        what = f"data folder: {folder} is open to other users"
        if config.data_dir_may_be_open:
            yield warn(what, f"chmod 700 {folder}")
        else:
            fix = f"chmod 700 {folder}, or set data_dir_may_be_open"
            yield fail(f"{what}: the service does not start", fix)


def check_sqlite(_config: Config) -> Iterator[Finding]:
    """Refuse an SQLite that can corrupt a write-ahead log."""
    try:
        yield ok(f"SQLite: {engine_version()}")
    except UnusableStore as error:
        yield fail(f"SQLite: {error}", "install a newer apsw")


def check_pepper(config: Config) -> Iterator[Finding]:
    """Check that the pepper is there, and that other users cannot read it."""
    path = pepper_file(config)
    if config.credits.pepper is not None:
        yield ok("pepper: configured; keep a copy, without it every credit token is void")
    elif not path.exists():
        yield ok(f"pepper: {path} is made at the first start; back it up then")
    elif not os.access(path, os.R_OK):
        yield fail(f"pepper: {path} cannot be read", "run as the user who owns the data folder")
    else:
        yield _check_pepper_file(config)


def _check_pepper_file(config: Config) -> Finding:
    path = pepper_file(config)
    try:
        expect_pepper(config)
    except UnusablePepper as error:
        fix = f"restore it from your backup: {2 * PEPPER_BYTES_MIN} hexadecimal digits"
        return fail(f"pepper: {error}; the service does not start", fix)
    return ok(f"pepper: {path}; keep a copy, without it every credit token is void")


def check_ports(config: Config) -> Iterator[Finding]:
    """Listen where each process should, unless it already does."""
    api = config.api
    metrics = config.metrics
    web = config.web
    yield _port("api.port", api.host, api.port, "/healthz")
    if metrics.enabled:
        yield _port("metrics.ingest_port", metrics.host, metrics.ingest_port, "/metrics")
        yield _port("metrics.api_port", metrics.host, metrics.api_port, "/metrics")
    if web.enabled and web.admin_port is not None:
        yield _port("web.admin_port", web.admin_host, web.admin_port, "/")


def _port(key: str, host: str, port: int, path: str) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return ok(f"port: {port} on {host} is free")
    except OSError as error:
        reason = error.strerror or str(error)
    if _is_ours(host, port, path):
        return ok(f"port: {port} on {host} is served by mintscope")
    return fail(f"port: cannot listen on {port} of {host}: {reason}", f"set {key} to another")


def _is_ours(host: str, port: int, path: str) -> bool:
    place = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    try:
        answer = httpx.get(f"http://{in_url(place)}:{port}{path}", timeout=PROBE_TIMEOUT_S)
    except httpx.HTTPError:
        return False
    return "x-request-id" in answer.headers or "mintscope_" in answer.text
