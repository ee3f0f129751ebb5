"""The doctor names each problem that a public catalog of APIs would have with the service."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any, Final

import httpx
import pytest
from visited import Spoil, Visited, visited

from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.doctor.directories import TYPES, Expected, ServiceSilent, Visitor, look
from mintscope.app.doctor.finding import Finding, Level
from mintscope.app.doctor.machine import check_surfaces
from mintscope.solana.blocks import USDC
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import ORIGIN, encoded

PAID: Final = "/v1/token/"
# The shop of the scene sells for a token of its own.
OF_THE_SCENE: Final = {
    "surfaces: neither USDC nor USDT is accepted, and pay.sh requires one of them"
}


@pytest.fixture
async def shop(world: World) -> AsyncIterator[Visited]:
    async with visited(world) as shop:
        yield shop


async def found(shop: Visited, origin: str = ORIGIN, **expected: bool) -> list[Finding]:
    """Return the findings about *shop*, except the finding that the test shop always causes."""

    def visit() -> list[Finding]:
        with closing(Visitor(origin, shop)) as visitor:
            return list(look(visitor, Expected(**expected)))

    return [each for each in await asyncio.to_thread(visit) if each.what not in OF_THE_SCENE]


async def test_a_complete_service_has_no_findings(shop: Visited) -> None:
    assert await found(shop) == []
    assert {each.url.path for each in shop.asked} >= {*TYPES, "/favicon.ico", "/mcp"}
    assert {each.method for each in shop.asked} == {"GET", "HEAD", "OPTIONS"}


def at(path: str, change: Callable[[httpx.Response], Any], method: str = "GET") -> Spoil:
    """Return a `Spoil` that applies *change* to answers to *method* at *path* and below."""

    def spoil(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if request.method == method and request.url.path.startswith(path):
            return change(answer) or answer
        return answer

    return spoil


def header(name: str, value: str) -> Callable[[httpx.Response], None]:
    return lambda answer: answer.headers.update({name: value})


def without(*names: str) -> Callable[[httpx.Response], None]:
    def remove(answer: httpx.Response) -> None:
        for name in names:
            answer.headers.pop(name, None)

    return remove


def status(code: int) -> Callable[[httpx.Response], httpx.Response]:
    return lambda answer: httpx.Response(code, headers=answer.headers, content=answer.content)


def body(text: str) -> Callable[[httpx.Response], httpx.Response]:
    def change(answer: httpx.Response) -> httpx.Response:
        kept = {"content-type": answer.headers["content-type"], "access-control-allow-origin": "*"}
        return httpx.Response(200, headers=kept, text=text)

    return change


def terms(**changes: Any) -> Callable[[httpx.Response], None]:
    def change(answer: httpx.Response) -> None:
        reported: dict[str, Any] = {
            "x402Version": 2,
            "accepts": [{"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "asset": USDC}],
            "resource": {"url": f"{ORIGIN}/v1/token/x", "description": "d" * 40},
            "extensions": {"bazaar": {"info": {}, "schema": {}}},
        }
        answer.headers["payment-required"] = encoded(reported | changes)

    return change


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (at("/openapi.json", status(404)), "/openapi.json is answered 404, expected 200"),
        (at("/openapi.json", body(f"[] {ORIGIN}")), "no OpenAPI document of version 3"),
        (at("/llms.txt", header("content-type", "text/html")), "/llms.txt is text/html"),
        (at("/llms.txt", body(f"<p>{ORIGIN}")), "/llms.txt begins with '<p>"),
        (at("/skill.md", body("---\nname: other")), "/skill.md does not name https://shop"),
        (at("/.well-known/x402", status(404), "HEAD"), "HEAD /.well-known/x402 is answered 404"),
        (at("/.well-known/x402", body(f'{{"at": "{ORIGIN}"}}')), "lists nothing for sale"),
        (
            at("/.well-known/api-catalog", without("access-control-allow-origin")),
            "/.well-known/api-catalog cannot be read by pages of other origins",
        ),
        (at("/.well-known/security.txt", status(404)), "/.well-known/security.txt is answered 404"),
        (at("/robots.txt", body("User-agent: *\nDisallow: /")), "keeps every crawler out"),
        (at("/robots.txt", body("User-agent: *")), "/robots.txt does not name https://shop"),
        (at("/sitemap.xml", body("<urlset/>")), "/sitemap.xml does not name https://shop"),
        (at("/favicon.ico", status(404)), "the icon /favicon.ico is answered 404"),
        (
            at("/favicon.ico", header("cross-origin-resource-policy", "same-origin")),
            "cannot be loaded by the pages of directories",
        ),
        (at("/mcp", status(404)), "/mcp is not served"),
        (at("/no-such-path", status(200)), "a path that does not exist is not answered 404"),
        (at(PAID, status(503)), "is answered 503 without payment, not 402"),
        (at(PAID, without("payment-required")), "has no PAYMENT-REQUIRED of x402 version 2"),
        (at(PAID, terms(accepts=[{"network": "solana:x"}])), "is sold on solana:x, not on"),
        (at(PAID, terms(resource={"url": "http://127.0.0.1/"})), "names http://127.0.0.1/"),
        (at(PAID, terms(resource={"url": f"{ORIGIN}/"})), "in 40 to 500 characters"),
        (at(PAID, terms(extensions={})), "has no bazaar extension"),
        (at(PAID, header("cache-control", "public")), "may be kept by caches"),
        (at(PAID, without("access-control-expose-headers")), "cannot pay for /v1/token/"),
        (at(PAID, without("access-control-allow-headers"), "OPTIONS"), "cannot pay for"),
    ],
)
async def test_each_fault_of_an_answer_is_a_warning_with_a_remedy(
    shop: Visited, spoil: Spoil, words: str
) -> None:
    shop.spoil = spoil
    findings = await found(shop)

    assert any(words in each.what for each in findings), findings
    assert {each.level for each in findings} == {Level.WARN}
    assert all(each.fix for each in findings)


async def test_a_missing_security_txt_names_the_setting_of_the_contact(shop: Visited) -> None:
    shop.spoil = at("/.well-known/security.txt", status(404))
    (finding,) = await found(shop)

    assert finding.fix.startswith("set api.contact")


async def test_an_address_that_directories_refuse_is_reported(shop: Visited) -> None:
    reported = " ".join(each.what for each in await found(shop, "http://127.0.0.1"))

    assert "is not https" in reported
    assert "is no domain name" in reported
    assert "/llms.txt does not name http://127.0.0.1" in reported


async def test_features_that_are_switched_off_are_not_reported_as_missing(world: World) -> None:
    async with visited(world, contact=None) as shop:
        (finding,) = await found(shop, has_contact=False, has_mcp=False, has_pages=False)

    assert finding.fix.startswith("set api.contact")


def test_a_service_without_an_origin_is_not_visited() -> None:
    (finding,) = check_surfaces(Config())

    assert finding.level is Level.OK
    assert "set api.origin" in finding.what


def test_a_service_that_does_not_run_is_one_finding() -> None:
    (finding,) = [
        each
        for each in check_surfaces(Config(api=ApiConfig(origin="https://127.0.0.1:9")))
        if "no domain name" not in each.what
    ]

    assert "does not answer" in finding.what


def test_a_visit_of_a_service_that_does_not_answer_raises_service_silent() -> None:
    with closing(Visitor("http://127.0.0.1:9")) as visitor, pytest.raises(ServiceSilent):
        visitor.ask("/llms.txt")
