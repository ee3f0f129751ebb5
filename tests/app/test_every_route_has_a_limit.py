"""Every route, also one that is added later, refuses a client that sends too many requests."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from mintscope.app.config.config import AccountsConfig, ApiConfig
from mintscope.app.web_api import PROBES
from mintscope.kit.clock import ManualClock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses, Request
from mintscope.kit.http.response import Response
from mintscope.kit.http.routes import Route, Router
from mintscope.kit.limits import SITE_SHARES, Limit, MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.site.render import static_files
from mintscope.site.routes import PageRoute
from support.fakes.reports import TRACKED
from support.scenes.website import Website, website

FEW = 2
API = ApiConfig(rate_limit_requests=FEW, health_limit_requests=FEW, other_limit_requests=FEW)
ACCOUNTS = AccountsConfig(limit_requests=FEW, key_limit_requests=FEW)
TOO_MANY = 429


async def unlimited(app: ASGIApp, requests: Iterable[tuple[str, str]]) -> list[str]:
    """Return the *requests*, given as method and path, that have no limit."""
    return [
        f"{method} {path}"
        for number, (method, path) in enumerate(sorted(set(requests)))
        if not await is_limited(app, method, path, f"192.0.2.{number}")
    ]


async def is_limited(app: ASGIApp, method: str, path: str, client: str) -> bool:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=(client, 1)), base_url="http://test"
    ) as asking:
        for _ in range(PROBES.count + 1):
            if (await asking.request(method, path)).status_code == TOO_MANY:
                return True
    return False


def requests_of(routes: Iterable[Route | PageRoute]) -> Iterator[tuple[str, str]]:
    for route in routes:
        path = route.path.replace("{tokenAddress}", TRACKED)
        while "{" in path:
            start, _, rest = path.partition("{")
            path = f"{start}1{rest.partition('}')[2]}"
        yield route.method, path


def routes_of(site: Website) -> Iterator[Route | PageRoute]:
    assert isinstance(site.api, HttpApplication)
    assert isinstance(site.administration, HttpApplication)
    yield from site.api.router
    yield from site.routes()
    yield from static_files().routes()


async def test_every_route_and_every_other_path_has_a_limit_per_address(tmp_path: Path) -> None:
    async with website(tmp_path, api=API, accounts=ACCOUNTS) as site:
        requests = list(requests_of(routes_of(site)))
        assert len(requests) > 50
        others = [
            ("GET", "/nothing"), ("GET", "/v1/nothing"), ("PUT", "/v1/health"), ("PUT", "/sign-in"),
            ("OPTIONS", "/v1/health"),
        ]  # fmt: skip

        assert await unlimited(site.app, requests + others) == []
        assert isinstance(site.administration, HttpApplication)
        requests = list(requests_of(site.administration.router))
        assert await unlimited(site.administration, requests) == []


async def answer(_request: Request) -> Response:
    return Response(200)


def app_of(route: Route) -> HttpApplication:
    limits = AddressLimits(MemoryLimits(ManualClock(UnixMs(0))), ClientAddresses())

    async def write_error(_request: Request, _error: Exception) -> Response:
        return Response(TOO_MANY)

    limit = limits.of(Limit(name="other", count=FEW, window_s=60))
    return HttpApplication(Router([route]), limit=limit, write_error=write_error)


async def test_a_new_route_has_a_limit_unless_it_limits_itself() -> None:
    assert await unlimited(app_of(Route("GET", "/new", answer)), [("GET", "/new")]) == []
    forgotten = app_of(Route("GET", "/new", answer, limits_itself=True))
    assert await unlimited(forgotten, [("GET", "/new")]) == ["GET /new"]


@pytest.mark.parametrize(
    ("clients", "admitted"),
    [
        (["192.0.2.1"], FEW),
        (["2001:db8::1", "2001:db8::2", "2001:db8::f:1"], FEW),
        ([f"2001:db8:0:{number:x}::1" for number in range(30)], FEW * SITE_SHARES),
        ([f"2001:db8:{number:x}::1" for number in range(5)], FEW * 5),
    ],
)
async def test_a_limit_applies_per_ipv4_address_per_ipv6_64_and_fourfold_per_48(
    clients: list[str], admitted: int
) -> None:
    app = app_of(Route("GET", "/new", answer))
    statuses = []
    for number in range(90):
        client = clients[number % len(clients)]
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=(client, 1)), base_url="http://test"
        ) as asking:
            statuses.append((await asking.get("/new")).status_code)

    assert statuses.count(200) == admitted
