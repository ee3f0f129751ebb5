"""nginx and Caddy with default settings pass every answer that the API description has."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from proxies import WAIT_S, caddy_before, nginx_before

from mintscope.api.discovery.operation import EVENTS_TYPE, Operation
from mintscope.api.discovery.responses import Examples, schemas_of
from mintscope.api.discovery.surfaces import example_target
from mintscope.kit.http.application import HttpApplication
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    SellingApi,
    credential_header,
    demanded,
    signature_header,
)
from support.scenes.payments.shop_at_its_address import shop_at_its_address
from support.scenes.service import bearer

pytestmark = pytest.mark.process

Before = Callable[[str, Path], AbstractContextManager[str]]
OF_ANOTHER_ORIGIN = {"origin": "https://page.example"}
OF_PROXIES = {502, 504}
# The other paid operations have no data here, and an empty page is free.
WITH_DATA = ("a report", "a backtest", "candles", "indicators", "holders", "pools", "credits")
MPP = {"accept-payment": "solana/charge"}  # its challenges make the longest heads


@pytest.fixture(params=[nginx_before, caddy_before])
def before(request: pytest.FixtureRequest) -> Before:
    found: Before = request.param
    return found


@pytest.fixture
async def shop(world: World) -> AsyncIterator[tuple[str, SellingApi]]:
    """Yield the address of a shop, and the shop.

    Its 402s are as long as possible: they offer two assets and have a blockhash.
    """
    world.fund("buyer", usdc_atoms=10**6)
    async with shop_at_its_address(world, also=[world.usdc_terms]) as (origin, shop):
        await world.chains[-1].refresh_offer()
        yield origin, shop


def example_body(operation: Operation) -> Any:
    """Return the example request body in the API description of *operation*."""
    (schema,), components = schemas_of((operation.body,))
    return Examples(components).of(schema)


def operations(shop: SellingApi) -> list[Operation]:
    assert isinstance(shop.service.app, HttpApplication)
    return [route for route in shop.service.app.router if isinstance(route, Operation)]


async def asked(
    http: httpx.AsyncClient, origin: str, each: Operation, **more: Any
) -> httpx.Response:
    """Send the example request of the operation *each* to *origin*; return the answer."""
    body: Any = {} if each.body is None else {"json": example_body(each)}
    return await http.request(each.method, origin + example_target(each), **more, **body)


async def test_proxies_pass_every_described_answer(
    shop: tuple[str, SellingApi], before: Before, tmp_path: Path
) -> None:
    """Each operation is called without credentials, as a client of MPP, and with a credit token."""
    origin, selling = shop
    found = [each for each in operations(selling) if each.media_type != EVENTS_TYPE]
    described = (await selling.client.get("/openapi.json")).json()["paths"]
    token = await selling.service.issue(200)
    statuses: Counter[int] = Counter()
    demands: Counter[str] = Counter()
    with before(origin, tmp_path) as url:
        async with httpx.AsyncClient(timeout=WAIT_S, headers=OF_ANOTHER_ORIGIN) as http:
            for each in found:
                for headers in ({}, MPP, bearer(token) if each.is_charged else {}):
                    passed = await asked(http, url, each, headers=headers)
                    if each.method == "GET" or each.is_charged:
                        direct = await asked(http, origin, each, headers=headers)
                        assert passed.status_code == direct.status_code, (each.path, passed.text)
                        assert _kept(passed) == _kept(direct), each.path
                    else:  # the answer to a change differs the second time
                        assert passed.status_code not in OF_PROXIES, (each.path, passed.text)
                    statuses[passed.status_code] += 1
                    demands[each.name] += "payment-required" in passed.headers

    streams = {
        (each.method.lower(), each.path) for each in operations(selling) if each not in found
    }
    assert {(each.method.lower(), each.path) for each in found} | streams >= {
        (method, path) for path, methods in described.items() for method in methods
    }
    assert streams == {("get", "/v1/stream")}
    # A holder of credits also has to pay for credits, and everybody gets the example of a 402.
    assert {name: count for name, count in demands.items() if count} == {
        each.name: 2 for each in found if each.is_payable
    } | {"buyCredits": 3, "getDemo402": 3}
    assert {200, 401, 402, 404} <= set(statuses)


async def test_proxies_pass_a_stream(
    shop: tuple[str, SellingApi], before: Before, tmp_path: Path
) -> None:
    origin, selling = shop
    headers = OF_ANOTHER_ORIGIN | bearer(await selling.service.issue(200))
    with before(origin, tmp_path) as url:
        async with (
            httpx.AsyncClient(timeout=WAIT_S, headers=headers) as http,
            http.stream("GET", f"{url}/v1/stream?mints={TRACKED}") as answer,
        ):
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(EVENTS_TYPE)


async def test_proxies_pass_every_payment_and_its_answer(
    shop: tuple[str, SellingApi], before: Before, tmp_path: Path
) -> None:
    """Payments are made by x402 and by MPP; an answer of MPP has its own receipt, too."""
    origin, selling = shop
    sold = [each for each in operations(selling) if each.is_payable]
    receipts = 0
    with before(origin, tmp_path) as url:
        async with httpx.AsyncClient(timeout=WAIT_S, headers=OF_ANOTHER_ORIGIN) as http:
            for number, each in enumerate(sold * 2):
                is_mpp = number >= len(sold)
                demand = demanded(await asked(http, url, each))
                wire = selling.transaction(demand)
                sent = (
                    {"Authorization": credential_header(demand, wire)}
                    if is_mpp
                    else {"PAYMENT-SIGNATURE": signature_header(demand, wire)}
                )
                sent["Idempotency-Key"] = f"{KEY}-{number}"
                paid = await asked(http, url, each, headers=sent)
                assert paid.status_code not in OF_PROXIES, (each.path, paid.text)
                receipts += "payment-response" in paid.headers

    assert receipts == 2 * len(WITH_DATA)
    assert selling.world.received() > 2 * 25_000


def _kept(answer: httpx.Response) -> dict[str, Any]:
    """Return headers that clients read and that do not differ from answer to answer."""
    names = ("content-type", "access-control-allow-origin", "cache-control", "allow")
    return {name: answer.headers.get(name) for name in names} | {
        "has_terms": "payment-required" in answer.headers
    }
