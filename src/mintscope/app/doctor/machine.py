"""Checks of the doctor: machine, pepper, ports, proxies, pages, mail, alerts and backups.

`check_surfaces` checks the documents by which public catalogs list the API.
"""

import asyncio
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import distributions
from ipaddress import ip_network
from tempfile import TemporaryFile
from typing import Final
from urllib.parse import urlsplit

import httpx

from mintscope.app.config.groups import Config
from mintscope.app.config.values import in_url, is_loopback, origins_of
from mintscope.app.doctor.directories import Expected, ServiceSilent, Visitor, look
from mintscope.app.doctor.finding import Finding, fail, ok, warn
from mintscope.app.engine import is_shared
from mintscope.app.mail import mail_server_trouble
from mintscope.app.stores.backups import newest
from mintscope.app.stores.folder import is_in_use
from mintscope.app.stores.stores import OTHERS, engine_version, expect_pepper, pepper_file, place_of
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.credentials import PEPPER_BYTES_MIN
from mintscope.kit.errors import UnusablePepper, UnusableStore
from mintscope.kit.files import access_trouble
from mintscope.kit.time import DAY_MS, HOUR_MS

GIB: Final = 1024**3
DISK_BYTES_MIN: Final = GIB // 2
DISK_BYTES_LOW: Final = 5 * GIB
PROBE_TIMEOUT_S: Final = 2.0
PACKAGES: Final = ("mintscope", "mintscope-client", "mintscope-devchain")
FROM_FILE: Final = "direct_url.json"  # see PEP 610; packages from an index have no such file


def check_folder(config: Config) -> Iterator[Finding]:
    """Check that the data folder is writable, on a disk with space, and closed to other users."""
    folder = config.data_dir
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    try:
        with TemporaryFile(dir=existing):
            pass
    except OSError as error:
        fix = access_trouble(existing) or (
            "give this user write access to the folder, or set data_dir"
        )
        yield fail(f"data folder: cannot write in {existing}: {error.strerror}", fix)
        return
    free_bytes = shutil.disk_usage(existing).free
    room = f"data folder: {folder}, {free_bytes / GIB:.1f} GiB free"
    if free_bytes < DISK_BYTES_MIN:
        yield fail(room, "free some space, or set data_dir to a folder on a larger disk")
    elif free_bytes < DISK_BYTES_LOW:
        yield warn(room, "free some space, or keep less data: market.retention_*")
    else:
        yield ok(room if folder.exists() else f"{room}, made at the first start")
    if folder.exists() and folder.stat().st_mode & OTHERS:
        what = f"data folder: {folder} is open to other users"
        fix = f"chmod 700 {folder}"
        if config.data_dir_may_be_open:
            yield warn(what, fix)
        else:
            yield fail(f"{what}: the service does not start", f"{fix}, or set data_dir_may_be_open")


def check_packages(_config: Config, path: Sequence[str] | None = None) -> Iterator[Finding]:
    """Check that no package of mintscope was installed by name, from a package index.

    path   the folders of installed packages; None: those of this interpreter
    """
    folders = list(sys.path if path is None else path)
    is_from_file: dict[str, bool] = {}
    for name in PACKAGES:
        for package in distributions(name=name, path=folders):
            # Python imports the first one on the path; later ones are not used.
            is_from_file.setdefault(name, package.read_text(FROM_FILE) is not None)
    by_name = [name for name, is_file in is_from_file.items() if not is_file]
    if by_name:
        yield fail(
            f"packages: {', '.join(by_name)} installed by name: on a public index, these names can"
            " belong to anyone",
            "install the wheels by their paths: pip install --no-deps --force-reinstall"
            " build/dist/*.whl",
        )
    elif is_from_file:
        yield ok(f"packages: {', '.join(is_from_file)} installed from files")


def check_sqlite(_config: Config) -> Iterator[Finding]:
    """Report the SQLite version; fail if it can corrupt a write-ahead log."""
    try:
        yield ok(f"SQLite: {engine_version()}")
    except UnusableStore as error:
        yield fail(f"SQLite: {error}", "install a newer apsw")


def check_pepper(config: Config) -> Iterator[Finding]:
    """Check that the pepper is configured, or that its file is usable or does not exist yet."""
    path = pepper_file(config)
    if config.credits.pepper is not None:
        yield ok("pepper: configured; keep a copy, because every credit token is void without it")
    elif not path.exists():
        yield ok(f"pepper: {path} is made at the first start; back it up then")
    elif not os.access(path, os.R_OK):
        yield fail(f"pepper: {path} cannot be read", "run as the user who owns the data folder")
    else:
        try:
            expect_pepper(config)
        except UnusablePepper as error:
            fix = f"restore it from your backup: {2 * PEPPER_BYTES_MIN} hexadecimal digits"
            yield fail(f"pepper: {error}; the service does not start", fix)
            return
        yield ok(f"pepper: {path}; keep a copy, without it every credit token is void")


def check_ports(config: Config) -> Iterator[Finding]:
    """Check that each process can listen on its port, or already listens there.

    Fail if the service of another installation listens there.
    """
    api = config.api
    metrics = config.metrics
    web = config.web
    # The processes of an installation with a `store` lock its database, not this folder.
    may_run = is_shared(config) or is_in_use(config.data_dir)
    yield _port("api.port", api.host, api.port, "/healthz", may_run=may_run)
    if metrics.enabled:
        for key in ("ingest_port", "api_port"):
            port = getattr(metrics, key)
            yield _port(f"metrics.{key}", metrics.host, port, "/metrics", may_run=may_run)
    if web.enabled and web.admin_port is not None:
        yield _port("web.admin_port", web.admin_host, web.admin_port, "/", may_run=may_run)


def _port(key: str, host: str, port: int, path: str, *, may_run: bool) -> Finding:
    """Check that a process can listen on *port*, or that the service listens there.

    may_run   whether the service of this installation may run
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return ok(f"port: {port} on {host} is free")
    except OSError as error:
        reason = error.strerror or str(error)
    answer = _get(host, port, path)
    if answer is not None and ("x-request-id" in answer.headers or "mintscope_" in answer.text):
        if may_run:
            return ok(f"port: {port} on {host} is served by mintscope")
        reason = "another installation of mintscope serves it"
    return fail(f"port: cannot listen on {port} of {host}: {reason}", f"set {key} to another")


def _get(host: str, port: int, path: str) -> httpx.Response | None:
    """Return this machine's HTTP response to a GET of *path*; None if no server answers.

    host   the host on which the server listens; for 0.0.0.0 or ::, the loopback address is asked
    """
    # A server that listens on every address can be reached at the loopback address.
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    try:
        return httpx.get(f"http://{in_url(reached)}:{port}{path}", timeout=PROBE_TIMEOUT_S)
    except httpx.HTTPError:
        return None


def check_proxies(config: Config) -> Iterator[Finding]:
    """Check that the service sees clients' addresses behind a proxy: limits are by address."""
    api = config.api
    if not api.trusted_proxies:
        if (api.origin or "").startswith("https://"):
            yield warn(
                "proxies: none is trusted, so all clients seem to have the address of the proxy"
                " that ends TLS. They share rate limits, and no API key with allowed networks"
                " accepts them",
                "set api.trusted_proxies to the address of the proxy",
            )
        else:
            yield ok("proxies: none; the address of a connection is that of the client")
        return
    wide = [each for each in api.trusted_proxies if ip_network(each).prefixlen == 0]
    if wide:
        yield warn(
            f"proxies: {wide[0]} trusts everyone: each client can name any address as its own",
            "set api.trusted_proxies to the address of the proxy",
        )
    faults = _forwarded_faults(config)
    for fault, advice in FORWARDED.items():
        if faults.get(fault):
            what = f"proxies: requests {advice[0]}, {faults[fault]:,.0f} since the api started"
            yield warn(what, advice[1])
    if not wide and not any(faults.values()):
        yield ok(f"proxies: {', '.join(api.trusted_proxies)}")


FORWARDED: Final = {
    "missing": (
        "came from a trusted proxy without X-Forwarded-For",
        "configure the proxy to set X-Forwarded-For to the address of the client",
    ),
    "unreadable": (
        "came with an X-Forwarded-For whose last entry is no address",
        "configure the proxy to write an IP address there, and no host name, `unknown` or `for=`",
    ),
}
FAULT: Final = re.compile(
    r'^mintscope_forwarded_faults_total\{fault="(\w+)"\} (\S+)$', re.MULTILINE
)


def _forwarded_faults(config: Config) -> dict[str, float]:
    metrics = config.metrics
    answer = _get(metrics.host, metrics.api_port, "/metrics") if metrics.enabled else None
    found = [] if answer is None else FAULT.findall(answer.text)
    return {fault: float(count) for fault, count in found}


def check_pages(config: Config) -> Iterator[Finding]:
    """Check the address of the web pages: forms work there, and passwords are sent encrypted."""
    api = config.api
    if not config.web.enabled:
        yield ok("pages: not served; set web.enabled to serve them")
        return
    origin = origins_of(api.origin, api.host, api.port)[0]
    if api.origin is None and not is_loopback(api.host):
        yield warn(
            f"pages: forms are accepted from {origin} only",
            "set api.origin to the address in the browser",
        )
    elif not origin.startswith("https://") and not is_loopback(urlsplit(origin).hostname or ""):
        yield warn(
            f"pages: {origin} sends passwords without encryption, and browsers reject its session"
            " cookie",
            "serve them behind a TLS proxy, and set api.origin to its https address",
        )
    else:
        yield ok(f"pages: {origin}")


def check_mail(config: Config) -> Iterator[Finding]:
    """Check the mail server, the sender, and the origin of links in e-mails."""
    mail = config.mail
    if mail.delivery == "none":
        yield warn(
            "mail: e-mails stay in the outbox: agents cannot confirm applications, and people"
            " cannot reset passwords",
            "set mail.delivery",
        )
        return
    if mail.delivery == "page":
        yield ok("mail: e-mails are shown at /mailbox, to everyone on this machine")
        return
    yield from _check_addresses(config)
    where = f"{mail.host}:{mail.port}"
    why = asyncio.run(mail_server_trouble(mail))
    if why is not None:
        fix = "see mail.host, mail.port, mail.security, mail.username, mail.timeout_s"
        yield fail(f"mail: {where} cannot be used: {why}", fix)
    else:
        who = f", signed in as {mail.username}" if mail.username else ""
        yield ok(f"mail: {where} accepts e-mails, {mail.security}{who}")


def _check_addresses(config: Config) -> Iterator[Finding]:
    origin = config.api.origin or f"http://{config.api.host}:{config.api.port}"
    address = urlsplit(origin)
    is_here = is_loopback(address.hostname or "")
    what = f"mail: the links in e-mails begin with {origin}"
    if config.api.origin is None:
        yield warn(what, "set api.origin to the address clients use")
    elif address.scheme != "https" and not is_here:
        yield warn(f"{what}: anyone on the network can read them", "serve the pages over https")
    domain = config.mail.sender.rpartition("@")[2]
    if domain == "localhost" and not is_here:
        yield warn(
            f"mail: the sender is {config.mail.sender}, which other mail servers refuse",
            "set mail.sender to an address the mail server may send from",
        )


def check_signals(config: Config) -> Iterator[Finding]:
    """Check that alerts are evaluated, and that no client can send webhooks to this machine."""
    signals = config.signals
    api = config.api
    hosts = [api.host] if api.origin is None else [api.host, urlsplit(api.origin).hostname or ""]
    is_here = all(map(is_loopback, hosts))
    if not signals.enabled:
        yield warn("signals: alerts are stored, but do not fire", "set signals.enabled")
    elif signals.webhook_loopback and not is_here:
        yield warn(
            f"signals: clients of {hosts[-1]} can send webhooks to this machine",
            "unset signals.webhook_loopback",
        )
    else:
        yield ok(f"signals: up to {signals.per_account_max} an account, webhooks are sent")


def check_surfaces(config: Config) -> Iterator[Finding]:
    """Check that the public service has the documents and answers that API catalogs require.

    Yields one finding for each fault, or a single finding if there is no fault.
    """
    origin = config.api.origin
    if origin is None:
        yield ok("surfaces: not checked; set api.origin so that directories can list the service")
        return
    expected = Expected(
        has_sales=config.payments.enabled,
        has_contact=config.api.contact is not None,
        has_pages=config.web.enabled,
        has_mcp=config.mcp.is_served,
    )
    found = []
    try:
        with closing(Visitor(origin)) as visitor:
            for finding in look(visitor, expected):
                found.append(finding)
                yield finding
    except ServiceSilent as error:
        fix = (
            "start the service, and run doctor again; clients must reach the service at this"
            " address"
        )
        if "CERTIFICATE_VERIFY_FAILED" in str(error):  # part of OpenSSL's message
            fix = (
                "clients refuse the certificate of the service: renew it, and serve the whole chain"
            )
        yield warn(f"surfaces: {origin} does not answer: {error}", fix)
        return
    if not found:
        yield ok(
            f"surfaces: {origin} meets the requirements of directories; see `mintscope listing`"
        )


def check_backups(config: Config, clock: Clock | None = None) -> Iterator[Finding]:
    """Report place and age of the newest backup; warn if it is over a day old or there is none."""
    if place_of(config, "money").is_new:
        return
    try:
        backup = newest(config)
    except UnusableStore:  # `check_money` reports this
        return
    if backup is None:
        fix = "mintscope backup --to DIR, each hour: mintscope-backup.timer of deploy/systemd"
        yield warn("backup: none is recorded", fix)
        return
    age_ms = (clock or SystemClock()).now() - backup.at
    what = f"backup: {backup.place}, {age_ms / HOUR_MS:.1f} h old"
    fix = "check that the timer runs; its log has the reason if it does not"
    yield warn(what, fix) if age_ms > DAY_MS else ok(what)
