"""Whether what a service shows to programs is as directories want it, and what is wrong."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from mintscope.base.solana import USDC, USDT
from mintscope.core.payments.protocol.requirement import MAINNET
from mintscope.shell.cli.directories.visitor import Visitor, object_in, terms_in
from mintscope.shell.cli.doctor.finding import Finding, warn

OPENAPI: Final = "/openapi.json"
LLMS: Final = "/llms.txt"
SKILL: Final = "/skill.md"
X402: Final = "/.well-known/x402"
CATALOG: Final = "/.well-known/api-catalog"
SECURITY: Final = "/.well-known/security.txt"
ROBOTS: Final = "/robots.txt"
SITEMAP: Final = "/sitemap.xml"
MCP: Final = "/mcp"
ICON: Final = "/favicon.ico"
MISSING: Final = "/no-such-path"
TYPES: Final[Mapping[str, str]] = {
    OPENAPI: "application/json",
    LLMS: "text/markdown",
    SKILL: "text/markdown",
    X402: "application/json",
    CATALOG: "application/linkset+json",
    SECURITY: "text/plain",
    ROBOTS: "text/plain",
    SITEMAP: "application/xml",
}
DESCRIPTION_LENGTHS: Final = range(40, 501)
PROXY: Final = "does a proxy in front change it? it must pass every path and header"
OURS: Final = "the proxy must send the whole origin to mintscope; else report this"
CONTACT: Final = "set api.contact to an address for reports of vulnerabilities"
NAMED: Final = "set api.origin to the address clients use, and restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The surfaces that are served, by the configuration."""

    has_sales: bool = True
    has_contact: bool = True
    has_pages: bool = True
    has_mcp: bool = True

    def paths(self) -> Iterator[str]:
        """Yield the surfaces that must be there."""
        for path in TYPES:
            if (path != X402 or self.has_sales) and (path != SECURITY or self.has_contact):
                yield path


def look(visitor: Visitor, expected: Expected) -> Iterator[Finding]:
    """Yield what is not as directories want it.  Raises ServiceSilent."""
    yield from _origin(visitor.origin)
    for path in expected.paths():
        yield from _surface(visitor, path)
    yield from _texts(visitor)
    yield from _crawling(visitor)
    if not expected.has_contact:
        yield _wrong(f"{SECURITY} is not served", CONTACT)
    if expected.has_sales:
        yield from _sold(visitor)
        yield from _demand(visitor)
    if expected.has_pages:
        yield from _icon(visitor)
    if expected.has_mcp and visitor.ask(MCP).status_code == httpx.codes.NOT_FOUND:
        yield _wrong(f"{MCP} is not there, which the MCP registry lists", "install the extra `mcp`")
    if visitor.ask(MISSING).status_code != httpx.codes.NOT_FOUND:
        yield _wrong("a path that does not exist is not answered 404", PROXY)


def _wrong(what: str, fix: str) -> Finding:
    return warn(f"surfaces: {what}", fix)


def _origin(origin: str) -> Iterator[Finding]:
    address = urlsplit(origin)
    host = address.hostname or ""
    if address.scheme != "https":
        fix = "serve it behind a TLS proxy, and set api.origin to its https address"
        yield _wrong(f"{origin} is not https, which every directory demands", fix)
    if "." not in host or _is_number(host):
        yield _wrong(f"{origin} is no domain name, which pay.sh and MCP's registry demand", NAMED)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _surface(visitor: Visitor, path: str) -> Iterator[Finding]:
    """Look at one path: it is there, of its type, for HEAD and for pages of others, too."""
    answer = visitor.ask(path)
    if answer.status_code != httpx.codes.OK:
        fix = CONTACT if path == SECURITY else OURS
        yield _wrong(f"{path} is answered {answer.status_code}, expected 200", fix)
        return
    kind = answer.headers.get("content-type", "none")
    if kind.partition(";")[0] != TYPES[path]:
        yield _wrong(f"{path} is {kind:.80}, expected {TYPES[path]}", PROXY)
    if answer.headers.get("access-control-allow-origin") != "*":
        yield _wrong(f"{path} cannot be read by pages of other origins (CORS)", PROXY)
    head = visitor.ask(path, "HEAD")
    if head.status_code != httpx.codes.OK:
        yield _wrong(f"HEAD {path} is answered {head.status_code}, expected 200", PROXY)
    if path != ROBOTS and visitor.origin not in answer.text:
        yield _wrong(f"{path} does not name {visitor.origin}", NAMED)


def _texts(visitor: Visitor) -> Iterator[Finding]:
    """Look at what agents and tools read."""
    for path, start in ((LLMS, "# "), (SKILL, "---\nname: ")):
        answer = visitor.ask(path)
        if answer.status_code == httpx.codes.OK and not answer.text.startswith(start):
            yield _wrong(f"{path} begins with {answer.text[:20]!r}, expected {start!r}", PROXY)
    described = visitor.document(OPENAPI)
    if not str(described.get("openapi", "")).startswith("3."):
        yield _wrong(f"{OPENAPI} is no OpenAPI document of version 3", PROXY)
    for link in _links(visitor.document(CATALOG)):
        status = visitor.ask(link).status_code if link.startswith(visitor.origin) else 0
        if status != httpx.codes.OK:
            yield _wrong(f"{CATALOG} leads to {link:.120}, which is not there", NAMED)


def _links(catalog: Mapping[str, Any]) -> list[str]:
    entries = [each for each in catalog.get("linkset", ()) if isinstance(each, dict)]
    links = [link for each in entries for link in each.get("service-desc", ())]
    return [str(link.get("href", "")) for link in links]


def _crawling(visitor: Visitor) -> Iterator[Finding]:
    lines = [line.strip() for line in visitor.ask(ROBOTS).text.splitlines()]
    if "Disallow: /" in lines:
        yield _wrong(f"{ROBOTS} keeps every crawler out", PROXY)
    if f"Sitemap: {visitor.origin}{SITEMAP}" not in lines:
        yield _wrong(f"{ROBOTS} does not name {visitor.origin}{SITEMAP}", NAMED)


def _sold(visitor: Visitor) -> Iterator[Finding]:
    """Look at the list of what is sold, and at the same in the description."""
    sold = visitor.document(X402)
    if not sold.get("resources"):
        yield _wrong(f"{X402} lists nothing that is sold", "set payments.enabled, and restart")
    paths = visitor.document(OPENAPI).get("paths", {})
    priced = [each for ways in paths.values() for each in ways.values() if _price_of(each)]
    if not priced:
        yield _wrong(f"{OPENAPI} says of no route what it costs (x-payment-info)", PROXY)
    if not {str(each.get("asset")) for each in sold.get("payment", ())} & {USDC, USDT}:
        fix = "directories other than pay.sh do not mind; else set payments.also_usdc"
        yield _wrong("neither USDC nor USDT is taken, which pay.sh demands", fix)


def _price_of(operation: Any) -> Any:
    return isinstance(operation, dict) and operation.get("x-payment-info")


def _demand(visitor: Visitor) -> Iterator[Finding]:
    """Ask for what is sold without paying, as every prober does."""
    urls = [str(each) for each in visitor.document(X402).get("resources", ())]
    url = next((each for each in urls if "/v1/token/" in each), None)
    if url is None:
        return
    path = url.removeprefix(visitor.origin)
    answer = visitor.ask(path)
    if answer.status_code != httpx.codes.PAYMENT_REQUIRED:
        fix = "is the node up and the price known? see the lines about payments"
        yield _wrong(f"{path} is answered {answer.status_code} without payment, not 402", fix)
        return
    terms = terms_in(answer)
    yield from _terms(visitor, path, terms)
    if "no-store" not in answer.headers.get("cache-control", ""):
        yield _wrong(f"the 402 of {path} may be kept by caches: no `no-store`", PROXY)
    if "error" not in object_in(answer.content):
        yield _wrong(f"the 402 of {path} has a body that does not say what to do", PROXY)
    shown = answer.headers.get("access-control-expose-headers", "").lower()
    asked = {"Access-Control-Request-Method": "GET"}
    allowed = visitor.ask(path, "OPTIONS", asked).headers.get("access-control-allow-headers", "")
    if "payment-required" not in shown or "payment-signature" not in allowed.lower():
        yield _wrong(f"pages of other origins cannot pay for {path} (CORS)", PROXY)


def _terms(visitor: Visitor, path: str, terms: Mapping[str, Any]) -> Iterator[Finding]:
    """Look at the terms of a payment, and at what they say of what is sold."""
    if terms.get("x402Version") != 2 or not terms.get("accepts"):  # noqa: PLR2004 - of x402
        fix = "let the proxy pass headers of 3.5 KB: PAYMENT-REQUIRED is one"
        yield _wrong(f"the 402 of {path} has no PAYMENT-REQUIRED of x402 version 2", fix)
        return
    networks = {str(each.get("network")) for each in terms["accepts"]}
    if networks != {MAINNET}:
        yield _wrong(f"{path} is sold on {', '.join(networks)}, not on Solana's mainnet", "a test?")
    resource = terms.get("resource") or {}
    if not str(resource.get("url", "")).startswith(f"{visitor.origin}/"):
        yield _wrong(f"the 402 of {path} names {resource.get('url')!s:.80}", NAMED)
    if len(str(resource.get("description", ""))) not in DESCRIPTION_LENGTHS:
        yield _wrong(f"the 402 of {path} does not say in 40 to 500 characters what is sold", PROXY)
    bazaar = (terms.get("extensions") or {}).get("bazaar") or {}
    if not {"info", "schema"} <= set(bazaar):
        yield _wrong(f"the 402 of {path} has no bazaar extension, which x402scan reads", PROXY)


def _icon(visitor: Visitor) -> Iterator[Finding]:
    answer = visitor.ask(ICON)
    kind = answer.headers.get("content-type", "none")
    if answer.status_code != httpx.codes.OK or not kind.startswith("image/"):
        yield _wrong(f"the icon {ICON} is answered {answer.status_code}, {kind:.40}", PROXY)
    elif answer.headers.get("cross-origin-resource-policy", "cross-origin") != "cross-origin":
        yield _wrong(f"the icon {ICON} is kept from the pages of directories", PROXY)
