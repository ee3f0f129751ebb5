"""Forms of other sites or sessions, and invalid bodies, are refused and change nothing."""

from itertools import product

import pytest

from support.scenes.people.web_person import ALICE, MALLORY, ORIGIN, Person, where, words
from support.scenes.website import Website

FORM = {"content-type": "application/x-www-form-urlencoded", "origin": ORIGIN}
SESSION_FORMS = [
    "/sign-out",
    "/prove",
    "/settings/account/verify",
    "/settings/account/claim",
    "/settings/account/password",
    "/settings/sessions/end",
    "/settings/sessions/end-others",
    "/settings/api-keys/new/review",
]
ELSEWHERE = [
    None,
    "null",
    "https://evil.example",
    "http://shop.example",
    "https://shop.example:8443",
    "https://shop.example.evil.example",
    "https://SHOP.example",
    "",
]
OPEN_FORMS = ["/sign-in", "/sign-up", "/forgot", "/reset/1.x", "/confirm/1.x"]


async def test_a_form_without_the_text_of_the_session_is_refused(alice: Person) -> None:
    for path, csrf in product(SESSION_FORMS, ["", "0" * 64, "\u00e9"]):
        response = await alice.send(path, {"csrf": csrf})
        assert response.status_code == 403
        assert "This form belongs to another session, or to none." in words(response)
    assert await alice.csrf()  # still signed in


async def test_the_text_of_another_session_is_refused(alice: Person) -> None:
    async with Person(alice.site) as mallory, Person(alice.site) as same:
        await mallory.sign_up(MALLORY)
        await same.sign_in()
        for path, other in product(SESSION_FORMS, [mallory, same]):
            response = await alice.send(path, {"csrf": await other.csrf()})
            assert response.status_code == 403


async def test_a_form_with_two_csrf_fields_is_refused(alice: Person) -> None:
    csrf = await alice.csrf()
    response = await alice.send("/sign-out", {"csrf": [csrf, csrf]})
    assert response.status_code == 400
    assert "Expected one field csrf; were 2." in words(response)


async def test_forms_of_other_origins_are_refused(site: Website, alice: Person) -> None:
    for path in [*SESSION_FORMS, *OPEN_FORMS]:
        for origin in ELSEWHERE:
            response = await alice.send(path, {"email": ALICE, "csrf": ""}, origin=origin)
            assert response.status_code == 403
            text = (
                f"Forms are accepted from {ORIGIN} only; this one came from {origin or 'nothing'}."
            )
            assert text in words(response)
            assert "set-cookie" not in response.headers
    assert site.accounts.mailbox is not None
    assert len(await site.accounts.mailbox.recent(limit=10)) == 1  # the e-mail of the sign-up


async def test_a_form_with_two_origin_headers_is_refused(alice: Person) -> None:
    headers = [("origin", ORIGIN), ("origin", ORIGIN), ("content-type", FORM["content-type"])]
    response = await alice.client.post("/forgot", content=b"email=a%40b.example", headers=headers)
    assert response.status_code == 403


async def test_a_refused_form_does_not_count_against_the_rate_limit(alice: Person) -> None:
    for _ in range(100):
        assert (await alice.send("/forgot", {"csrf": ""}, origin=None)).status_code == 403
    assert (await alice.send("/forgot", {"email": ALICE})).status_code == 303


@pytest.mark.parametrize(
    ("body", "content_type", "status", "message"),
    [
        (b'{"email": "a@example.org"}', "application/json", 400, "Expected a form, application/x-"),
        (b"--x--", "multipart/form-data; boundary=x", 400, "Expected a form, application/x-"),
        (b"email=a%40example.org", "", 400, "Expected a form, application/x-www-form-urlencoded"),
        (b"email=" + b"a" * 16_384, FORM["content-type"], 413, "at most 16384 bytes"),
        (b"a=1&" * 50 + b"email=", FORM["content-type"], 400, "Expected at most 50 fields"),
        (b"email=%ff", FORM["content-type"], 400, "in UTF-8"),
        (b"email=\xff", FORM["content-type"], 400, "in UTF-8"),
        (b"email=%00", FORM["content-type"], 400, "without NUL characters"),
        (b"email=a&email=b", FORM["content-type"], 400, "Expected one field email; were 2."),
    ],
)
async def test_a_body_that_is_not_a_valid_form_is_refused_with_the_reason(
    site: Website, body: bytes, content_type: str, status: int, message: str
) -> None:
    async with Person(site) as person:
        headers = {"origin": ORIGIN} | ({"content-type": content_type} if content_type else {})
        response = await person.client.post("/forgot", content=body, headers=headers)
    assert response.status_code == status
    assert message in words(response)


async def test_a_form_of_the_maximum_fields_and_size_is_read(site: Website) -> None:
    async with Person(site) as person:
        body = b"email=a%40example.org" + b"&x=1" * 49
        response = await person.client.post("/forgot", content=body, headers=FORM)
        assert where(response) == "/forgot?notice=reset-sent"
        body += b"0" * (16_384 - len(body))
        response = await person.client.post("/forgot", content=body, headers=FORM)
        assert where(response) == "/forgot?notice=reset-sent"


async def test_a_parameter_of_the_content_type_changes_nothing(site: Website) -> None:
    async with Person(site) as person:
        headers = FORM | {"content-type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}
        response = await person.client.post(
            "/forgot", content=b"email=a%40b.example", headers=headers
        )
    assert response.status_code == 303


async def test_a_form_that_is_cut_off_changes_nothing(site: Website, alice: Person) -> None:
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(str(message))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/sign-out",
        "query_string": b"",
        "client": ("198.51.100.1", 1),
        "headers": [
            *((name.encode(), value.encode()) for name, value in FORM.items()),
            (b"accept", b"text/html"),
            (b"cookie", f"__Host-mintscope={alice.cookie}".encode()),
        ],
    }
    await site.app(scope, receive, send)
    assert sent == []
    assert await alice.csrf()


async def test_the_61st_form_of_a_client_in_a_minute_is_a_429(site: Website) -> None:
    async with Person(site) as flood, Person(site, address="203.0.113.9") as other:
        responses = [await flood.send("/forgot", {"email": "no"}) for _ in range(61)]
        assert [r.status_code for r in responses[:60]] == [422] * 60
        refused = responses[60]
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "60"
        assert "Try again in 60 seconds." in words(refused)
        assert (await other.send("/forgot", {"email": "no"})).status_code == 422
        assert (await flood.open("/forgot")).status_code == 200
        site.clock.advance(60_000)
        assert (await flood.send("/forgot", {"email": "no"})).status_code == 422


async def test_a_get_request_to_a_form_does_not_end_the_session(alice: Person) -> None:
    for path in [*SESSION_FORMS, *OPEN_FORMS]:
        assert (await alice.open(path)).status_code < 500
    assert await alice.csrf()
