"""Sessions in browsers: their cookies, their beginning and their end."""

import re

import pytest

from support.scenes.people.web_person import ALICE, COOKIE, MALLORY, Person, where, words
from support.scenes.website import MINUTE_MS, PASSWORD, Website

PLANTED = "A" * 43
OTHER_PASSWORD = "a different good one"


async def test_the_session_cookie_is_host_only_secure_and_hidden_from_scripts(
    site: Website,
) -> None:
    async with Person(site) as person:
        response = await person.sign_up()
    (cookie,) = response.headers.get_list("set-cookie")
    assert re.fullmatch(
        r"__Host-mintscope=[A-Za-z0-9_-]{43}; Path=/; Secure; HttpOnly; SameSite=Lax", cookie
    )


async def test_a_planted_cookie_is_never_adopted(site: Website) -> None:
    async with Person(site) as victim:
        for arrive in [victim.sign_up, victim.sign_in]:
            victim.client.cookies.clear()
            victim.client.cookies.set(COOKIE, PLANTED, domain="shop.example")
            await victim.open("/sign-in")
            assert where(await arrive()) in {"/", "/?notice=signed-up"}
            assert victim.cookie not in {None, PLANTED}
            async with Person(site) as attacker:
                attacker.client.cookies.set(COOKIE, PLANTED, domain="shop.example")
                assert where(await attacker.open("/settings/account")).startswith("/sign-in")


async def test_a_sign_in_replaces_and_ends_the_session_of_a_planted_cookie(site: Website) -> None:
    async with Person(site) as attacker, Person(site) as victim:
        await attacker.sign_up(MALLORY)
        await victim.sign_up()
        victim.client.cookies.clear()
        assert attacker.cookie is not None
        victim.client.cookies.set(COOKIE, attacker.cookie, domain="shop.example")
        await victim.sign_in()
        assert victim.cookie != attacker.cookie
        assert MALLORY not in words(await victim.open("/"))
        # The planted session is ended, so that input from before belongs to no account.
        assert where(await attacker.open("/settings/account")).startswith("/sign-in")


async def test_every_sign_in_is_a_new_session(alice: Person) -> None:
    first = alice.cookie
    await alice.sign_in()
    assert alice.cookie != first
    assert words(await alice.open("/settings/sessions")).count("Firefox on Linux") == 1


async def test_another_sign_up_ends_the_earlier_session(alice: Person) -> None:
    kept = alice.cookie
    assert kept is not None
    await alice.sign_up(MALLORY)
    async with Person(alice.site) as other:
        other.client.cookies.set(COOKIE, kept, domain="shop.example")
        assert (await other.open("/settings/account")).status_code == 303


async def test_several_session_cookies_sign_no_user_in(alice: Person) -> None:
    async with Person(alice.site) as twice:
        headers = [("cookie", f"{COOKIE}={alice.cookie}"), ("cookie", f"{COOKIE}={PLANTED}")]
        response = await twice.client.get("/settings/account", headers=headers)
    assert response.status_code == 303


@pytest.mark.parametrize("cookie", ["", "A", "A" * 44, "é" * 43, "A" * 5_000, "' OR 1=1 --"])
async def test_an_unknown_cookie_signs_no_user_in(site: Website, cookie: str) -> None:
    async with Person(site) as person:
        header = {b"cookie": f"{COOKIE}={cookie}".encode("latin-1")}
        response = await person.client.get("/settings/account", headers=header)
    assert where(response) == "/sign-in?next=%2Fsettings%2Faccount"


@pytest.mark.parametrize(
    ("sent_from", "back"),
    [("/credits?of=token", "%2Fcredits%3Fof%3Dtoken"), ("/sign-out", ""), ("//evil.example", "")],
)
async def test_a_form_sent_while_signed_out_leads_to_sign_in_and_then_to_its_page(
    site: Website, sent_from: str, back: str
) -> None:
    async with Person(site) as person:
        referer = f"{site.origin}{sent_from}"
        response = await person.send("/settings/sessions/end", referer=referer)
    assert where(response) == (f"/sign-in?next={back}" if back else "/sign-in")


async def test_signing_out_clears_the_cookie_and_ends_the_session(alice: Person) -> None:
    kept = alice.cookie
    assert kept is not None
    response = await alice.send("/sign-out")
    assert where(response) == "/?notice=signed-out"
    assert response.headers["set-cookie"] == (
        "__Host-mintscope=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0"
    )
    assert "You are signed out." in words(await alice.open("/?notice=signed-out"))
    alice.client.cookies.set(COOKIE, kept, domain="shop.example")
    assert where(await alice.open("/settings/account")).startswith("/sign-in")


async def test_a_session_ends_after_half_an_hour_without_use(alice: Person) -> None:
    for _ in range(3):
        alice.site.clock.advance(29 * MINUTE_MS)
        assert (await alice.open("/settings/account")).status_code == 200
    alice.site.clock.advance(31 * MINUTE_MS)
    response = await alice.open("/settings/account")
    assert where(response) == "/sign-in?next=%2Fsettings%2Faccount"
    assert "Max-Age=0" in response.headers["set-cookie"]


async def test_any_session_ends_after_half_a_day(alice: Person) -> None:
    for _ in range(12 * 60 // 20 - 1):
        alice.site.clock.advance(20 * MINUTE_MS)
        assert (await alice.open("/settings/account")).status_code == 200
    alice.site.clock.advance(20 * MINUTE_MS)
    assert (await alice.open("/settings/account")).status_code == 303


async def test_a_form_of_an_ended_session_leads_to_signing_in(alice: Person) -> None:
    csrf = await alice.csrf()
    alice.site.clock.advance(31 * MINUTE_MS)
    response = await alice.send("/settings/account/verify", {"csrf": csrf})
    assert where(response) == "/sign-in"


async def test_a_person_sees_and_ends_their_other_sessions(alice: Person) -> None:
    async with Person(alice.site, address="203.0.113.9") as elsewhere:
        await elsewhere.sign_in()
        page = await alice.open("/settings/sessions")
        assert "198.51.100.1" in words(page)
        assert "203.0.113.9" in words(page)
        assert words(page).count("This one") == 1
        (other,) = re.findall(r'name="session" value="(\d+)"', page.text)
        response = await alice.send("/settings/sessions/end", {"session": other})
        assert where(response) == "/settings/sessions?notice=session-ended"
        assert where(await elsewhere.open("/settings/account")).startswith("/sign-in")
        assert (await alice.open("/settings/account")).status_code == 200


async def test_a_person_ends_all_their_other_sessions(alice: Person) -> None:
    async with Person(alice.site) as second, Person(alice.site) as third:
        await second.sign_in()
        await third.sign_in()
        response = await alice.send("/settings/sessions/end-others")
        assert where(response) == "/settings/sessions?notice=sessions-ended"
        for other in [second, third]:
            assert (await other.open("/settings/account")).status_code == 303


async def test_a_person_cannot_end_sessions_of_others(alice: Person) -> None:
    async with Person(alice.site) as mallory:
        await mallory.sign_up(MALLORY)
        for session in range(1, 5):
            if where(await mallory.send("/settings/sessions/end", {"session": session})) == (
                "/?notice=signed-out"
            ):
                await mallory.sign_in(MALLORY)
        assert (await alice.open("/settings/account")).status_code == 200
        for none in ["", "x", "-1", "1e3", "9" * 30]:
            response = await mallory.send("/settings/sessions/end", {"session": none})
            assert response.status_code == 404


async def test_ending_this_session_signs_out(alice: Person) -> None:
    response = await alice.send("/settings/sessions/end", {"session": "1"})
    assert where(response) == "/?notice=signed-out"
    assert alice.cookie is None


async def test_a_new_password_ends_all_other_sessions(alice: Person) -> None:
    async with Person(alice.site) as other:
        await other.sign_in()
        assert (await alice.open("/settings/account/password")).status_code == 200
        response = await alice.send("/settings/account/password", {"password": OTHER_PASSWORD})
        assert where(response) == "/settings/account?notice=password-changed"
        assert (await other.open("/settings/account")).status_code == 303
        assert (await other.sign_in(ALICE, PASSWORD)).status_code == 422
        assert where(await other.sign_in(ALICE, OTHER_PASSWORD)) == "/"


async def test_pages_that_need_the_password_ask_for_it_after_ten_minutes(alice: Person) -> None:
    alice.site.clock.advance(10 * MINUTE_MS)
    response = await alice.open("/settings/account/password")
    assert where(response) == "/prove?next=%2Fsettings%2Faccount%2Fpassword"
    response = await alice.send("/settings/account/password", {"password": OTHER_PASSWORD})
    assert where(response) == "/prove?next=%2Fsettings%2Faccount%2Fpassword"
    wrong = await alice.send("/prove", {"password": "not it", "next": "/settings/account/password"})
    assert wrong.status_code == 422
    assert "That is not your password." in words(wrong)
    assert 'name="next" value="/settings/account/password"' in wrong.text
    right = await alice.send("/prove", {"password": PASSWORD, "next": "/settings/account/password"})
    assert where(right) == "/settings/account/password"
    assert (await alice.open("/settings/account/password")).status_code == 200
    assert where(await alice.open("/prove?next=/settings/account")) == "/settings/account"


async def test_settings_pages_lead_signed_out_visitors_to_sign_in(site: Website) -> None:
    async with Person(site) as stranger:
        for path in ["/settings/account", "/settings/sessions", "/settings/api-keys", "/prove"]:
            response = await stranger.open(path)
            assert where(response) == f"/sign-in?next={path.replace('/', '%2F')}"
            assert "set-cookie" not in response.headers
        page = await stranger.open("/sign-in?next=/settings/account")
        assert "Sign in to continue." in words(page)
