"""nginx and Caddy with their default settings pass every answer of the description."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mintscope.api.description.operation import EVENTS_TYPE, Operation
from mintscope.api.discovery.surfaces import example_target
from mintscope.kit.http.application import HttpApplication
from support.fakes.reports import TRACKED
from support.processes.stock_proxies import WAIT_S, caddy_before, nginx_before
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, demanded
from support.scenes.payments.shop_at_its_address import shop_at_its_address

pytestmark = pytest.mark.process

Before = Callable[[str, Path], AbstractContextManager[str]]
OF_ANOTHER_ORIGIN = {"origin": "https://page.example"}


@pytest.fixture(params=[nginx_before, caddy_before])
def before(request: pytest.FixtureRequest) -> Before:
    found: Before = request.param
    return found


@pytest.fixture
async def shop(world: World) -> AsyncIterator[tuple[str, SellingApi]]:
    """A shop that takes two assets and names a blockhash: its terms are the longest."""
    world.fund("buyer", usdc_atoms=10**6)
    async with shop_at_its_address(world, also=[world.usdc_terms]) as (origin, shop):
        await world.chains[-1].refresh_offer()
        yield origin, shop


def operations(shop: SellingApi) -> list[Operation]:
    assert isinstance(shop.service.app, HttpApplication)
    return [route for route in shop.service.app.router if isinstance(route, Operation)]


async def test_every_answer_passes_as_it_is(
    shop: tuple[str, SellingApi], before: Before, tmp_path: Path
) -> None:
    origin, selling = shop
    asked = [each for each in operations(selling) if each.media_type != EVENTS_TYPE]
    demands = 0
    with before(origin, tmp_path) as url:
        async with httpx.AsyncClient(timeout=WAIT_S, headers=OF_ANOTHER_ORIGIN) as http:
            for each in asked:
                target = example_target(each)
                direct = await http.request(each.method, origin + target)
                passed = await http.request(each.method, url + target)
                assert passed.status_code == direct.status_code, (each.path, passed.text[:200])
                assert _kept(passed) == _kept(direct), each.path
                demands += "payment-required" in passed.headers

    assert demands >= 5


async def test_a_payment_and_its_answer_pass(
    shop: tuple[str, SellingApi], before: Before, tmp_path: Path
) -> None:
    origin, selling = shop
    with before(origin, tmp_path) as url:
        async with httpx.AsyncClient(timeout=WAIT_S, headers=OF_ANOTHER_ORIGIN) as http:
            for method, path, status in (
                ("GET", f"/v1/token/{TRACKED}", 200),
                ("POST", PURCHASE, 201),
            ):
                demand = demanded(await http.request(method, url + path))
                sent = {
                    "PAYMENT-SIGNATURE": selling.pay(demand),
                    "Idempotency-Key": f"{KEY}-{method}",
                }
                paid = await http.request(method, url + path, headers=sent)
                assert paid.status_code == status, paid.text
                assert "payment-response" in paid.headers


def _kept(answer: httpx.Response) -> dict[str, Any]:
    """Return the headers that clients of the service read, without those that differ each time."""
    names = ("content-type", "access-control-allow-origin", "cache-control", "allow")
    return {name: answer.headers.get(name) for name in names} | {
        "has_terms": "payment-required" in answer.headers
    }
