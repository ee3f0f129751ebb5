"""The pages to sign up, to sign in and to reset a password: their fields and answers."""

import re
import time

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.pages import RESET_LEAST_S
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.http import application as constant_time
from support.scenes.people.web_person import ALICE, COOKIE, MALLORY, Person, where, words
from support.scenes.website import MINUTE_MS, PASSWORD, Website

NEW_PASSWORD = "a different good one"
TAKEN = "An account with this address already exists."
INVALID_CREDENTIALS_TEXT = "The e-mail address or the password is wrong."


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"email": "", "password": PASSWORD}, "email", "Expected an e-mail address; it is empty."),
        ({"password": PASSWORD}, "email", "Expected an e-mail address; it is empty."),
        ({"email": "a@", "password": PASSWORD}, "email", "Expected an e-mail address, as name@"),
        ({"email": "a@b.example\nbcc: x@y.example", "password": PASSWORD}, "email", "Expected an"),
        ({"email": "a@b.example, c@d.example", "password": PASSWORD}, "email", "Expected an"),
        ({"email": f"{'a' * 250}@b.example", "password": PASSWORD}, "email", "at most 254"),
        (
            {"email": ALICE, "password": ""},
            "password",
            "Expected 10 to 200 characters; there were 0.",
        ),
        (
            {"email": ALICE, "password": "short"},
            "password",
            "Expected 10 to 200 characters; there were 5",
        ),
        ({"email": ALICE, "password": "x" * 201}, "password", "Expected 10 to 200 characters"),
        ({"email": ALICE, "password": "a" * 12}, "password", "that is harder to guess."),
        ({"email": ALICE, "password": ALICE}, "password", "that is harder to guess."),
    ],
)
async def test_an_invalid_sign_up_shows_the_error_beside_the_field(
    site: Website, fields: dict[str, str], field: str, message: str
) -> None:
    async with Person(site) as person:
        response = await person.send("/sign-up", fields)
        assert response.status_code == 422
        (error,) = re.findall(rf'<p class="error" id="{field}-error">(.*?)</p>', response.text)
        assert message in error
        (tag,) = re.findall(rf'<input id="{field}"[^>]*>', response.text)
        assert 'aria-invalid="true"' in tag
        assert f"{field}-error" in tag
        assert "autofocus" in tag
        assert "<title>Error: " in response.text
        assert person.cookie is None
        if fields.get("password"):
            assert f'"{fields["password"]}"' not in re.sub(
                r'<input id="email"[^>]*>', "", response.text
            )


async def test_all_mistakes_are_reported_together(site: Website) -> None:
    async with Person(site) as person:
        response = await person.send("/sign-up", {"email": "a@", "password": "b"})
    assert response.text.count('aria-invalid="true"') == 2
    assert response.text.count("autofocus") == 1
    assert 'value="a@"' in response.text


async def test_fields_have_the_types_and_autocomplete_values_for_password_managers(
    alice: Person,
) -> None:
    async with Person(alice.site) as stranger:
        up, into = await stranger.open("/sign-up"), await stranger.open("/sign-in")
    assert re.search(r'id="email"[^>]*type="email"[^>]*autocomplete="username"', up.text)
    assert re.search(r'id="password"[^>]*type="password"[^>]*autocomplete="new-password"', up.text)
    assert re.search(r'id="password"[^>]*autocomplete="current-password"', into.text)
    change = (await alice.open("/settings/account/password")).text
    assert f'value="{ALICE}" autocomplete="username"' in change
    assert 'autocomplete="new-password"' in change


async def test_an_address_has_one_account_however_it_is_written(alice: Person) -> None:
    async with Person(alice.site) as other:
        for email in [ALICE, "ALICE@Example.ORG", f"  {ALICE} "]:
            response = await other.sign_up(email)
            assert response.status_code == 422
            assert TAKEN in words(response)
        assert other.cookie is None
        assert where(await other.sign_in(" Alice@Example.org")) == "/"


async def test_a_failed_sign_in_looks_equal_for_a_wrong_address_or_password(alice: Person) -> None:
    async with Person(alice.site) as other:
        wrong = await other.sign_in(ALICE, "not her password")
        unknown = await other.sign_in("no-one@example.org", "not her password")
    assert wrong.status_code == unknown.status_code == 422
    assert INVALID_CREDENTIALS_TEXT in words(wrong)
    assert wrong.text.replace(ALICE, "X") == unknown.text.replace("no-one@example.org", "X")
    assert "not her password" not in wrong.text


async def test_a_sign_in_without_a_password_is_refused_with_all_errors(site: Website) -> None:
    async with Person(site) as person:
        response = await person.sign_in("a@", "")
        assert response.status_code == 422
        assert "Enter your password." in words(response)
        assert "Expected an e-mail address" in words(response)


async def test_too_many_guesses_are_429_for_the_guesser_alone(alice: Person) -> None:
    async with Person(alice.site, address="203.0.113.66") as guesser:
        for _ in range(10):
            assert (await guesser.sign_in(ALICE, "a wrong guess")).status_code == 422
        for password in ["a wrong guess", PASSWORD]:
            response = await guesser.sign_in(ALICE, password)
            assert response.status_code == 429
            assert response.headers["retry-after"] == "900"
            assert "Too many attempts" in words(response)
            assert "Try again in 15 minutes." in words(response)
            assert guesser.cookie is None
        async with Person(alice.site) as owner:
            assert where(await owner.sign_in()) == "/"
        alice.site.clock.advance(15 * MINUTE_MS)
        assert where(await guesser.sign_in(ALICE, PASSWORD)) == "/"


async def test_proofs_of_the_password_are_limited_to_ten_guesses(alice: Person) -> None:
    for _ in range(10):
        assert (await alice.send("/prove", {"password": "a wrong guess"})).status_code == 422
    response = await alice.send("/prove", {"password": PASSWORD})
    assert response.status_code == 429
    assert response.headers["retry-after"] == "900"


async def test_a_reset_request_takes_its_minimum_time_for_any_address(
    alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the answer is set before the address is looked up."""
    moments: list[float] = []
    monkeypatch.setattr(constant_time, "_sleep_until", moments.append)
    for email in (ALICE, "no-one@example.org"):
        before_s = time.perf_counter()
        await alice.send("/forgot", {"email": email})
        due_s = moments.pop()

        assert moments == []
        assert due_s - before_s >= RESET_LEAST_S
        assert time.perf_counter() - before_s >= RESET_LEAST_S - constant_time.LEAST_S


async def test_a_forgotten_password_is_reset_by_a_link_in_an_email(alice: Person) -> None:
    async with Person(alice.site) as elsewhere:
        response = await elsewhere.send("/forgot", {"email": "Alice@example.org"})
        assert where(response) == "/forgot?notice=reset-sent"
        link = await alice.site.link(ALICE)
        for _ in range(3):  # an e-mail scanner that opens the link does not use it up
            page = await elsewhere.open(link)
            assert page.status_code == 200
            assert ALICE in words(page)
        weak = await elsewhere.send(link, {"password": "short"})
        assert weak.status_code == 422
        assert "Expected 10 to 200 characters; there were 5." in words(weak)
        done = await elsewhere.send(link, {"password": NEW_PASSWORD})
        assert where(done) == "/sign-in?notice=password-reset"
        assert (await alice.open("/settings/account")).status_code == 303  # her session has ended
        again = await elsewhere.send(link, {"password": "yet another one"})
        assert again.status_code == 404
        assert "This link does not work" in words(again)
        assert where(await elsewhere.sign_in(ALICE, NEW_PASSWORD)) == "/"
        assert "Verified" in words(await elsewhere.open("/settings/account"))


async def test_a_reset_ends_the_session_in_which_it_was_made(alice: Person) -> None:
    await alice.send("/forgot", {"email": ALICE})
    link = await alice.site.link(ALICE)
    assert where(await alice.send(link, {"password": NEW_PASSWORD})).startswith("/sign-in")
    assert alice.cookie is None


async def test_a_reset_request_does_not_reveal_whether_an_account_exists(alice: Person) -> None:
    async with Person(alice.site) as other:
        known = await other.send("/forgot", {"email": ALICE})
        unknown = await other.send("/forgot", {"email": "no-one@example.org"})
        assert where(known) == where(unknown)
        bad = await other.send("/forgot", {"email": "no one"})
        assert bad.status_code == 422
        assert "Expected an e-mail address" in words(bad)


async def test_a_reset_link_ends_after_an_hour(alice: Person) -> None:
    await alice.send("/forgot", {"email": ALICE})
    link = await alice.site.link(ALICE)
    alice.site.clock.advance(60 * MINUTE_MS)
    async with Person(alice.site) as other:
        assert (await other.open(link)).status_code == 404
        assert (await other.send(link, {"password": NEW_PASSWORD})).status_code == 404
        assert where(await other.sign_in()) == "/"


@pytest.mark.parametrize("link", ["1.x", "x", "1.", ".x", "99999999999999999999.x", "1", "1.x.y"])
async def test_made_up_links_do_nothing(site: Website, link: str) -> None:
    async with Person(site) as person:
        await person.sign_up()
        for page in ["/reset", "/confirm"]:
            assert "This link does not work" in words(await person.open(f"{page}/{link}"))
        fields = {"password": NEW_PASSWORD, "answer": "mine"}
        for page in ["/reset", "/confirm", "/verify", "/claim"]:
            response = await person.send(f"{page}/{link}", fields)
            assert response.status_code == 404
            assert "This link does not work" in words(response)


async def test_signing_up_with_the_address_of_a_victim_gains_nothing(site: Website) -> None:
    """The attacker signs up with the victim's address before the victim does."""
    async with Person(site) as attacker, Person(site) as victim:
        await attacker.sign_up(ALICE)
        verify = await site.link(ALICE)
        spied = "/settings/api-keys/new/review?name=spy&trade=write&lifetime=never"
        assert "svc_live_" in (await attacker.send(spied, {"newest": "0"})).text
        # The victim opens the e-mail, signed in nowhere: it is of no use without the session.
        assert where(await victim.open(verify)).startswith("/sign-in?next=%2Fverify%2F")
        assert where(await victim.send(verify)).startswith("/sign-in")
        assert "Not verified" in words(await attacker.open("/settings/account"))
        # The victim takes the account over by a link in an e-mail.
        assert TAKEN in words(await victim.sign_up(ALICE, NEW_PASSWORD))
        await victim.send("/forgot", {"email": ALICE})
        await victim.send(await site.link(ALICE), {"password": NEW_PASSWORD})
        assert (await attacker.open("/settings/account")).status_code == 303
        assert (await attacker.sign_in(ALICE, PASSWORD)).status_code == 422
        await victim.sign_in(ALICE, NEW_PASSWORD)
        person = await site.accounts.people.session(victim.cookie or "")
        assert person is not None
        keys = await site.accounts.keys.of_user(person.user.user_id)
        assert [(key.name, key.revoked_at is None) for key in keys] == [("spy", False)]


async def test_a_verification_link_works_only_in_the_account_that_requested_it(
    alice: Person,
) -> None:
    link = await alice.site.link(ALICE)
    async with Person(alice.site) as mallory:
        await mallory.sign_up(MALLORY)
        assert "Verify your mailbox" in words(await mallory.open(link))
        response = await mallory.send(link)
        assert response.status_code == 404
        assert f"You are signed in as {MALLORY}" in words(response)
    assert "Not verified" in words(await alice.open("/settings/account"))
    assert (await alice.open(link)).status_code == 200
    assert "Not verified" in words(await alice.open("/settings/account"))
    assert where(await alice.send(link)) == "/settings/account?notice=verified"
    assert "Not verified" not in words(await alice.open("/settings/account"))
    assert where(await alice.open(link)) == "/settings/account?notice=verified"


async def test_verification_emails_are_five_minutes_apart(alice: Person) -> None:
    assert alice.site.accounts.mailbox is not None
    for minutes, emails in [(0, 1), (4, 1), (1, 2), (1, 2)]:
        alice.site.clock.advance(minutes * MINUTE_MS)
        response = await alice.send("/settings/account/verify")
        assert where(response) == "/settings/account?notice=verification-sent"
        assert len(await alice.site.accounts.mailbox.recent(limit=10)) == emails


async def test_the_session_of_a_removed_account_is_not_valid(alice: Person) -> None:
    session = await alice.site.accounts.people.session(alice.cookie or "")
    assert session is not None
    await alice.site.accounts.review.remove_user(session.user.user_id, actor=COMMAND_LINE)
    assert (await alice.open("/settings/account")).status_code == 303
    assert (await alice.sign_in()).status_code == 422
    assert where(await alice.sign_up(EmailAddress(ALICE))) == "/?notice=signed-up"
    assert alice.client.cookies.get(COOKIE) is not None
