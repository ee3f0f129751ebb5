"""No e-mail contains the Host header of a request to the API."""

import httpx
import pytest

from support.scenes.accounts_service import EMAIL, SIGNUP_PATH, signup_body
from support.scenes.people.web_person import ORIGIN
from support.scenes.website import Website


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "shop.example@evil.example"},
        {"x-forwarded-host": "evil.example"},
        {"x-forwarded-proto": "gopher"},
        {"forwarded": "host=evil.example;proto=gopher"},
        {"origin": "https://evil.example", "referer": "https://evil.example/"},
    ],
)
async def test_links_begin_with_the_configured_origin(
    site: Website, headers: dict[str, str]
) -> None:
    transport = httpx.ASGITransport(site.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        response = await client.post(SIGNUP_PATH, json=signup_body(), headers=headers)
    email = await site.email(EMAIL)

    assert response.status_code == 201
    assert f"{ORIGIN}/confirm/" in email
    for text in (email, response.text, str(response.headers)):
        assert "evil.example" not in text
        assert "gopher" not in text
