"""The descriptions, and the 402, by which programs and directories find the service."""

import hashlib
import json
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jsonschema
import pytest
from x402.extensions.bazaar.facilitator import (
    extract_discovery_info,
    validate_discovery_extension,
    validate_discovery_extension_spec,
)

from mintscope.api.discovery.operation import Operation
from mintscope.api.discovery.surfaces import PAGES
from mintscope.app.config.config import ApiConfig
from mintscope.kit.http.application import HttpApplication
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import ORIGIN, SellingApi, demanded, encoded, opened
from support.scenes.service import Service
from support.scenes.website import website

TYPES: Final = {
    "/openapi.json": "application/json",
    "/llms.txt": "text/markdown; charset=utf-8",
    "/skill.md": "text/markdown; charset=utf-8",
    "/.well-known/x402": "application/json",
    "/.well-known/did.json": "application/did+json",
    "/.well-known/api-catalog": "application/linkset+json;"
    ' profile="https://www.rfc-editor.org/info/rfc9727"',
    "/.well-known/ai-catalog.json": "application/ai-catalog+json",
    "/.well-known/agent-skills/index.json": "application/json",
    "/mcp/server-card": "application/mcp-server-card+json",
    "/.well-known/security.txt": "text/plain; charset=utf-8",
    "/robots.txt": "text/plain; charset=utf-8",
    "/sitemap.xml": "application/xml; charset=utf-8",
}
CONTACT: Final = "mailto:security@shop.example"
HEADER_BYTES_MAX: Final = 3_500  # nginx takes 4,096 by default, with its own headers
LARGEST_TRANSACTION: Final = bytes(1_232)


@pytest.fixture
async def listed(world: World) -> AsyncIterator[SellingApi]:
    """Yield a shop whose descriptions have a contact, such as an e-mail address."""
    async with opened(world, api=ApiConfig(contact=CONTACT, rate_limit_requests=1_000)) as shop:
        yield shop


@pytest.fixture
async def listed_in_both(world: World) -> AsyncIterator[SellingApi]:
    """Yield a shop that accepts two tokens, so that its terms are as long as possible."""
    api = ApiConfig(contact=CONTACT, rate_limit_requests=1_000)
    async with opened(world, api=api, also=[world.usdc_terms]) as shop:
        shop.price.usd = Decimal("0.5")
        yield shop


def operations(shop: SellingApi) -> list[Operation]:
    assert isinstance(shop.service.app, HttpApplication)
    return [route for route in shop.service.app.router if isinstance(route, Operation)]


@pytest.mark.parametrize("path", TYPES)
async def test_each_surface_is_cacheable_and_open_to_every_origin(
    listed: SellingApi, path: str
) -> None:
    got = await listed.client.get(path, headers={"origin": "https://other.example"})
    head = await listed.client.head(path)
    again = await listed.client.get(path, headers={"if-none-match": got.headers["etag"]})

    assert (got.status_code, got.headers["content-type"]) == (200, TYPES[path])
    assert got.headers["cache-control"] == "public, max-age=300"
    assert got.headers["access-control-allow-origin"] == "*"
    assert (head.status_code, head.content) == (200, b"")
    assert (again.status_code, again.content) == (304, b"")


async def test_agents_find_the_skill_and_the_mcp_server(listed: SellingApi) -> None:
    get = listed.client.get
    catalog = (await get("/.well-known/ai-catalog.json")).json()
    found = {entry["mediaType"]: entry["url"].removeprefix(ORIGIN) for entry in catalog["entries"]}
    for media_type, path in found.items():
        answer = await get(path)
        assert answer.status_code == 200
        if "openapi" not in media_type:
            assert answer.headers["content-type"].startswith(media_type)

    card = (await get(found["application/mcp-server-card+json"])).json()
    assert card["name"] == "example.shop/mintscope"
    assert [remote["url"] for remote in card["remotes"]] == [f"{ORIGIN}/mcp"]
    assert len(card["description"]) <= 100
    (skill,) = (await get("/.well-known/agent-skills/index.json")).json()["skills"]
    read = await get(skill["url"])
    assert skill["digest"] == f"sha256:{hashlib.sha256(read.content).hexdigest()}"
    assert skill["description"] in read.text


async def test_the_surfaces_of_sales_and_contact_are_404_without_them(service: Service) -> None:
    for path in ("/.well-known/x402", "/.well-known/security.txt", "/.well-known/anything"):
        assert (await service.client.get(path)).status_code == 404


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
async def test_surfaces_are_served_beside_the_pages_for_each_accept_header(
    tmp_path: Path, accept: str
) -> None:
    async with website(tmp_path) as site:
        transport = httpx.ASGITransport(site.app)
        async with httpx.AsyncClient(transport=transport, base_url=site.origin) as client:
            for path in ("/llms.txt", "/robots.txt", "/.well-known/api-catalog", "/openapi.json"):
                answer = await client.get(path, headers={"accept": accept})
                assert (answer.status_code, answer.headers["content-type"]) == (200, TYPES[path])


async def test_the_guide_names_every_operation(listed: SellingApi) -> None:
    text = (await listed.client.get("/skill.md")).text

    for each in operations(listed):
        has_fields = each.query is not None and each.query.__struct_fields__
        assert f"`{each.method} {each.path}{'?' if has_fields else '`'}" in text
        assert each.description in text
    candles = "/candles?tf=s15|m1|m5|m15|m30|h1|h4|d1&from=&to=&limit=&cursor=&candles=all|closed"
    units = "&fill=none|previous&in=marketcap|sol|usd&format=arrow|csv|json|parquet&pool=&profile=`"
    assert f"{candles}{units}" in text
    assert "/v1/credits/purchase?bundle=10|50|100|500`" in text
    assert 'Body: `{"mints":["So11111111111111111111111111111111111111112"],"candles":' in text
    assert text.startswith("---\nname: mintscope\ndescription: ")
    assert text.count("```") % 2 == 0
    assert not re.search(r"\{[a-z]+\}", text.partition("## Market data")[0])


async def test_the_index_is_short_and_names_every_call(listed: SellingApi) -> None:
    answer = await listed.client.get("/llms.txt")
    text = answer.text

    assert len(answer.content) <= 6 * 1024
    assert text.startswith("# mintscope\n\n> ")
    for each in operations(listed):
        (line,) = [
            one
            for one in text.splitlines()
            if re.match(f"- `[A-Z, ]+ {re.escape(each.path)}`", one)
        ]
        assert each.method in line.partition("/")[0]
        assert not each.is_charged or line.endswith(each.cost)
    for path in re.findall(rf"\]\({ORIGIN}([^)#]+)\)", text):
        if not path.startswith("/docs/"):  # this service has no pages
            assert (await listed.client.get(path)).status_code == 200, path
    (first,) = re.findall(rf"^curl -s {ORIGIN}(\S+)$", text, re.MULTILINE)
    assert (await listed.client.get(first)).status_code == 200
    for package in re.findall(rf"install {ORIGIN}([^`]+)`", text):
        assert (await listed.client.get(package)).status_code == 200


async def test_each_endpoint_in_well_known_x402_is_402_with_its_own_resource(
    listed: SellingApi,
) -> None:
    sold = (await listed.client.get("/.well-known/x402")).json()
    terms = listed.world.terms

    assert (sold["version"], sold["x402Version"]) == (1, 2)
    assert sold["resources"] == [each["url"] for each in sold["endpoints"]]
    assert {each["path"] for each in sold["endpoints"]} == {
        each.path for each in operations(listed) if each.is_payable
    }
    assert sold["payment"][0]["asset"] == terms.asset
    for each in sold["endpoints"]:
        answer = await listed.client.request(each["method"], each["url"].removeprefix(ORIGIN))
        assert answer.status_code == 402
        sold_at, asked = urlsplit(demanded(answer)["resource"]["url"]), urlsplit(each["url"])
        assert (sold_at.netloc, sold_at.path) == (asked.netloc, asked.path)
        assert set(asked.query.split("&")) <= set(sold_at.query.split("&"))


async def test_each_link_in_the_api_catalog_is_200(listed: SellingApi) -> None:
    entry, mcp = (await listed.client.get("/.well-known/api-catalog")).json()["linkset"]
    assert mcp["anchor"] == f"{ORIGIN}/mcp"
    hrefs = [link["href"] for key, links in entry.items() if key != "anchor" for link in links]
    head = await listed.client.head("/.well-known/api-catalog")

    assert head.headers["link"] == '</.well-known/api-catalog>; rel="api-catalog"'
    assert {"service-desc", "service-doc", "status"} <= set(entry)
    for href in hrefs:
        assert (await listed.client.get(href.removeprefix(ORIGIN))).status_code == 200


async def test_security_txt_has_the_contact_and_its_expiry(listed: SellingApi) -> None:
    lines = (await listed.client.get("/.well-known/security.txt")).text.splitlines()

    assert lines[0] == f"Contact: {CONTACT}"
    assert lines[1] == "Expires: 2027-07-14T00:00:00Z"  # the scene is on 2027-01-15
    document = (await listed.client.get("/openapi.json")).json()
    assert document["info"]["contact"]["email"] == "security@shop.example"


async def test_robots_txt_excludes_v1_and_names_the_sitemap(listed: SellingApi) -> None:
    robots = (await listed.client.get("/robots.txt")).text
    sitemap = (await listed.client.get("/sitemap.xml")).text

    assert "Disallow: /v1/" in robots
    assert f"Sitemap: {ORIGIN}/sitemap.xml" in robots
    paths = [found.removeprefix(ORIGIN) for found in re.findall("<loc>([^<]+)</loc>", sitemap)]
    assert {*PAGES, "/openapi.json", "/llms.txt"} <= set(paths)
    for path in set(paths) - set(PAGES):
        assert (await listed.client.get(path)).status_code == 200


async def paid_demands(shop: SellingApi) -> list[dict[str, Any]]:
    sold = (await shop.client.get("/.well-known/x402")).json()
    return [
        demanded(await shop.client.request(each["method"], each["url"].removeprefix(ORIGIN)))
        for each in sold["endpoints"]
    ]


async def test_the_bazaar_accepts_every_402(listed: SellingApi) -> None:
    for demand in await paid_demands(listed):
        extension, resource = demand["extensions"]["bazaar"], demand["resource"]
        assert validate_discovery_extension(extension).errors == []
        assert validate_discovery_extension_spec(extension).errors == []
        found = extract_discovery_info(
            {
                "x402Version": 2,
                "payload": {},
                "accepted": demand["accepts"][0],
                "resource": resource,
                "extensions": demand["extensions"],
            },
            demand["accepts"][0],
        )
        assert found is not None
        assert found.service_name == "mintscope"
        assert found.icon_url == f"{ORIGIN}/favicon.ico"
        assert len(found.tags or ()) == 5
        assert 40 <= len(resource["description"]) <= 500


async def test_the_example_in_a_402_has_the_fields_of_the_answer(listed: SellingApi) -> None:
    payment = await listed.paid("GET", f"/v1/token/{TRACKED}")
    answer = await listed.send("GET", f"/v1/token/{TRACKED}", payment)
    unpaid = await listed.client.get(f"/v1/token/{TRACKED}")
    bazaar = unpaid.json()["error"]["details"]["extensions"]["bazaar"]

    assert validate_discovery_extension(bazaar).errors == []
    shape = bazaar["schema"]["properties"]["output"]["properties"]["example"]
    jsonschema.validate(answer.json(), shape)
    shown = bazaar["info"]["output"]["example"]
    assert set(shown["data"]) == {"token", "price", "indicators", "dataSpan", "coverage"}
    assert set(shown) == set(answer.json())


async def test_the_headers_of_a_402_fit_the_default_limits_of_proxies(
    listed_in_both: SellingApi,
) -> None:
    shop, asking = listed_in_both, {"origin": "https://page.example"}
    await shop.world.chains[-1].refresh_offer()
    sold = (await shop.client.get("/.well-known/x402")).json()
    for each in sold["endpoints"]:
        path = each["url"].removeprefix(ORIGIN)
        answer = await shop.client.request(each["method"], path, headers=asking)
        demand = demanded(answer)
        assert len(demand["accepts"]) == 2
        assert "recentBlockhash" in demand["accepts"][0]["extra"]
        lines = [f"{name}: {value}\r\n" for name, value in answer.headers.items()]
        assert sum(map(len, lines)) < HEADER_BYTES_MAX, path

        returned = encoded(
            {
                "x402Version": 2,
                "payload": {"transaction": "A" * (len(LARGEST_TRANSACTION) * 4 // 3 + 4)},
                "accepted": demand["accepts"][0],
                "resource": demand["resource"],
                "extensions": demand["extensions"],
            }
        )
        assert len(returned) < 5 * 1024


async def test_the_body_of_a_402_has_price_assets_and_links_to_read_and_buy(
    listed: SellingApi,
) -> None:
    unpaid = await listed.client.get(f"/v1/token/{TRACKED}")
    details, offer = unpaid.json()["error"]["details"], demanded(unpaid)["accepts"][0]
    advertised = {name: details.pop(name) for name in ("trial", "description", "extensions")}
    empty = await listed.service.issue(1)
    await listed.client.get(f"/v1/token/{TRACKED}", headers={"authorization": f"Bearer {empty}"})
    broke = await listed.client.get(
        f"/v1/token/{TRACKED}", headers={"authorization": f"Bearer {empty}"}
    )
    bought = await listed.client.post("/v1/credits/purchase?bundle=500")

    assert details == {
        "priceUsd": "0.0025",
        "accepts": [
            {
                "asset": offer["asset"],
                "symbol": "SCOPE",
                "decimals": 6,
                "amount": offer["amount"],
                "network": offer["network"],
                "payTo": offer["payTo"],
            }
        ],
        "read": f"{ORIGIN}/llms.txt",
        "buy": f"{ORIGIN}/v1/credits/purchase?bundle=10",
    }
    assert "output" in advertised["extensions"]["bazaar"]["info"]
    assert len(advertised["description"]) >= 40
    assert (broke.json()["error"]["code"], broke.json()["error"]["details"]["priceUsd"]) == (
        "INSUFFICIENT_CREDITS",
        "0.0025",
    )
    assert bought.json()["error"]["details"]["priceUsd"] == "0.75"


async def test_other_errors_have_no_details(listed: SellingApi) -> None:
    for path in ("/v1/token/abc", "/v1/credits/balance", "/nothing"):
        assert set(json.loads((await listed.client.get(path)).content)["error"]) == {
            "code",
            "message",
        }
