"""Checks what people see and get: the address of the pages, e-mails, alerts."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

from mintscope.shell.cli.doctor.finding import Finding, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import MailConfig
from mintscope.shell.config.values import is_loopback
from mintscope.shell.wiring.accounts import mail_server_trouble
from mintscope.shell.wiring.site import origins_of


def check_pages(config: Config) -> Iterator[Finding]:
    """Check the origin of forms, and whether passwords cross a network in the clear."""
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
    elif not origin.startswith("https://") and not is_loopback(api.host):
        yield warn(
            f"pages: {origin} sends passwords in the clear, and browsers drop its session cookie",
            "serve them behind a TLS proxy, and set api.origin to its https address",
        )
    else:
        yield ok(f"pages: {origin}")


def check_mail(config: Config) -> Iterator[Finding]:
    """Check where e-mails go, their sender, and what their links begin with."""
    mail = config.mail
    if mail.delivery == "none":
        yield warn(
            "mail: e-mails stay in the outbox: agents cannot confirm, nor people reset a password",
            "set mail.delivery",
        )
        return
    if mail.delivery == "page":
        yield ok("mail: e-mails are shown at /mailbox, to everyone on this machine")
        return
    yield from _check_addresses(config)
    yield _check_server(mail)


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


def _check_server(mail: MailConfig) -> Finding:
    where = f"{mail.host}:{mail.port}"
    why = asyncio.run(mail_server_trouble(mail))
    if why is not None:
        return fail(
            f"mail: {where} cannot be used: {why}",
            "see mail.host, mail.port, mail.security, mail.username, mail.timeout_s",
        )
    who = f", signed in as {mail.username}" if mail.username else ""
    return ok(f"mail: {where} accepts e-mails, {mail.security}{who}")


def check_signals(config: Config) -> Iterator[Finding]:
    """Check whether alert rules are looked at, and where their webhooks may go."""
    signals = config.signals
    api = config.api
    hosts = [api.host] if api.origin is None else [api.host, urlsplit(api.origin).hostname or ""]
    is_here = all(map(is_loopback, hosts))
    if not signals.enabled:
        yield warn("signals: alert rules are kept, and fire nothing", "set signals.enabled")
    elif signals.webhook_loopback and not is_here:
        yield warn(
            f"signals: webhooks may go to this machine, and clients of {hosts[-1]} say where",
            "unset signals.webhook_loopback",
        )
    else:
        yield ok(f"signals: up to {signals.per_account_max} an account, webhooks are sent")
