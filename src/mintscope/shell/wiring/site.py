"""One listener, two applications: programs are sent to the API, people to the pages.

Administration is on the same listener, or on one of its own that knows nothing else.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit, Limits
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.protocol import Bounds
from mintscope.edges.server.server import listen, make_server, serving_beside
from mintscope.edges.web.app import create_web
from mintscope.edges.web.pages.render import Features
from mintscope.edges.web.parts import WebParts
from mintscope.shell.config.sections import WebConfig
from mintscope.shell.config.values import is_loopback
from mintscope.shell.wiring.accounts import Accounts

FORMS: Final = Limit(name="forms", count=60, window_s=60)
EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - read, not bound

log = structlog.get_logger()
API_PREFIXES: Final = ("/v1/", "/api/")
API_PATHS: Final = frozenset(("/v1", "/api", "/healthz", "/readyz", "/openapi.json"))
NOT_FOUND: Final = 404


class Site:
    """The ASGI application in front of both.

    What is nowhere is told in the words of whoever asks: a page for those who accept HTML, the
    API's envelope for everybody else.
    """

    def __init__(self, *, api: ASGIApp, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if is_for_api(scope["path"]):
            await self._api(scope, receive, send)
        elif _accepts_html(scope):
            await self._pages(scope, receive, send)
        else:
            await self._answer_program(scope, receive, send)

    async def _answer_program(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is at a path of the pages, the envelope if there is nothing."""
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
    """Say whether *path* is one of the API's, answered or not."""
    return path in API_PATHS or path.startswith(API_PREFIXES)


def _accepts_html(scope: Scope) -> bool:
    """Say whether the client is a browser: it accepts HTML, or the page's script asks for parts."""
    return any(
        (name == b"accept" and b"text/html" in value.lower()) or name == b"hx-request"
        for name, value in scope["headers"]
    )


def with_pages(  # noqa: PLR0913 - one argument for each part
    api: ASGIApp,
    web: WebConfig,
    *,
    accounts: Accounts,
    origins: Sequence[str],
    addresses: ClientAddresses,
    limits: Limits,
    clock: Clock,
) -> ASGIApp:
    """Return what answers on the listener of the API: it alone, or with the pages."""
    if not web.enabled:
        return api
    features = Features(has_administration=web.admin_port is None)
    pages = _pages(features, accounts, origins, addresses, limits, clock)
    return Site(api=api, pages=pages)


@asynccontextmanager
async def serving_administrators(  # noqa: PLR0913 - one argument for each part
    web: WebConfig,
    *,
    accounts: Accounts,
    addresses: ClientAddresses,
    limits: Limits,
    clock: Clock,
    bounds: Bounds,
) -> AsyncIterator[None]:
    """Serve administrators on a listener of their own beside the block, if there is to be one.

    Raises    OSError for an address in use
    """
    if not web.enabled or web.admin_port is None:
        yield
        return
    listener = listen(web.admin_host, web.admin_port)
    host, port = listener.getsockname()[:2]
    origins = origins_of(None, host, port)
    app = administration(
        accounts=accounts, origins=origins, addresses=addresses, limits=limits, clock=clock
    )
    server = make_server(app, clock=clock, addresses=addresses, bounds=bounds)
    async with serving_beside(server, listener):
        log.info("serving administrators", address=origins[0])
        yield


def administration(
    *,
    accounts: Accounts,
    origins: Sequence[str],
    addresses: ClientAddresses,
    limits: Limits,
    clock: Clock,
) -> ASGIApp:
    """Return what answers on a listener of its own for administrators."""
    return _pages(Features(has_people=False), accounts, origins, addresses, limits, clock)


def origins_of(configured: str | None, host: str, port: int) -> list[str]:
    """Return the addresses at which people see the pages, the one for letters first.

    Without a configured one, they are those that reach *host* from this machine.
    """
    if configured is not None:
        return [configured]
    if host in EVERY_ADDRESS:
        host = "127.0.0.1"
    named = f"[{host}]" if ":" in host else host
    names = [named, "localhost"] if is_loopback(host) else [named]
    return [f"http://{name}:{port}" for name in dict.fromkeys(names)]


def _pages(  # noqa: PLR0913, PLR0917 - one argument for each part
    features: Features,
    accounts: Accounts,
    origins: Sequence[str],
    addresses: ClientAddresses,
    limits: Limits,
    clock: Clock,
) -> ASGIApp:
    desks = WebParts(
        people=accounts.people,
        signup=accounts.signup,
        keys=accounts.keys,
        review=accounts.review,
        mailbox=accounts.mailbox,
    )
    return create_web(
        desks=desks,
        origins=origins,
        clock=clock,
        client=addresses.key,
        limiter=limits.limiter(FORMS),
        features=features,
    )
