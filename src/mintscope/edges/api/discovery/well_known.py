"""/.well-known/: what directories and crawlers read, each in the form that they ask for."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.payments.protocol.requirement import SCHEME, Terms
from mintscope.edges.api.description.bazaar import Adverts
from mintscope.edges.api.description.identity import Identity
from mintscope.edges.api.description.openapi import parameters_of, payment_info
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.discovery.guide import MCP

SECURITY_DAYS: Final = 180  # RFC 9116 wants an end that is less than a year away
# Pages for people that are the same for everyone, beside those of single tokens and endpoints.
PAGES: Final = (
    *("/", "/tokens", "/pricing", "/status"),
    *("/docs", "/docs/indicators", "/docs/errors", "/docs/changelog"),
)


def example_target(operation: Operation) -> str:
    """Return the path and query of a call of *operation* that can be sent as it is."""
    path = operation.path
    query = []
    for each in parameters_of(operation):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", str(each["example"]))
        elif each["in"] == "query" and each["required"] and "example" in each:
            query.append(f"{each['name']}={each['example']}")
    return path + ("?" + "&".join(query) if query else "")


def write_x402(
    operations: Sequence[Operation], identity: Identity, terms: Sequence[Terms], adverts: Adverts
) -> bytes:
    """Return what is sold by x402: `resources` as x402scan reads it, the rest for clients.

    Source    x402scan, docs/DISCOVERY.md; draft-hawkins-x402-dns-discovery
    """
    sold = [each for each in operations if each.is_payable]
    urls = [identity.origin + example_target(each) for each in sold]
    document: dict[str, Any] = {
        "version": 1,
        "x402Version": 2,
        "name": identity.name,
        "description": identity.description,
        "openapi": f"{identity.origin}/openapi.json",
        "instructions": f"{identity.origin}/llms.txt",
        "resources": urls,
        "payment": [
            {
                "scheme": SCHEME,
                "network": each.network,
                "asset": each.asset,
                "decimals": each.decimals,
                "payTo": each.pay_to,
            }
            for each in terms
        ],
        "endpoints": [_endpoint(each, url, adverts) for each, url in zip(sold, urls, strict=True)],
    }
    return msgspec.json.encode(document)


def _endpoint(operation: Operation, url: str, adverts: Adverts) -> dict[str, Any]:
    advert = adverts.find_whole(operation.method, operation.path)
    return {
        "method": operation.method,
        "url": url,
        "path": operation.path,
        "description": operation.description or operation.summary,
        "mimeType": "application/json",
        "price": payment_info(operation.price)["price"],
    } | ({} if advert is None else {"extensions": {"bazaar": advert.bazaar}})


def write_catalog(identity: Identity, paths: Sequence[str]) -> bytes:
    """Return the catalogue of the APIs of this host.  Source: RFC 9727, RFC 9264 (linkset)."""
    origin = identity.origin
    links = {
        "service-desc": [_link(origin, "/openapi.json", "application/openapi+json")],
        "service-doc": [_link(origin, "/llms.txt", "text/markdown")],
        "service-meta": [_link(origin, "/.well-known/x402", "application/json")],
        "status": [_link(origin, "/v1/health", "application/json")],
    }
    linkset = [{"anchor": f"{origin}/v1/"} | links]
    if MCP in paths:
        doc = [_link(origin, "/llms.txt", "text/markdown")]
        linkset.append({"anchor": f"{origin}{MCP}", "service-doc": doc})
    return msgspec.json.encode({"linkset": linkset})


def _link(origin: str, path: str, media_type: str) -> dict[str, str]:
    return {"href": origin + path, "type": media_type}


def write_security(identity: Identity, now: UnixMs) -> bytes:
    """Return the contact for vulnerabilities, good for some months from the day of *now*.

    Source    RFC 9116
    """
    today = datetime.fromtimestamp(now // 1000, UTC).replace(hour=0, minute=0, second=0)
    ends = (today + timedelta(days=SECURITY_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"Contact: {identity.contact}\nExpires: {ends}\nPreferred-Languages: en\n"
        f"Canonical: {identity.origin}/.well-known/security.txt\n"
    ).encode()


def write_robots(identity: Identity) -> bytes:
    """Return what crawlers may read: descriptions, and nothing that is counted or paid for."""
    allowed = ("/$", "/llms.txt", "/skill.md", "/openapi.json", "/.well-known/", "/sitemap.xml")
    lines = ["User-agent: *", *(f"Allow: {path}" for path in allowed)]
    lines += ["Disallow: /v1/", "Disallow: /api/", f"Sitemap: {identity.origin}/sitemap.xml"]
    return ("\n".join(lines) + "\n").encode()


def write_sitemap(identity: Identity, paths: Sequence[str]) -> bytes:
    """Return the addresses worth reading; *paths* are those of the descriptions."""
    all_paths = [*PAGES, *paths] if identity.has_pages else paths
    entries = "".join(f"<url><loc>{identity.origin}{path}</loc></url>" for path in all_paths)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>\n'
    ).encode()
