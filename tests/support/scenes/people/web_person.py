"""A person whose browser runs no scripts, who requests pages and sends their forms."""

import re
from collections.abc import AsyncIterator, Mapping
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pytest
from starlette.types import ASGIApp
from typing_extensions import override

from mintscope.app.config.config import WebConfig
from support.scenes.website import ADMINISTRATOR, PASSWORD, Website, website

ORIGIN: Final = "https://shop.example"
ALICE: Final = "alice@example.org"
MALLORY: Final = "mallory@example.net"
COOKIE: Final = "__Host-mintscope"
BROWSER: Final = {
    "accept": "text/html",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield the whole service, as visitors see it behind TLS."""
    async with website(tmp_path, origin=ORIGIN) as site:
        yield site


@pytest.fixture
async def shown_site(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service where each IP address can view SOL and one other token a day for free."""
    web = WebConfig(free_views_per_day=1)
    async with website(tmp_path, origin=ORIGIN, web=web, has_token_market=True) as site:
        yield site


@pytest.fixture
async def stranger(shown_site: Website) -> AsyncIterator["Person"]:
    """Yield a visitor without an account, of a site that shows tokens."""
    async with Person(shown_site) as person:
        yield person


@pytest.fixture
async def alice(site: Website) -> AsyncIterator["Person"]:
    """Yield a person who has signed up and is still signed in."""
    async with Person(site) as person:
        await person.sign_up()
        yield person


@pytest.fixture
async def administrator(site: Website) -> AsyncIterator["Person"]:
    """Yield an administrator who is signed in."""
    await site.make_administrator()
    async with Person(site) as person:
        await person.sign_in(ADMINISTRATOR)
        yield person


class Person:
    """A browser at the IP address *address*; it does not follow redirects.

    app   the application of another listener; None: that of the public listener
    """

    def __init__(
        self, site: Website, *, address: str = "198.51.100.1", app: ASGIApp | None = None
    ) -> None:
        self.site = site
        transport = httpx.ASGITransport(
            app or site.app, raise_app_exceptions=False, client=(address, 50_000)
        )
        self.client = httpx.AsyncClient(transport=transport, base_url=site.origin, headers=BROWSER)
        self._csrf: dict[str, str] = {}  # by session cookie, from which it is derived

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    @property
    def cookie(self) -> str | None:
        """Return the session cookie, as the browser has stored it."""
        return self.client.cookies.get(COOKIE)

    async def open(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=headers)

    async def csrf(self) -> str:
        """Return the CSRF token of the forms of this session; "" without a session."""
        cookie = self.cookie or ""
        if cookie not in self._csrf:
            found = re.search(r'name="csrf" value="([^"]*)"', (await self.open("/")).text)
            if not found:
                return ""
            self._csrf[cookie] = found[1]
        return self._csrf[cookie]

    async def send(
        self, path: str, fields: Mapping[str, Any] | None = None, **headers: str | None
    ) -> httpx.Response:
        """Send a form as a page of the site does; *headers* and a field `csrf` replace its own."""
        data = dict(fields or {})
        if "csrf" not in data and (csrf := await self.csrf()):
            data["csrf"] = csrf
        sent = {"origin": self.site.origin} | headers
        return await self.client.post(
            path, data=data, headers={name: text for name, text in sent.items() if text is not None}
        )

    async def sign_up(self, email: str = ALICE, password: str = PASSWORD) -> httpx.Response:
        return await self.send("/sign-up", {"email": email, "password": password})

    async def sign_in(
        self, email: str = ALICE, password: str = PASSWORD, **fields: str
    ) -> httpx.Response:
        return await self.send("/sign-in", {"email": email, "password": password} | fields)


def words(response: httpx.Response) -> str:
    """Return the text of a page, without its markup, on one line."""
    body = response.text.partition("<body>")[2].replace("<wbr>", "")
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


class _Tags(HTMLParser):
    """Collects all tags with their attributes, as browsers read them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def tags(response: httpx.Response) -> list[tuple[str, dict[str, str]]]:
    parser = _Tags()
    parser.feed(response.text)
    return parser.found


def fields_of(response: httpx.Response, action: str) -> dict[str, str]:
    """Return the fields of the form with *action* as a browser sends them, if nothing is typed."""
    fields: dict[str, str] = {}
    is_inside = False
    listed = ""
    for tag, attributes in tags(response):
        is_sent = "checked" in attributes or attributes.get("type") not in {"checkbox", "radio"}
        if tag == "form":
            is_inside = attributes.get("action") == action
        elif is_inside and tag == "select":
            listed = attributes["name"]
        elif is_inside and tag == "option" and ("selected" in attributes or listed not in fields):
            fields[listed] = attributes["value"]
        elif is_inside and tag == "input" and is_sent:
            fields[attributes["name"]] = attributes.get("value", "")
    return fields


def expect_harmless(response: httpx.Response) -> None:
    """Check that a page loads and runs only files of the site."""
    for tag, attributes in tags(response):
        assert tag not in {"img", "iframe", "object", "style", "base"}
        assert tag != "script" or attributes["src"].startswith("/static/")
        for name, value in attributes.items():
            assert not name.startswith(("on", "hx-on"))
            assert name != "style"
            if name in {"href", "src", "action"}:
                assert re.match(r"[#/](?!/)", value), (tag, name, value)
    assert "<script>alert" not in response.text


def where(response: httpx.Response) -> str:
    """Return the target of a redirect."""
    assert response.status_code == 303, (response.status_code, words(response))
    return response.headers["location"]
