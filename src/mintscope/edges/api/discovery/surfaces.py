"""The descriptions that are served, each a route made of the operations; and the clients."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

from mintscope import __version__
from mintscope.base.clock import Clock
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.payments.signed_receipt import did_document
from mintscope.edges.api.description.bazaar import Adverts
from mintscope.edges.api.description.identity import Identity
from mintscope.edges.api.description.openapi import describe
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.discovery import cards, guide, index, well_known
from mintscope.edges.api.discovery.cards import AI_CATALOG, SERVER_CARD, SKILLS
from mintscope.edges.api.discovery.downloads.tarball import tarball_name, write_tarball
from mintscope.edges.api.discovery.downloads.typescript import write_types
from mintscope.edges.api.discovery.downloads.wheel import wheel_name, write_wheel
from mintscope.edges.server.content import compress, etag_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import JSON, PLAIN, Header, Response
from mintscope.edges.server.routes import Route

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
OF_CATALOG: Final[Header] = (b"link", f'<{CATALOG}>; rel="api-catalog"'.encode())  # RFC 9727, 2
DID_TYPE: Final[Header] = (b"content-type", b"application/did+json")
SERVER_CARD_TYPE: Final[Header] = (b"content-type", cards.CARD_TYPE.encode())
AI_CATALOG_TYPE: Final[Header] = (b"content-type", cards.CATALOG_TYPE.encode())
PATHS: Final = (
    OPENAPI, LLMS, SKILL, X402, DID, CATALOG, AI_CATALOG, SKILLS, SERVER_CARD, SECURITY, ROBOTS,
    SITEMAP,
)  # fmt: skip


class Surface:
    """A description, made and compressed when it is first asked for."""

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
        """Answer with the description; it needs no envelope."""
        body = self._body
        return Response(200, body, self._headers, etag=etag_of(body), gzipped=self._gzipped)


class Surfaces:
    """All descriptions of one service.

    operations    those that are described
    other         paths of what is served beside them: MCP, say
    merchant      who sells; None if nothing is sold
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing that is told
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
        """Return a route for each description that is served."""
        identity = self._identity
        operations = self._operations
        paths = self._paths
        described = self._paths[: sum(path in PATHS for path in paths)]
        surfaces = {
            OPENAPI: Surface(JSON, lambda: msgspec.json.encode(describe(operations, identity))),
            LLMS: Surface(
                MARKDOWN, lambda: index.write_index(operations, identity, paths, CLIENTS)
            ),
            SKILL: Surface(MARKDOWN, self._skill),
            X402: Surface(
                JSON,
                lambda: well_known.write_x402(operations, identity, self._terms, self._adverts),
            ),
            DID: Surface(
                DID_TYPE,
                lambda: msgspec.json.encode(did_document(identity.origin, self._receipt_keys)),
            ),
            CATALOG: Surface(
                LINKSET, lambda: well_known.write_catalog(identity, paths), OF_CATALOG
            ),
            AI_CATALOG: Surface(AI_CATALOG_TYPE, lambda: cards.write_ai_catalog(identity, paths)),
            SKILLS: Surface(JSON, lambda: cards.write_skills(identity, self._skill(), SKILL)),
            SERVER_CARD: Surface(SERVER_CARD_TYPE, lambda: cards.write_server_card(identity)),
            ROBOTS: Surface(PLAIN, lambda: well_known.write_robots(identity)),
            SITEMAP: Surface(XML, lambda: well_known.write_sitemap(identity, described)),
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
        """Return the routes of what `pip install` and `npm install` take."""
        operations = self._operations
        identity = self._identity
        wheel = Surface(ZIP, lambda: write_wheel(__version__))
        tarball = Surface(
            TAR,
            lambda: write_tarball(__version__, write_types(describe(operations, identity))),
        )
        return [Route("GET", WHEEL, wheel.get), Route("GET", TARBALL, tarball.get)]

    async def _get_security(self, _request: Request) -> Response:
        body = well_known.write_security(self._identity, self._clock.now())
        return Response(200, body, (PLAIN, CACHED), etag=etag_of(body))

    def _is_served(self, path: str) -> bool:
        if path == SECURITY:
            return self._identity.contact is not None
        if path == SERVER_CARD:
            return guide.MCP in self._other
        return bool(self._terms) or path not in {X402, DID}
