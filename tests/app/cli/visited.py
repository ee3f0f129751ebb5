"""A shop with pages and MCP, which a test visits from another thread, as API catalogs do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import ASGIApp
from typing_extensions import override

from mintscope.app.config.config import ApiConfig, WebConfig
from mintscope.app.config.groups import McpConfig
from mintscope.app.mcp import with_mcp
from mintscope.app.site import Pages
from mintscope.app.web_api import other_limit
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import MemoryLimits
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import ORIGIN, opened

Spoil = Callable[[httpx.Request, httpx.Response], httpx.Response]
CONTACT = "mailto:security@shop.example"


@dataclass
class Visited(httpx.BaseTransport):
    """A transport that passes requests to *app*; *spoil* can change the answers."""

    app: ASGIApp
    loop: asyncio.AbstractEventLoop
    spoil: Spoil | None = None
    asked: list[httpx.Request] = field(default_factory=list)

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answering: Coroutine[Any, Any, httpx.Response] = self._answer(request)
        answer = asyncio.run_coroutine_threadsafe(answering, self.loop).result(30)
        return answer if self.spoil is None else self.spoil(request, answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app))
        async with client:
            sent = client.build_request(
                request.method, request.url, headers=request.headers, content=request.read()
            )
            found = await client.send(sent)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)


@asynccontextmanager
async def visited(world: World, *, contact: str | None = CONTACT) -> AsyncIterator[Visited]:
    """Open a shop with pages and MCP, and yield a transport to the shop."""
    config = ApiConfig(contact=contact, rate_limit_requests=10_000)
    async with opened(world, api=config) as shop:
        limits = AddressLimits(MemoryLimits(world.clock), ClientAddresses(()))
        other, accounts = other_limit(ApiConfig()), shop.service.accounts.built
        pages = Pages(WebConfig(), accounts, limits, other, world.clock, has_payments=True)
        api = shop.service.app
        both = pages.beside(api, [ORIGIN])
        async with with_mcp(McpConfig(), both, api, limits, other, world.clock) as app:
            yield Visited(app, asyncio.get_running_loop())
