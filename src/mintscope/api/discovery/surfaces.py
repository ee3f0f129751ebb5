"""Documents by which API catalogs and crawlers discover the API.

Sources   SEP-2127 (MCP Server Cards) and its discovery document; Agent Skills Discovery 0.2.0
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from mintscope import __version__
from mintscope.api.discovery import guide
from mintscope.api.discovery.bazaar import Adverts
from mintscope.api.discovery.downloads import (
    is_built,
    tarball_name,
    wheel_name,
    write_tarball,
    write_types,
    write_wheel,
)
from mintscope.api.discovery.guide import MCP
from mintscope.api.discovery.openapi import Identity, describe, parameters_of, payment_info
from mintscope.api.discovery.operation import Operation
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import compress, etag_of
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import JSON, PLAIN, Header, Response
from mintscope.kit.http.routes import Route
from mintscope.kit.primitives import UnixMs
from mintscope.payments.merchant import Merchant, did_document
from mintscope.payments.protocol.envelope import SCHEME, Terms

SECURITY_DAYS: Final = 180  # RFC 9116 recommends an expiry within a year
# Pages for people that are the same for everyone; the pages of tokens and endpoints are not here.
PAGES: Final = (
    *("/", "/tokens", "/pricing", "/status"),
    *("/docs", "/docs/indicators", "/docs/errors", "/docs/changelog"),
)


def example_target(operation: Operation) -> str:
    """Return the path and query of an example call of *operation*, ready to send."""
    path = operation.path
    query = []
    for each in parameters_of(operation):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", str(each["example"]))
        elif each["in"] == "query" and each["required"] and "example" in each:
            query.append(urlencode({each["name"]: each["example"]}))
    return path + ("?" + "&".join(query) if query else "")


def write_x402(
    operations: Sequence[Operation], identity: Identity, terms: Sequence[Terms], adverts: Adverts
) -> bytes:
    """Return the document that lists, for x402 clients and catalogs, all routes that can be paid.

    The catalog x402scan reads `resources`; clients read the other fields.

    Source   x402scan, docs/DISCOVERY.md; draft-hawkins-x402-dns-discovery
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
    """Return the contact for vulnerabilities, valid for SECURITY_DAYS from the day of *now*.

    Source    RFC 9116
    """
    # From the start of the day, so that the document and its entity tag change once a day.
    today = datetime.fromtimestamp(now // 1000, UTC).replace(hour=0, minute=0, second=0)
    ends = (today + timedelta(days=SECURITY_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"Contact: {identity.contact}\nExpires: {ends}\nPreferred-Languages: en\n"
        f"Canonical: {identity.origin}/.well-known/security.txt\n"
    ).encode()


def write_robots(identity: Identity) -> bytes:
    """Return the rules for crawlers: they may read all paths except those of the API."""
    allowed = ("/$", "/llms.txt", "/skill.md", "/openapi.json", "/.well-known/", "/sitemap.xml")
    lines = ["User-agent: *", *(f"Allow: {path}" for path in allowed)]
    lines += ["Disallow: /v1/", "Disallow: /api/", f"Sitemap: {identity.origin}/sitemap.xml"]
    return ("\n".join(lines) + "\n").encode()


def write_sitemap(identity: Identity, paths: Sequence[str]) -> bytes:
    """Return the sitemap; *paths* are the paths of the documents for discovery."""
    all_paths = [*PAGES, *paths] if identity.has_pages else paths
    entries = "".join(f"<url><loc>{identity.origin}{path}</loc></url>" for path in all_paths)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>\n'
    ).encode()


SERVER_CARD: Final = f"{MCP}/server-card"
AI_CATALOG: Final = "/.well-known/ai-catalog.json"
SKILLS: Final = "/.well-known/agent-skills/index.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
SKILLS_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
DESCRIPTION_LENGTH_MAX: Final = 100  # characters in the description of a server card


def write_server_card(identity: Identity) -> bytes:
    """Return the MCP Server Card: the identity and the URL of the MCP server."""
    card: dict[str, Any] = {
        "$schema": CARD_SCHEMA,
        "name": _name(identity),
        "version": __version__,
        "title": identity.name,
        "description": _first_sentence(identity.description),
        "websiteUrl": identity.origin,
        "remotes": [
            {
                "type": "streamable-http",
                "url": identity.origin + MCP,
                "headers": [
                    {
                        "name": "Authorization",
                        "description": "Bearer and a credit token or an API key; free tools and"
                        " x402 payments need none.",
                        "isRequired": False,
                        "isSecret": True,
                    }
                ],
            }
        ],
    }
    return msgspec.json.encode(card)


def write_ai_catalog(identity: Identity, paths: Collection[str]) -> bytes:
    """Return the catalogue of resources for agents; *paths* are the served paths."""
    origin = identity.origin
    entries = [
        _entry("api", "The API", f"{origin}/openapi.json", "application/openapi+json"),
        _entry("guide", "How to use it", f"{origin}/llms.txt", "text/markdown"),
        _entry("skills", "Skills of agents", origin + SKILLS, "application/json"),
    ]
    if MCP in paths:
        entries.append(_entry("mcp", "MCP server", origin + SERVER_CARD, CARD_TYPE))
    host = {"displayName": identity.name, "identifier": urlsplit(origin).hostname or origin}
    return msgspec.json.encode({"specVersion": "1.0", "host": host, "entries": entries})


def write_skills(identity: Identity, skill: bytes, path: str) -> bytes:
    """Return the JSON index of agent skills, whose only entry is *skill* (Markdown) at *path*."""
    head = skill.decode().split("---\n")[1]
    described = dict(line.split(": ", 1) for line in head.strip().splitlines())
    listed = {
        "name": _slug(identity.name),
        "type": "skill-md",
        "description": described["description"],
        "url": path,
        "digest": f"sha256:{sha256(skill).hexdigest()}",
    }
    return msgspec.json.encode({"$schema": SKILLS_SCHEMA, "skills": [listed]})


def _entry(name: str, title: str, url: str, media_type: str) -> dict[str, str]:
    return {"identifier": name, "displayName": title, "mediaType": media_type, "url": url}


def _name(identity: Identity) -> str:
    """Return the MCP server's name, for example `com.example.api/mintscope`."""
    host = urlsplit(identity.origin).hostname or "localhost"
    return f"{'.'.join(reversed(host.split('.')))}/{_slug(identity.name)}"


def _slug(name: str) -> str:
    """Return the runs of a-z and 0-9 in *name*, in lower case, joined by hyphens, or "service"."""
    kept = "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "service"


def _first_sentence(text: str) -> str:
    sentence = text.partition(". ")[0].rstrip(".") + "."
    return sentence if len(sentence) <= DESCRIPTION_LENGTH_MAX else sentence[:99] + "."


MARKDOWN: Final[Header] = (b"content-type", b"text/markdown; charset=utf-8")
XML: Final[Header] = (b"content-type", b"application/xml; charset=utf-8")
LINKSET: Final[Header] = (
    b"content-type",
    b'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
)
ZIP: Final[Header] = (b"content-type", b"application/zip")
TAR: Final[Header] = (b"content-type", b"application/gzip")
CACHED: Final[Header] = (b"cache-control", b"public, max-age=300")

OPENAPI: Final = "/openapi.json"
LLMS: Final = "/llms.txt"
SKILL: Final = "/skill.md"
X402: Final = "/.well-known/x402"
DID: Final = "/.well-known/did.json"
CATALOG: Final = "/.well-known/api-catalog"
SECURITY: Final = "/.well-known/security.txt"
ROBOTS: Final = "/robots.txt"
SITEMAP: Final = "/sitemap.xml"
WHEEL: Final = f"/client/{wheel_name(__version__)}"
TARBALL: Final = f"/client/{tarball_name(__version__)}"
CLIENTS: Final = (WHEEL, TARBALL)
OF_CATALOG: Final[Header] = (b"link", f'<{CATALOG}>; rel="api-catalog"'.encode())  # RFC 9727 sec. 2
DID_TYPE: Final[Header] = (b"content-type", b"application/did+json")
SERVER_CARD_TYPE: Final[Header] = (b"content-type", CARD_TYPE.encode())
AI_CATALOG_TYPE: Final[Header] = (b"content-type", CATALOG_TYPE.encode())
PATHS: Final = (
    OPENAPI, LLMS, SKILL, X402, DID, CATALOG, AI_CATALOG, SKILLS, SERVER_CARD, SECURITY, ROBOTS,
    SITEMAP,
)  # fmt: skip


class Surface:
    """A document that is created and compressed at its first request."""

    def __init__(self, content_type: Header, write: Callable[[], bytes], *more: Header) -> None:
        self._headers = (content_type, CACHED, *more)
        self._write = write

    @cached_property
    def _body(self) -> bytes:
        return self._write()

    @cached_property
    def _gzipped(self) -> bytes | None:
        return compress(self._body)

    async def get(self, _request: Request) -> Response:
        """Return the document, without an envelope."""
        body = self._body
        return Response(200, body, self._headers, etag=etag_of(body), gzipped=self._gzipped)


class Surfaces:
    """The documents by which programs discover the service, such as /llms.txt and /openapi.json.

    operations   the operations to describe
    other        paths that are served in addition to these documents, such as that of MCP
    merchant     sells the operations; None if nothing is for sale
    """

    def __init__(  # noqa: PLR0913 - one argument for each fact
        self,
        operations: Sequence[Operation],
        *,
        identity: Identity,
        adverts: Adverts,
        merchant: Merchant | None,
        clock: Clock,
        other: Iterable[str] = (),
    ) -> None:
        self._operations = operations
        self._identity = identity
        self._adverts = adverts
        self._terms = () if merchant is None else [each.terms for each in merchant.payment_tokens]
        self._receipt_keys = () if merchant is None else merchant.receipt_keys()
        self._clock = clock
        self._other = tuple(other)
        self._paths = [*(path for path in PATHS if self._is_served(path)), *self._other]

    def routes(self) -> Sequence[Route]:
        """Return one route for each document, and for each client for download."""
        identity = self._identity
        operations = self._operations
        paths = self._paths
        # The documents are the first paths; the others, such as MCP, are not for crawlers.
        described = self._paths[: sum(path in PATHS for path in paths)]
        surfaces = {
            OPENAPI: Surface(JSON, lambda: msgspec.json.encode(describe(operations, identity))),
            LLMS: Surface(
                MARKDOWN, lambda: guide.write_index(operations, identity, paths, CLIENTS)
            ),
            SKILL: Surface(MARKDOWN, self._skill),
            X402: Surface(
                JSON,
                lambda: write_x402(operations, identity, self._terms, self._adverts),
            ),
            DID: Surface(
                DID_TYPE,
                lambda: msgspec.json.encode(did_document(identity.origin, self._receipt_keys)),
            ),
            CATALOG: Surface(LINKSET, lambda: write_catalog(identity, paths), OF_CATALOG),
            AI_CATALOG: Surface(AI_CATALOG_TYPE, lambda: write_ai_catalog(identity, paths)),
            SKILLS: Surface(JSON, lambda: write_skills(identity, self._skill(), SKILL)),
            SERVER_CARD: Surface(SERVER_CARD_TYPE, lambda: write_server_card(identity)),
            ROBOTS: Surface(PLAIN, lambda: write_robots(identity)),
            SITEMAP: Surface(XML, lambda: write_sitemap(identity, described)),
        }
        routes = [
            Route("GET", path, surface.get)
            for path, surface in surfaces.items()
            if self._is_served(path)
        ]
        routes += self._clients()
        if self._is_served(SECURITY):
            routes.append(Route("GET", SECURITY, self._get_security))
        return routes

    def _skill(self) -> bytes:
        return guide.write_skill(self._operations, self._identity, self._paths, CLIENTS)

    def _clients(self) -> list[Route]:
        """Return the routes that serve the client's wheel and, if it is built, its npm package."""
        operations = self._operations
        identity = self._identity
        wheel = Surface(ZIP, lambda: write_wheel(__version__))
        tarball = Surface(
            TAR,
            lambda: write_tarball(__version__, write_types(describe(operations, identity))),
        )
        routes = [Route("GET", WHEEL, wheel.get)]
        if is_built():
            routes.append(Route("GET", TARBALL, tarball.get))
        return routes

    async def _get_security(self, _request: Request) -> Response:
        body = write_security(self._identity, self._clock.now())
        return Response(200, body, (PLAIN, CACHED), etag=etag_of(body))

    def _is_served(self, path: str) -> bool:
        if path == SECURITY:
            return self._identity.contact is not None
        if path == SERVER_CARD:
            return MCP in self._other
        # Without a merchant, nothing is sold by x402, and no key signs receipts.
        return bool(self._terms) or path not in {X402, DID}
