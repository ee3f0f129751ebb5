"""One listener for two applications: programs get the API, and people get the pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mintscope.api.checkout import open_checkout
from mintscope.api.discovery.openapi import Identity, describe
from mintscope.api.discovery.operation import Operation
from mintscope.api.discovery.surfaces import PATHS as DESCRIPTIONS
from mintscope.api.failures import write_refusal
from mintscope.api.x402 import bundle_resource
from mintscope.app.accounts import Accounts
from mintscope.app.config.config import WebConfig
from mintscope.app.config.values import origins_of
from mintscope.app.web_api import CORS
from mintscope.app.web_site import create_web
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import HttpApplication, make_server, serving_beside
from mintscope.kit.http.listening import listen, naming_setting
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import Limit
from mintscope.mcp.calls import CORS as MCP_CORS
from mintscope.payments.merchant import Merchant
from mintscope.site.render import NO_OPERATOR, Features
from mintscope.site.sales.selling import CreditSales

log = structlog.get_logger()
API_PREFIXES: Final = ("/v1/", "/api/", "/.well-known/", "/client/")
API_PATHS: Final = frozenset(("/v1", "/api", "/healthz", "/readyz", *DESCRIPTIONS))
NOT_FOUND: Final = 404
write_open_refusal: Final = partial(write_refusal, cors=(CORS, MCP_CORS))
"""Returns the response to a request that the listener of the API refuses.

Pages of other origins may read it if the path of the request is in CORS or MCP_CORS.
"""


class Site:
    """Passes each request to the API or to the web pages, which share one listener.

    Paths of the API go to the API.  Other paths go to the pages if a browser asks or if there is a
    page, else to the API.
    """

    def __init__(self, *, api: ASGIApp, pages: ASGIApp, has_page: Callable[[str], bool]) -> None:
        self._api = api
        self._pages = pages
        self._has_page = has_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request to the API or to the pages."""
        if is_for_api(scope["path"]):
            await self._api(scope, receive, send)
        elif _accepts_html(scope):
            await self._pages(scope, receive, send)
        elif self._has_page(scope["path"]):
            await self._answer_program(scope, receive, send)
        else:
            await self._api(scope, receive, send)

    async def _answer_program(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the page at the path of *scope*; without such a page, as the API does."""
        is_missing = False

        async def send_what_is_there(message: Message) -> None:
            nonlocal is_missing
            if message["type"] == "http.response.start":
                is_missing = message["status"] == NOT_FOUND
            if not is_missing:
                await send(message)

        await self._pages(scope, receive, send_what_is_there)
        if is_missing:
            await self._api(scope, receive, send)


def is_for_api(path: str) -> bool:
    """Return whether *path* belongs to the API, even if there is no route for it."""
    return path in API_PATHS or path.startswith(API_PREFIXES)


def _accepts_html(scope: Scope) -> bool:
    """Return whether a browser sent the request: it accepts HTML, or comes from htmx."""
    return any(
        (name == b"accept" and b"text/html" in value.lower()) or name == b"hx-request"
        for name, value in scope["headers"]
    )


@dataclass(frozen=True, slots=True)
class Pages:
    """Creates the web pages: those beside the API, and administrators' pages on their own port."""

    web: WebConfig
    parts: Accounts
    limits: AddressLimits
    other_limit: Limit
    clock: Clock
    has_payments: bool = False

    def beside(self, api: ASGIApp, origins: Sequence[str]) -> ASGIApp:
        """Return *api*, or if pages are enabled, an application that serves *api* and the pages."""
        if not self.web.enabled:
            return api
        features = Features(
            has_administration=self.web.admin_port is None,
            has_payments=self.has_payments or self.parts.sales is not None,
            demo_wallet_seed=self.web.demo_wallet_seed,
        )
        pages = self._create(features, origins, described(api, origins[0]))
        return Site(api=api, pages=pages, has_page=lambda path: path in pages.router)

    def administration(self, origins: Sequence[str]) -> HttpApplication:
        """Return the application that serves the administrators' pages on a port of their own."""
        return self._create(Features(has_people=False), origins)

    @asynccontextmanager
    async def serving_administrators(self, bounds: Bounds) -> AsyncIterator[None]:
        """Serve the administrators' pages on a separate port during the block, if configured.

        Raises OSError if the port cannot be used.
        """
        web = self.web
        if not web.enabled or web.admin_port is None:
            yield
            return
        with naming_setting("web.admin_port", "web.admin_host", web.admin_host, web.admin_port):
            listener = listen(web.admin_host, web.admin_port)
        host, port = listener.getsockname()[:2]
        origins = origins_of(None, host, port)
        server = make_server(
            self.administration(origins),
            clock=self.clock,
            addresses=self.limits.addresses,
            bounds=bounds,
            write_refusal=write_refusal,
        )
        async with serving_beside(server, listener):
            log.info("serving administrators", address=origins[0])
            yield

    def _create(
        self,
        features: Features,
        origins: Sequence[str],
        describe_api: Callable[[], Mapping[str, Any]] | None = None,
    ) -> HttpApplication:
        operations = self.parts.operations
        return create_web(
            parts=replace(self.parts, describe=describe_api),
            origins=origins,
            clock=self.clock,
            limits=self.limits,
            limit=self.other_limit,
            writes=self.parts.writes,
            features=replace(
                features,
                needs_second_factor=self.web.second_factor_for_administrators,
                operator=NO_OPERATOR if operations is None else operations.operator,
            ),
        )


def credit_sales(
    merchant: Merchant | None, ledger: CreditLedger, expect_open: Callable[[], Awaitable[None]]
) -> CreditSales | None:
    """Return the object that sells credits on the web pages; None if *merchant* is None.

    Purchases have the same names as in the API.  *expect_open* raises ServiceUnavailable if sales
    are closed.
    """
    if merchant is None:
        return None
    return CreditSales(
        checkout=open_checkout(ledger, merchant),
        merchant=merchant,
        resource=bundle_resource,
        expect_open=expect_open,
    )


def described(api: ASGIApp, origin: str) -> Callable[[], Mapping[str, Any]] | None:
    """Return a function that makes the OpenAPI document of *api*, which clients reach at *origin*.

    Return None if *api* is an application without a list of routes.
    """
    if not isinstance(api, HttpApplication):
        return None
    operations = [route for route in api.router if isinstance(route, Operation)]
    return partial(describe, operations, Identity(origin=origin))
