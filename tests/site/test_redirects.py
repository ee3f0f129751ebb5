"""Redirects stay on this site, for every link and every header."""

import pytest

from support.scenes.people.web_person import ALICE, ORIGIN, Person, where, words
from support.scenes.website import PASSWORD, Website

ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "\\\\evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "/%2f/evil.example",
    "/settings/account/../../evil",
    "/reset/..",
    "/mailbox/.",
    "/settings/account\r\nset-cookie: a=b",
    "/reset/x\r\nset-cookie: a=b",
    "/settings/account#//evil.example",
    "/settings/account;//evil.example",
    "@evil.example/",
    ".evil.example/",
    " /settings/account",
    "/nothing-here",
    "/sign-out",  # not a page: it accepts POST only
    "settings/account",
    "/settings/account/",
]
OWN = [
    "/settings/account",
    "/settings/api-keys",
    "/settings/api-keys/new?preset=none",
    "/claim/12.abcDEF-_",
    "/",
]


async def test_a_person_already_signed_in_is_never_led_to_another_site(alice: Person) -> None:
    for elsewhere in ELSEWHERE:
        for page in ["/sign-in", "/sign-up", "/prove"]:
            response = await alice.client.get(page, params={"next": elsewhere})
            assert where(response) == "/", elsewhere


@pytest.mark.storm
async def test_signing_in_never_leads_to_another_site(alice: Person) -> None:
    async with Person(alice.site) as again:
        for elsewhere in ELSEWHERE[:8]:
            assert where(await again.sign_in(next=elsewhere)) == "/", elsewhere
            response = await again.send("/prove", {"password": PASSWORD, "next": elsewhere})
            assert where(response) == "/", elsewhere


async def test_signing_in_leads_back_to_the_page_that_asked_for_it(alice: Person) -> None:
    async with Person(alice.site) as again:
        for own in OWN:
            assert where(await again.sign_in(next=own)) == own


async def test_signing_up_leads_back_to_the_page_that_asked_for_it(site: Website) -> None:
    async with Person(site) as person:
        fields = {"email": ALICE, "password": PASSWORD, "next": "/settings/api-keys"}
        assert where(await person.send("/sign-up", fields)) == (
            "/settings/api-keys?notice=signed-up"
        )


async def test_an_unsafe_query_is_removed_from_a_redirect(alice: Person) -> None:
    page = "/settings/api-keys/new"
    for query in [
        "a=//evil.example", "a=b\r\nset-cookie:x", "a=<b>", "a=b#c", "a=b\\c", "a" * 2_000,
    ]:  # fmt: skip
        response = await alice.client.get("/prove", params={"next": f"{page}?{query}"})
        assert where(response) == page, query


async def test_only_a_known_notice_is_shown(site: Website) -> None:
    async with Person(site) as person:
        assert "You are signed out." in words(await person.open("/?notice=signed-out"))
        page = await person.open("/?notice=Call+this+number")
        assert "Call this number" not in page.text
        assert 'class="notice"' not in page.text


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"x-forwarded-host": "evil.example"},
        {"forwarded": "host=evil.example"},
        {"x-forwarded-proto": "gopher"},
        {"x-original-url": "/admin"},
    ],
)
async def test_the_host_header_of_a_request_is_never_used(
    site: Website, headers: dict[str, str]
) -> None:
    async with Person(site) as person:
        for path in ["/", "/sign-in", "/nothing", "/settings/account"]:
            response = await person.open(path, **headers)
            shown = response.text + str(response.headers)
            assert "evil.example" not in shown
            assert "gopher" not in shown
        await person.sign_up()
        await person.send("/forgot", {"email": ALICE}, **headers)
    assert (await site.link(ALICE)).startswith("/reset/")
    email = await site.email(ALICE)
    assert f"{ORIGIN}/reset/" in email
    assert "evil.example" not in email


async def test_no_redirect_names_a_host(alice: Person) -> None:
    for path in ["/prove", "/sign-in", "/sign-up"]:
        assert where(await alice.open(path)) == "/"
