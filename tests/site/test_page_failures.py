"""Pages for failures: an explanation, a way on, and no internals."""

import re
from dataclasses import replace
from typing import Any, NoReturn

import httpx
import pytest
from structlog.testing import capture_logs

from mintscope.accounts.people import People
from mintscope.accounts.session import SessionEnded
from mintscope.app.web_api import OTHER
from mintscope.app.web_site import create_web
from mintscope.kit.errors import InvalidCredentials, ServiceUnavailable
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.metrics import REQUESTS
from support.scenes.people.web_person import ORIGIN, Person, where, words
from support.scenes.website import Website

SECRET = "the secret inside"
HTMX = {"hx-request": "true"}


class FailingEngine:
    """Replaces `People`; its methods named in *verbs* raise *error*."""

    def __init__(self, people: People, error: Exception, *verbs: str) -> None:
        self._people = people
        self._error = error
        self._verbs = verbs

    def __getattr__(self, verb: str) -> Any:
        return self._fail if verb in self._verbs else getattr(self._people, verb)

    async def _fail(self, *_: object) -> NoReturn:
        raise self._error


def with_failure(site: Website, error: Exception, *verbs: str) -> Person:
    """Return a visitor of a site whose `People` raises *error* in the methods *verbs*.

    verbs   none: `session`, which finds the session of a request
    """
    people: Any = FailingEngine(site.accounts.people, error, *(verbs or ["session"]))
    app = create_web(
        parts=replace(site.accounts, people=people, mailbox=None),
        origins=[ORIGIN],
        clock=site.clock,
        limits=AddressLimits(MemoryLimits(site.clock), ClientAddresses()),
        limit=OTHER,
    )
    person = Person(replace(site, app=app, administration=app, api=app))
    person.client.cookies.set("__Host-mintscope", "A" * 43, domain="shop.example")
    return person


async def test_the_page_of_a_bug_shows_only_the_request_id(site: Website) -> None:
    with capture_logs() as logs:
        async with with_failure(site, RuntimeError(SECRET)) as person:
            response = await person.open("/settings/account")
    assert response.status_code == 500
    request_id = response.headers["x-request-id"]
    text = words(response)
    assert "Something went wrong on our side" in text
    assert f"Request id {request_id}" in text
    assert SECRET not in response.text
    assert "RuntimeError" not in response.text
    (line,) = [each for each in logs if each["event"] == "request failed"]
    assert line["request_id"] == request_id


async def test_an_error_without_a_text_for_pages_is_a_500(site: Website) -> None:
    with capture_logs() as logs:
        async with with_failure(site, InvalidCredentials()) as person:
            assert (await person.open("/")).status_code == 500
    assert [each["event"] for each in logs] == ["request failed"]


async def test_a_store_that_does_not_answer_is_503(site: Website) -> None:
    async with with_failure(site, ServiceUnavailable(SECRET)) as person:
        for response in [await person.open("/"), await person.send("/sign-out", {"csrf": "x"})]:
            assert response.status_code == 503
            assert "Nothing was changed. Try again in a moment." in words(response)
            assert SECRET not in response.text


async def test_a_new_account_exists_even_if_the_steps_after_it_fail(site: Website) -> None:
    error = ServiceUnavailable("")
    async with with_failure(site, error, "request_verification", "sign_out") as person:
        person.client.cookies.clear()
        for arrive in [person.sign_up, person.sign_in]:
            assert where(await arrive()) in {"/?notice=signed-up", "/"}
            assert await person.csrf()


async def test_a_session_ended_in_the_middle_of_a_form_leads_to_signing_in(site: Website) -> None:
    async with with_failure(site, SessionEnded(), "change_password") as person:
        person.client.cookies.clear()
        await person.sign_up()
        response = await person.send("/settings/account/password", {"password": "a new good one"})
        assert where(response) == "/sign-in?next=%2Fsettings%2Faccount%2Fpassword"
        assert "Max-Age=0" in response.headers["set-cookie"]


async def test_an_unknown_page_is_a_404(alice: Person) -> None:
    for path in ["/nothing", "/settings/none", "/reset", "/reset/", "/reset/a/b", "/reset/a%0ab"]:
        response = await alice.open(path)
        assert response.status_code == 404
        assert "This page does not exist" in words(response)
        assert "Sign out" in words(response)  # the visitor is still signed in


@pytest.mark.parametrize("path", ["/?a=%ff", "/?notice=a&notice=b", "/?" + "&".join(["a=1"] * 51)])
async def test_an_unreadable_query_is_a_400(site: Website, path: str) -> None:
    async with Person(site) as person:
        response = await person.open(path)
    assert response.status_code == 400
    assert "This request cannot be read" in words(response)


async def test_an_unsupported_method_is_refused_in_words(site: Website) -> None:
    async with Person(site) as person:
        response = await person.open("/sign-out")
    assert "This page cannot be used this way" in words(response)


async def test_pages_of_failures_have_the_common_style_and_a_request_id(site: Website) -> None:
    async with Person(site) as person:
        for response in [await person.open("/nothing"), await person.open("/sign-out")]:
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert '<link rel="stylesheet" href="/static/style.css?v=' in response.text
            assert f"Request id {response.headers['x-request-id']}" in words(response)


async def test_request_ids_differ(site: Website) -> None:
    async with Person(site) as person:
        ids = {(await person.open("/nothing")).headers["x-request-id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[0-9a-f]{16}", each) for each in ids)


async def test_answers_are_counted_by_the_pattern_of_their_route(site: Website) -> None:
    def counted() -> dict[tuple[str, str], float]:
        (family,) = REQUESTS.collect()
        return {
            (sample.labels["route"], sample.labels["status"]): sample.value
            for sample in family.samples
            if sample.name.endswith("_count")
        }

    before = counted()
    async with Person(site) as person:
        for path in ["/reset/1.unheard-of", "/sign-in", "/nothing/unheard-of", "/static/style.css"]:
            await person.open(path)
        await person.send("/sign-in", origin=None)
    after = counted()
    for key in [
        ("/reset/{link}", "404"), ("/sign-in", "200"), ("unrouted", "404"),
        ("/static/{file}", "200"), ("/sign-in", "403"),
    ]:  # fmt: skip
        assert after[key] == before.get(key, 0) + 1
    assert not any("unheard-of" in route for route, _ in after)


class TestScripts:
    """Tests of responses to requests that htmx sends from a page."""

    async def test_a_session_that_ended_makes_the_browser_go_to_sign_in(
        self, alice: Person
    ) -> None:
        alice.client.cookies.clear()
        response = await alice.open("/settings/sessions", **HTMX)
        assert response.status_code == 204
        assert response.headers["hx-redirect"] == "/sign-in?next=%2Fsettings%2Fsessions"
        assert response.content == b""

    async def test_a_failure_replaces_the_content_of_the_page(self, alice: Person) -> None:
        response: httpx.Response = await alice.open("/nothing", **HTMX)
        assert response.status_code == 404
        assert response.headers["hx-retarget"] == "main"
        assert response.headers["hx-reselect"] == "main"
        assert response.headers["hx-reswap"] == "outerHTML"

    async def test_a_successful_answer_has_no_htmx_headers(self, alice: Person) -> None:
        response = await alice.open("/settings/sessions", **HTMX)
        assert response.status_code == 200
        assert not any(name.startswith("hx-") for name in response.headers)
