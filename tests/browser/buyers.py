"""Actions of a buyer on purchase pages, texts of these pages, and faults of the connection."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from support.scenes.payments.shopfront import BrowserWallet, Shopfront, shopfront
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.service import bearer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lasting_shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shopfront]:
    async with shopfront(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest_asyncio.fixture(loop_scope="session")
async def buyer(chromium: Browser, shop: Shopfront) -> AsyncIterator[Visitor]:
    async with visiting(chromium, shop.site.origin) as visitor:
        yield visitor


async def begin(visitor: Visitor, wallet: BrowserWallet, bundle: int = 10) -> None:
    """Open the page that sells *bundle* credits with *wallet* installed, and select the wallet."""
    await wallet.enter(visitor.page)
    await visitor.open(f"/buy/{bundle}")
    await choose(visitor)


async def choose(visitor: Visitor) -> None:
    await visitor.page.locator("#purchase").get_by_role("button", name="Test wallet").click()


async def state(visitor: Visitor, expected: str) -> None:
    await expect(visitor.page.locator("#purchase")).to_have_attribute("data-state", expected)


async def secret_of(visitor: Visitor) -> str:
    await state(visitor, "bought")
    return await visitor.page.locator("#secret").inner_text()


async def balance(shop: Shopfront, secret: str) -> int:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{shop.site.origin}/v1/credits/balance", headers=bearer(secret))
    return int(answer.json()["data"]["balance"])


async def lose(route: Route) -> None:
    """Deliver the request of *route* with its payment, and lose the answer."""
    if route.request.method == "POST":
        await route.fetch()
        await route.abort("aborted")
    else:
        await route.continue_()


async def lose_before(route: Route) -> None:
    """Drop the request of *route*, with its payment, before it reaches the service."""
    if route.request.method == "POST":
        await route.abort("aborted")
    else:
        await route.continue_()


def forgive(visitor: Visitor, *statuses: int) -> None:
    """Expect answers with *statuses* in `visitor.mishaps`, and remove them there."""
    for status in statuses:
        reported = [each for each in visitor.mishaps if each.startswith(f"{status}: ")]
        assert reported, f"expected an answer of {status}; there were {visitor.mishaps}"
        visitor.mishaps[:] = [each for each in visitor.mishaps if each not in reported]
