"""Security headers of every answer of the pages."""

from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from mintscope.kit.clock import ManualClock
from mintscope.kit.http.response import Outlet
from mintscope.site.page import Macros, Picture, Pushed
from mintscope.site.render import Features, PageWriter
from support.scenes.people.web_person import ALICE, MALLORY, Person
from support.scenes.website import NOW, Website, website

GUARDS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "strict-transport-security": "max-age=31536000",
    "cache-control": "no-store",
}


def expect_guarded(response: httpx.Response) -> None:
    for name, value in GUARDS.items():
        assert response.headers.get_list(name) == [value], (response.url, name)
    assert len(response.headers["x-request-id"]) >= 16
    assert "server" not in response.headers


async def test_every_answer_has_the_security_headers(site: Website) -> None:
    await site.make_administrator()
    await site.apply(MALLORY)
    async with Person(site) as stranger, Person(site) as person, Person(site) as administrator:
        await person.sign_up()
        await administrator.sign_in("admin@example.org")
        for path in [
            "/", "/sign-up", "/sign-in", "/forgot", "/reset/1.x", "/confirm/1.x", "/confirmed",
            "/disowned", "/verify/1.x", "/claim/1.x", "/prove", "/settings/account",
            "/settings/account/password", "/settings/sessions", "/settings/api-keys",
            "/settings/api-keys/new", "/mailbox", "/mailbox/1", "/mailbox/1.txt", "/mailbox/99",
            "/admin", "/admin/users", "/admin/audit", "/admin/applications/1", "/sign-out",
            "/nothing", "/settings", "/?a=%ff", await site.link(MALLORY),
        ]:  # fmt: skip
            for visitor in [stranger, person, administrator]:
                expect_guarded(await visitor.open(path))
                expect_guarded(await visitor.send(path, {"csrf": "x"}))
                expect_guarded(await visitor.send(path, origin=None))


async def body_of(site: Website, method: str, path: str) -> bytes:
    """Return the body of a response as the application sends it to the HTTP server."""
    body = b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal body
        body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "client": ("198.51.100.1", 1),
        "headers": [(b"accept", b"text/html")],
    }
    await site.app(scope, receive, send)
    return body


@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing", "/settings/account", "/mailbox"])
async def test_head_is_get_without_the_body(site: Website, path: str) -> None:
    async with Person(site) as person:
        await person.open(path)  # may set a cookie; pages for one are not compressed
        get, head = await person.open(path), await person.client.head(path)
    assert head.status_code == get.status_code
    assert await body_of(site, "HEAD", path) == b""  # the client would not show it
    assert await body_of(site, "GET", path) != b"" or get.status_code == 303
    for name in ["content-type", "content-length", "cache-control", "content-security-policy"]:
        assert head.headers.get(name) == get.headers.get(name)


async def test_an_unsupported_method_is_a_405(site: Website) -> None:
    async with Person(site) as person:
        for path, allowed in [
            ("/", "GET, HEAD"),
            ("/sign-in", "GET, HEAD, POST"),
            ("/sign-out", "POST"),
            ("/static/style.css", "GET, HEAD"),
        ]:
            for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "GIBBERISH"]:
                response = await person.client.request(method, path)
                assert response.status_code == 405
                assert response.headers["allow"] == allowed
                expect_guarded(response)
        assert (await person.open("/sign-out")).status_code == 405
        assert (await person.client.head("/sign-out")).status_code == 405
        assert (await person.send("/")).status_code == 405


async def test_an_answer_without_tls_has_no_hsts_header(tmp_path: Path) -> None:
    async with website(tmp_path, origin="http://127.0.0.1:8402") as site, Person(site) as person:
        response = await person.open("/")
    assert "strict-transport-security" not in response.headers
    assert "content-security-policy" in response.headers


def test_event_streams_of_a_site_with_tls_have_the_headers_of_its_pages() -> None:
    async def push(outlet: Outlet, macros: Macros) -> None:
        """Write no event."""

    writer = PageWriter(
        static=str,
        features=Features(),
        pages=frozenset(),
        clock=ManualClock(NOW),
        is_secure=True,
    )
    headers = {name.decode(): value.decode() for name, value in writer.push(Pushed(push)).headers}
    assert {name: headers.get(name) for name in GUARDS} == GUARDS


@pytest.mark.parametrize("is_secure", [True, False])
def test_a_picture_has_the_hsts_header_of_a_site_with_tls(*, is_secure: bool) -> None:
    writer = PageWriter(
        static=str,
        features=Features(),
        pages=frozenset(),
        clock=ManualClock(NOW),
        is_secure=is_secure,
    )
    headers = dict(writer.send(Picture(b"", fresh_s=60)).headers)

    hsts = b"max-age=31536000" if is_secure else None
    assert headers.get(b"strict-transport-security") == hsts


async def test_a_page_names_no_other_host(site: Website) -> None:
    async with Person(site) as person:
        await person.sign_up(ALICE)
        for path in ["/", "/sign-up", "/settings/account", "/settings/api-keys", "/mailbox"]:
            text = (await person.open(path)).text
            assert "//" not in text.replace(site.origin, "").replace("http://www.w3.org/", "")
