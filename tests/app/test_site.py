"""API paths answer JSON, other paths are pages; a 404 has the form that fits its client."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from mintscope.app.site import Site
from support.scenes.accounts_service import SIGNUP_PATH, signup_body
from support.scenes.service import Service

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Pages:
    """Answers every path with HTML: a page at /settings, and 404 elsewhere."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        is_there = scope["path"] == "/settings"
        response = HTMLResponse("a page" if is_there else "no page", 200 if is_there else 404)
        await response(scope, receive, send)


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
async def client(service: Service, pages: Pages) -> AsyncIterator[httpx.AsyncClient]:
    app = Site(api=service.app, pages=pages, has_page=lambda path: path == "/settings")
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v1/", "/v1/me", "/v1/nothing", "/api", "/api/", "/api/auth/nothing",
        "/healthz", "/readyz", "/openapi.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("headers", [{}, BROWSER])
async def test_the_paths_of_the_api_answer_json_to_every_client(
    client: httpx.AsyncClient, pages: Pages, path: str, headers: dict[str, str]
) -> None:
    response = await client.get(path, headers=headers)

    assert response.headers["content-type"] == "application/json"
    assert pages.asked == []


async def test_a_body_reaches_the_api(client: httpx.AsyncClient) -> None:
    response = await client.post(SIGNUP_PATH, json=signup_body(), headers=BROWSER)

    assert response.status_code == 201


@pytest.mark.parametrize("headers", [{}, BROWSER, {"accept": "application/json"}])
async def test_a_page_is_html_for_every_client(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    response = await client.get("/settings", headers=headers)

    assert (response.status_code, response.text) == (200, "a page")


@pytest.mark.parametrize("path", ["/", "/nothing", "/v2/token/x", "/v1x", "/API/x", "//v1/me"])
async def test_an_unknown_path_is_a_page_in_a_browser(client: httpx.AsyncClient, path: str) -> None:
    for headers in (BROWSER, {"hx-request": "true"}):
        response = await client.get(f"http://test{path}", headers=headers)

        assert (response.status_code, response.text) == (404, "no page")


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
@pytest.mark.parametrize("path", ["/", "/nothing", "/v2/token/x"])
async def test_an_unknown_path_answers_programs_in_the_envelope(
    client: httpx.AsyncClient, path: str, accept: str
) -> None:
    response = await client.get(path, headers={"accept": accept})

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "NOT_FOUND"
    assert response.json()["meta"]["requestId"] == response.headers["x-request-id"]
