"""Visits the running service as directories do, where they can reach it."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from mintscope.shell.cli.directories.surfaces import Expected, look
from mintscope.shell.cli.directories.visitor import ServiceSilent, Visitor
from mintscope.shell.cli.doctor.finding import Finding, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.mcp.serving import has_mcp

UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"  # in messages of OpenSSL


def check_surfaces(config: Config) -> Iterator[Finding]:
    """Say of each description whether it is as directories want it; one line if all are."""
    origin = config.api.origin
    if origin is None:
        yield ok("surfaces: not looked at; set api.origin to be found by directories")
        return
    found = []
    try:
        with closing(Visitor(origin)) as visitor:
            for finding in look(visitor, expected_of(config)):
                found.append(finding)
                yield finding
    except ServiceSilent as error:
        fix = "start it, and run doctor again; clients must reach it there"
        if UNTRUSTED in str(error):
            fix = "clients refuse its certificate: renew it, and serve the whole chain"
        yield warn(f"surfaces: {origin} does not answer: {error}", fix)
        return
    if not found:
        yield ok(f"surfaces: {origin} is as directories want it; see `mintscope listing`")


def expected_of(config: Config) -> Expected:
    """Return what the configuration says is served."""
    return Expected(
        has_sales=config.payments.enabled,
        has_contact=config.api.contact is not None,
        has_pages=config.web.enabled,
        has_mcp=has_mcp(config.mcp),
    )
