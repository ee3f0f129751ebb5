"""A shop behind a real server, whose origin is the address of the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from support.processes.listening import listening
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, opened


@asynccontextmanager
async def shop_at_its_address(
    world: World, **changes: Any
) -> AsyncIterator[tuple[str, SellingApi]]:
    """Yield the address of a shop, which is also its origin, and the shop.

    changes   options of its facilitator
    """
    app: ASGIApp | None = None

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        assert app is not None
        await app(scope, receive, send)

    async with listening(door) as origin, opened(world, origin=origin, **changes) as shop:
        app = shop.service.app
        yield origin, shop
