"""Checks the pages: their address, and whether passwords are sent in the clear."""

from collections.abc import Iterator

from mintscope.shell.cli.doctor.finding import Finding, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.config.values import is_loopback
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
