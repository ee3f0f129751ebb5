"""Writes the files by which catalogs of APIs list a service, and checks it by their rules.

Source    pay.sh: solana-foundation/pay-skills, CONTRIBUTING.md
          MCP registry: server.schema.json of 2025-12-11
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import httpx
import typer

from mintscope import __version__
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.output import EXIT_NOT_DONE, stop
from mintscope.app.doctor.finding import Finding, warn
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.solana.blocks import USDC, USDT
from mintscope_client.transport import BoundedSyncTransport

TIMEOUT_S: Final = 10.0
ELSEWHERE: Final = "https://directory.example"  # the Origin of a page of another site


class ServiceSilent(Exception):
    """The service does not respond at its address; the message has the reason."""


class Visitor:
    """Requests each method and path of a service only once; repeats get the first response.

    A repeat with other headers gets the first response, too.  If there was no response, a repeat
    sends the request again.
    `ask` and `document` raise ServiceSilent.

    origin   the address of the service, such as `https://api.example`
    """

    def __init__(self, origin: str, transport: httpx.BaseTransport | None = None) -> None:
        self.origin = origin
        self._client = httpx.Client(
            base_url=origin,
            timeout=TIMEOUT_S,
            headers={"Origin": ELSEWHERE},
            transport=BoundedSyncTransport(transport),
        )
        self._read: dict[tuple[str, str], httpx.Response] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Return the response to a request; *path* may be a full URL of the service."""
        target = path.removeprefix(self.origin)
        if (method, target) not in self._read:
            try:
                answer = self._client.request(method, target, headers=headers)
            except httpx.HTTPError as error:
                raise ServiceSilent(f"{type(error).__name__}: {error}") from error
            self._read[method, target] = answer
        return self._read[method, target]

    def document(self, path: str) -> dict[str, Any]:
        """Return the JSON object at *path*; an empty object if there is none."""
        answer = self.ask(path)
        return object_in(answer.content) if answer.status_code == httpx.codes.OK else {}


def object_in(text: bytes) -> dict[str, Any]:
    """Return the JSON object in *text*; an empty object if *text* is not a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def terms_in(answer: httpx.Response) -> dict[str, Any]:
    """Return the payment terms in the header PAYMENT-REQUIRED, or an empty object."""
    try:
        return object_in(b64decode(answer.headers.get("payment-required", ""), validate=True))
    except ValueError:
        return {}


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
PROXY: Final = "check whether a proxy changes the response: a proxy must pass every path and header"
OURS: Final = "the proxy must send all requests of the origin to mintscope; if it does, report this"
CONTACT: Final = "set api.contact to an address for reports of vulnerabilities"
NAMED: Final = "set api.origin to the address clients use, and restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The parts that the service must have, because its configuration enables them."""

    has_sales: bool = True
    has_contact: bool = True
    has_pages: bool = True
    has_mcp: bool = True

    def paths(self) -> Iterator[str]:
        """Yield the paths of the public documents that the service must serve."""
        for path in TYPES:
            if (path != X402 or self.has_sales) and (path != SECURITY or self.has_contact):
                yield path


def look(visitor: Visitor, expected: Expected) -> Iterator[Finding]:
    """Yield a finding for each rule of public API catalogs that the service violates.

    Raises ServiceSilent if the service does not answer.
    """
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
        yield _wrong(
            f"{MCP} is not served, and the MCP registry lists it", "install the extra `mcp`"
        )
    if visitor.ask(MISSING).status_code != httpx.codes.NOT_FOUND:
        yield _wrong("a path that does not exist is not answered 404", PROXY)


def _wrong(what: str, fix: str) -> Finding:
    return warn(f"surfaces: {what}", fix)


def _origin(origin: str) -> Iterator[Finding]:
    address = urlsplit(origin)
    host = address.hostname or ""
    if address.scheme != "https":
        fix = "serve it behind a TLS proxy, and set api.origin to its https address"
        yield _wrong(f"{origin} is not https, and every directory requires https", fix)
    if "." not in host or _is_number(host):
        yield _wrong(
            f"{origin} is no domain name, and pay.sh and the MCP registry require one", NAMED
        )


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _surface(visitor: Visitor, path: str) -> Iterator[Finding]:
    """Check that *path* is served with its type to GET, HEAD, and web pages of other origins."""
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
    # `_crawling` checks the address in robots.txt.
    if path != ROBOTS and visitor.origin not in answer.text:
        yield _wrong(f"{path} does not name {visitor.origin}", NAMED)


def _texts(visitor: Visitor) -> Iterator[Finding]:
    """Check how llms.txt and skill.md begin, the OpenAPI version, and the links in the catalog."""
    for path, start in ((LLMS, "# "), (SKILL, "---\nname: ")):
        answer = visitor.ask(path)
        if answer.status_code == httpx.codes.OK and not answer.text.startswith(start):
            yield _wrong(f"{path} begins with {answer.text[:20]!r}, expected {start!r}", PROXY)
    if not str(visitor.document(OPENAPI).get("openapi", "")).startswith("3."):
        yield _wrong(f"{OPENAPI} is no OpenAPI document of version 3", PROXY)
    catalog = visitor.document(CATALOG).get("linkset", ())
    described = [each.get("service-desc", ()) for each in catalog if isinstance(each, dict)]
    for link in [str(link.get("href", "")) for links in described for link in links]:
        status = visitor.ask(link).status_code if link.startswith(visitor.origin) else 0
        if status != httpx.codes.OK:
            yield _wrong(f"{CATALOG} leads to {link:.120}, which is not served", NAMED)


def _crawling(visitor: Visitor) -> Iterator[Finding]:
    lines = [line.strip() for line in visitor.ask(ROBOTS).text.splitlines()]
    if "Disallow: /" in lines:
        yield _wrong(f"{ROBOTS} keeps every crawler out", PROXY)
    if f"Sitemap: {visitor.origin}{SITEMAP}" not in lines:
        yield _wrong(f"{ROBOTS} does not name {visitor.origin}{SITEMAP}", NAMED)


def _sold(visitor: Visitor) -> Iterator[Finding]:
    sold = visitor.document(X402)
    if not sold.get("resources"):
        yield _wrong(f"{X402} lists nothing for sale", "set payments.enabled, and restart")
    paths = visitor.document(OPENAPI).get("paths", {})
    operations = [each for ways in paths.values() for each in ways.values()]
    if not any(isinstance(each, dict) and each.get("x-payment-info") for each in operations):
        yield _wrong(f"{OPENAPI} states the cost of no route (x-payment-info)", PROXY)
    if not {str(each.get("asset")) for each in sold.get("payment", ())} & {USDC, USDT}:
        fix = "for pay.sh, set payments.also_usdc; other directories do not require it"
        yield _wrong("neither USDC nor USDT is accepted, and pay.sh requires one of them", fix)


def _demand(visitor: Visitor) -> Iterator[Finding]:
    """Request a report without a payment, as API catalogs do, and check the 402."""
    urls = [str(each) for each in visitor.document(X402).get("resources", ())]
    url = next((each for each in urls if "/v1/token/" in each), None)
    if url is None:
        return
    path = url.removeprefix(visitor.origin)
    answer = visitor.ask(path)
    if answer.status_code != httpx.codes.PAYMENT_REQUIRED:
        fix = "check whether the node answers and the price is known: see the lines about payments"
        yield _wrong(f"{path} is answered {answer.status_code} without payment, not 402", fix)
        return
    terms = terms_in(answer)
    yield from _terms(visitor, path, terms)
    if "no-store" not in answer.headers.get("cache-control", ""):
        yield _wrong(f"the 402 of {path} may be kept by caches: no `no-store`", PROXY)
    if "error" not in object_in(answer.content):
        yield _wrong(f"the 402 of {path} has a body that does not state the next step", PROXY)
    shown = answer.headers.get("access-control-expose-headers", "").lower()
    asked = {"Access-Control-Request-Method": "GET"}
    allowed = visitor.ask(path, "OPTIONS", asked).headers.get("access-control-allow-headers", "")
    if "payment-required" not in shown or "payment-signature" not in allowed.lower():
        yield _wrong(f"pages of other origins cannot pay for {path} (CORS)", PROXY)


def _terms(visitor: Visitor, path: str, terms: Mapping[str, Any]) -> Iterator[Finding]:
    if terms.get("x402Version") != 2 or not terms.get("accepts"):  # noqa: PLR2004 - of x402
        fix = "configure the proxy to pass headers of 3.5 KB: PAYMENT-REQUIRED has this size"
        yield _wrong(f"the 402 of {path} has no PAYMENT-REQUIRED of x402 version 2", fix)
        return
    networks = {str(each.get("network")) for each in terms["accepts"]}
    if networks != {MAINNET}:
        yield _wrong(f"{path} is sold on {', '.join(networks)}, not on Solana's mainnet", "a test?")
    resource = terms.get("resource") or {}
    if not str(resource.get("url", "")).startswith(f"{visitor.origin}/"):
        yield _wrong(f"the 402 of {path} names {resource.get('url')!s:.80}", NAMED)
    if len(str(resource.get("description", ""))) not in DESCRIPTION_LENGTHS:
        yield _wrong(
            f"the 402 of {path} does not describe the purchase in 40 to 500 characters", PROXY
        )
    bazaar = (terms.get("extensions") or {}).get("bazaar") or {}
    if not {"info", "schema"} <= set(bazaar):
        yield _wrong(f"the 402 of {path} has no bazaar extension, which x402scan reads", PROXY)


def _icon(visitor: Visitor) -> Iterator[Finding]:
    answer = visitor.ask(ICON)
    kind = answer.headers.get("content-type", "none")
    if answer.status_code != httpx.codes.OK or not kind.startswith("image/"):
        yield _wrong(f"the icon {ICON} is answered {answer.status_code}, {kind:.40}", PROXY)
    elif answer.headers.get("cross-origin-resource-policy", "cross-origin") != "cross-origin":
        yield _wrong(f"the icon {ICON} cannot be loaded by the pages of directories", PROXY)


TEXTS: Final = Path(__file__).parent / "texts"


def slug_of(name: str) -> str:
    """Return *name* as a URL-safe path segment in lower case; "mintscope" if nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "mintscope"


def name_of(described: Mapping[str, Any]) -> str:
    """Return the name of the service in registries, from its OpenAPI document."""
    return slug_of(str(described["info"]["title"]))


def owner_of(host: str) -> str:
    """Return the owner's name in *host*: `example` for `api.example.org`."""
    return host.split(".")[-2:][0]


def namespace_of(host: str) -> str:
    """Return *host* reversed, as `org.example.api`: the MCP registry's namespace of its owner."""
    return ".".join(reversed(host.split(".")))


def write_pay(origin: str, described: Mapping[str, Any]) -> str:
    """Return PAY.md, which describes a service to agents that pay for calls.

    origin      the URL of the service
    described   its OpenAPI document
    """
    title = str(described["info"]["title"])
    # JSON is valid YAML.
    fields = {"name": name_of(described), "title": title, "service_url": origin}
    quoted = {name: json.dumps(value) for name, value in fields.items()}
    template = (TEXTS / "pay.txt").read_text(encoding="utf-8")
    return template.format(heading=title, origin=origin, **quoted)


def write_server(
    origin: str, described: Mapping[str, Any], namespace: str, icon: str | None
) -> str:
    """Return server.json, which lists the service's MCP server in the MCP registry.

    described   the OpenAPI document
    namespace   the part of the name before the slash, such as `io.github.example`
    icon        the URL of the icon; None: no icon
    """
    document = json.loads((TEXTS / "server.json").read_bytes()) | {
        "name": f"{namespace}/{name_of(described)}",
        "title": str(described["info"]["title"]),
        "version": __version__,
        "websiteUrl": origin,
    }
    document["remotes"][0]["url"] = f"{origin}/mcp"
    if icon is not None:
        document["icons"] = [{"src": icon, "mimeType": "image/svg+xml", "sizes": ["any"]}]
    return json.dumps(document, indent=2) + "\n"


app = typer.Typer()


@app.command()
def listing(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the files; created if missing.")
    ],
    *,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address of the service, as clients reach it; by default api.origin.",
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The operator's name for pay.sh; by default made from the host name.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Namespace in the MCP registry; by default the host name backwards.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Write the files with which directories list a running service, and print their flaws.

    FOLDER/providers/OPERATOR/NAME is for a pull request to pay.sh. FOLDER/server.json is for the
    publisher tool of the MCP registry.
    """
    origin = (url or configured(config).config.api.origin or "").rstrip("/")
    host = urlsplit(origin).hostname
    if not origin.startswith(("https://", "http://")) or host is None:
        stop("expected the https address of a running service: --url, or api.origin")
    try:
        with closing(Visitor(origin)) as visitor:
            provider = folder / "providers" / slug_of(operator or owner_of(host))
            write_files(visitor, folder, provider, namespace or namespace_of(host))
            for finding in look(visitor, Expected()):
                typer.echo(finding)
    except ServiceSilent as error:
        stop(f"{origin} does not answer: {error}", EXIT_NOT_DONE)


def write_files(visitor: Visitor, folder: Path, provider: Path, namespace: str) -> None:
    """Write descriptions of the service in the formats of API catalogs, and print their paths.

    folder      the folder of server.json, which is written if the service has MCP
    provider    the parent of a folder with PAY.md and openapi.json, named after the service
    namespace   the namespace in the MCP registry
    Raises      ServiceSilent; ends the command if the service is not a mintscope
    """
    described = visitor.document(OPENAPI)
    if "paths" not in described:
        stop(f"expected the description of a mintscope at {visitor.origin}{OPENAPI}", EXIT_NOT_DONE)
    files = {
        provider / name_of(described) / "PAY.md": write_pay(visitor.origin, described),
        provider / name_of(described) / "openapi.json": visitor.ask(OPENAPI).text,
    }
    if visitor.ask(MCP).status_code != httpx.codes.NOT_FOUND:
        has_icon = visitor.ask(ICON).status_code == httpx.codes.OK
        icon = visitor.origin + ICON if has_icon else None
        server = write_server(visitor.origin, described, namespace, icon)
        files[folder / "server.json"] = server
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        typer.echo(path)
