"""A page of another origin pays with the official client, in Chromium."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from starlette.middleware.cors import CORSMiddleware

from support.fakes.reports import TRACKED
from support.processes.listening import listening
from support.scenes.payments.module_server import page_of_modules
from support.scenes.payments.payment_world import World, world_at
from support.scenes.payments.shop_at_its_address import shop_at_its_address

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE: Final = Path(__file__).resolve().parent
PROGRAM: Final = (HERE / "pay_from_another_origin.js").read_text()
BUNDLE_ATOMS = 25_000
REQUEST_ATOMS = 2_500


@pytest_asyncio.fixture(loop_scope="session")
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as world:
        yield world


async def test_the_official_client_pays_in_a_page_of_another_origin(
    chromium: Browser, world: World
) -> None:
    node = CORSMiddleware(world.node, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    async with shop_at_its_address(world) as (origin, _), listening(node) as rpc_url:
        await world.chains[-1].refresh_offer()
        with page_of_modules(HERE / "node_modules", PROGRAM) as other:
            context = await chromium.new_context()
            page = await context.new_page()
            mishaps: list[str] = []
            page.on("pageerror", lambda error: mishaps.append(str(error)))
            page.on("console", lambda message: mishaps.append(message.text))
            await page.goto(other)
            await page.wait_for_function("window.pay !== undefined", timeout=20_000)
            asked = {
                "origin": origin,
                "secret": str(world.buyer),
                "rpcUrl": rpc_url,
                "mint": TRACKED,
            }
            read, bought, lost = await page.evaluate("(asked) => window.pay(asked)", asked)
            await context.close()

    assert other != origin
    assert (read["status"], bought["status"], lost["status"]) == (200, 201, 400), mishaps
    assert read["body"]["data"]["token"] == TRACKED
    assert bought["body"]["data"]["token"].startswith("svc_credit_")
    assert None not in {read["receipt"], bought["receipt"]}
    assert lost["body"]["error"]["code"] == "INVALID_TOKEN_ADDRESS"
    assert world.received() == BUNDLE_ATOMS + REQUEST_ATOMS
