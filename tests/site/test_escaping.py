"""Every page shows texts of strangers as text, never as HTML."""

import re

from support.scenes.people.web_person import Person, expect_harmless
from support.scenes.website import Website

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{ 7 * 7 }}{% raw %}"
MOTIVATION = f"{HOSTILE}\njavascript:alert(1)"

TURNED = "\u202eTo trade.\u2066\u200f\n\u05d0\u05d1 \u0663"  # they turn or hide text
SHOWN = "<bdi>\\u202eTo trade.\\u2066\\u200f\n\u05d0\u05d1 \u0663</bdi>"


async def test_a_hostile_user_agent_is_shown_as_an_unknown_browser(alice: Person) -> None:
    async with Person(alice.site) as other:
        other.client.headers["user-agent"] = HOSTILE
        await other.sign_in()
        for visitor in [alice, other]:
            page = await visitor.open("/settings/sessions")
            expect_harmless(page)
            assert "An unknown browser" in page.text


async def test_hostile_input_is_escaped_when_its_form_is_shown_again(site: Website) -> None:
    async with Person(site) as person:
        for path in ["/sign-up", "/sign-in", "/forgot"]:
            response = await person.send(path, {"email": HOSTILE, "next": f"/{HOSTILE}"})
            assert response.status_code == 422
            expect_harmless(response)
            assert (
                "&lt;script&gt;alert(1)&lt;/script&gt;" in response.text
            )  # the input stays in the form


async def test_a_hostile_path_or_query_is_harmless(site: Website) -> None:
    async with Person(site) as person:
        for path in [
            "/reset/{}",
            "/confirm/{}",
            "/mailbox/{}",
            "/{}",
            "/sign-in?next={}",
            "/?a={}",
        ]:
            expect_harmless(await person.open(path.format(HOSTILE)))


async def test_a_hostile_request_header_is_harmless(site: Website) -> None:
    async with Person(site) as person:
        headers = {"origin": HOSTILE, "content-type": HOSTILE}
        response = await person.client.post("/sign-in", content=b"a=b", headers=headers)
        assert response.status_code == 403
        expect_harmless(response)
        headers = {"origin": site.origin, "content-type": HOSTILE}
        response = await person.client.post("/sign-in", content=b"a=b", headers=headers)
        assert response.status_code == 400
        expect_harmless(response)


async def test_html_in_an_application_is_escaped(site: Website) -> None:
    administrator = await site.make_administrator()
    signup_id = await site.apply("agent@example.org", MOTIVATION)
    async with Person(site) as person:
        await person.sign_in(administrator)
        for path in ["/admin?state=all", f"/admin/applications/{signup_id}"]:
            page = await person.open(path)
            expect_harmless(page)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
        assert "{{ 7 * 7 }}" in page.text


async def test_characters_that_change_the_text_direction_are_shown_as_codes(site: Website) -> None:
    administrator = await site.make_administrator()
    signup_id = await site.apply("agent@example.org", TURNED)
    async with Person(site) as person:
        await person.sign_in(administrator)
        for path in ["/admin?state=awaiting_confirmation", f"/admin/applications/{signup_id}"]:
            page = await person.open(path)
            assert SHOWN in page.text
            assert re.search("<bdi>agent(<wbr>)?@example.org</bdi>", page.text)
            assert not set("\u202e\u2066\u200f") & set(page.text)
