"""Settings > Two-factor sign-in, and sign-in with two factors, in browsers without scripts."""

import re
from base64 import b32decode
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factors import STEP_MS, WrongCode, code_at, step_of
from mintscope.accounts.session import SecondFactorDue
from mintscope.accounts.user import TooManyAttempts
from mintscope.app.config.config import WebConfig
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.time import DAY_MS, MINUTE_MS
from support.scenes.people.web_person import (
    ALICE,
    MALLORY,
    ORIGIN,
    Person,
    expect_harmless,
    tags,
    where,
    words,
)
from support.scenes.website import ADMINISTRATOR, HERE, PASSWORD, Website, website

FACTORS = "/settings/second-factor"
CODE = re.compile(r"\b[2-9a-z]{5}-[2-9a-z]{5}\b")
DUE = pytest.raises(SecondFactorDue)


class Phone:
    """An authenticator app: it knows the secret that it read from the page."""

    def __init__(self, site: Website, secret: bytes) -> None:
        self._site = site
        self.secret = secret

    def code(self, *, later: int = 0) -> str:
        return code_at(self.secret, step_of(self._site.clock.now()) + later)


async def scan(site: Website, person: Person) -> Phone:
    """Begin to add an authenticator app; return a phone with the secret of the `otpauth:` link."""
    assert where(await person.send(f"{FACTORS}/app")) == f"{FACTORS}/app"
    page = await person.open(f"{FACTORS}/app")
    links = [found["href"] for tag, found in tags(page) if tag == "a"]
    (address,) = [link for link in links if link.startswith("otpauth:")]
    secret = parse_qs(urlsplit(address).query)["secret"][0]
    return Phone(site, b32decode(secret))


async def add_app(site: Website, person: Person) -> tuple[Phone, list[str]]:
    """Add an app; return the app and the recovery codes that the page shows."""
    phone = await scan(site, person)
    shown = await person.send(f"{FACTORS}/app/confirm", {"code": phone.code()})
    assert shown.status_code == 200
    codes = CODE.findall(shown.text)
    assert len(codes) == 10
    site.clock.advance(STEP_MS)  # each code of the app is accepted only once
    return phone, codes


async def ticket(person: Person, **fields: str) -> str:
    """Enter the password; return the ticket in the page that asks for the second factor."""
    asked = await person.sign_in(**fields)
    assert asked.status_code == 200, words(asked)
    assert person.cookie is None
    expect_harmless(asked)
    (found,) = {each["value"] for _, each in tags(asked) if each.get("name") == "ticket"}
    return found


async def test_signing_in_requires_a_fresh_code_of_the_app(site: Website, alice: Person) -> None:
    phone, _ = await add_app(site, alice)
    async with Person(site, address="198.51.100.7") as person:
        for_it = await ticket(person, next="/settings/account")
        assert where(await person.open("/settings/account")).startswith("/sign-in")
        wrong = await person.send("/sign-in/code", {"ticket": for_it, "code": "000000"})
        assert wrong.status_code == 422
        assert "This code is wrong" in words(wrong)
        form = {"ticket": for_it, "next": "/settings/account"}
        entered = await person.send("/sign-in/code", form | {"code": f" {phone.code()} "})
        assert where(entered) == "/settings/account"
        assert ALICE in words(await person.open("/settings/account"))
    async with Person(site, address="198.51.100.8") as thief:  # has seen the password and the code
        again = {"ticket": await ticket(thief), "code": phone.code()}
        assert (await thief.send("/sign-in/code", again)).status_code == 422
        used = {"ticket": for_it, "code": phone.code(later=1)}
        assert "Sign in again" in words(await thief.send("/sign-in/code", used))
        assert thief.cookie is None


async def test_a_recovery_code_works_once_sends_an_email_and_is_voided_by_new_codes(
    site: Website, alice: Person
) -> None:
    _, codes = await add_app(site, alice)
    async with Person(site, address="198.51.100.7") as person:
        form = {"ticket": await ticket(person), "code": codes[3].upper().replace("-", " ")}
        assert where(await person.send("/sign-in/code", form)) == "/"
        assert "9 of ten left" in words(await person.open(FACTORS))
        assert "codes left: 9" in await site.email(ALICE)
    async with Person(site, address="198.51.100.7") as person:
        form = {"ticket": await ticket(person), "code": codes[3]}
        assert (await person.send("/sign-in/code", form)).status_code == 422
    fresh = await alice.send(f"{FACTORS}/codes", {"sure": "yes"})
    renewed = CODE.findall(fresh.text)
    assert len(set(renewed)) == 10
    assert not set(renewed) & set(codes)
    async with Person(site, address="198.51.100.7") as person:
        for_it = await ticket(person)
        old = await person.send("/sign-in/code", {"ticket": for_it, "code": codes[5]})
        assert old.status_code == 422
        new = await person.send("/sign-in/code", {"ticket": for_it, "code": renewed[5]})
        assert where(new) == "/"


async def test_no_file_contains_a_recovery_code_a_ticket_or_the_secret_of_an_app(
    site: Website, alice: Person
) -> None:
    phone = await scan(site, alice)
    shown = await alice.send(f"{FACTORS}/app/confirm", {"code": phone.code()})
    codes = CODE.findall(shown.text)
    assert shown.headers["cache-control"] == "no-store"
    async with Person(site, address="198.51.100.7") as person:
        for_it = await ticket(person)
    for file in site.folder.iterdir():
        held = file.read_bytes()
        for secret in [*codes, *(code.replace("-", "") for code in codes), for_it]:
            assert secret.encode() not in held, file
        assert phone.secret not in held, file


async def test_guesses_of_codes_are_limited_over_all_client_addresses(
    site: Website, alice: Person
) -> None:
    phone, _ = await add_app(site, alice)
    refused = []
    for number in range(8):
        async with Person(site, address=f"198.51.{number}.1") as thief:
            for_it = await ticket(thief)
        statuses = []
        for guess in range(11):
            async with Person(site, address=f"203.0.{number}.{guess}") as thief:
                form = {"ticket": for_it, "code": f"{guess:06}"}
                statuses.append((await thief.send("/sign-in/code", form)).status_code)
        refused.append(statuses.count(429))
        site.clock.advance(16 * MINUTE_MS)
    assert refused == [1] * 5 + [11] * 3  # ten in 15 minutes, fifty in a day
    site.clock.advance(DAY_MS)
    async with Person(site, address="198.51.100.7") as person:
        form = {"ticket": await ticket(person), "code": phone.code()}
        assert where(await person.send("/sign-in/code", form)) == "/"


async def sign_in(site: Website, password: str, code: str) -> str | None:
    """Sign in with *password* and *code*, without pages; return the cookie of the session."""
    with DUE as due:
        await site.accounts.people.sign_in(EmailAddress(ALICE), password, HERE)
    return await site.accounts.second_step.by_code(due.value.ticket, code, HERE)


async def wrong_codes(site: Website, password: str) -> int:
    """Enter 11 wrong codes in each of eight quarters of an hour; return how many are checked."""
    checked = 0
    for _ in range(8):
        for _ in range(11):
            with pytest.raises((WrongCode, TooManyAttempts)) as failure:
                await sign_in(site, password, "000000")
            checked += failure.type is WrongCode
        site.clock.advance(16 * MINUTE_MS)
    return checked


async def reset(site: Website, password: str) -> None:
    people = site.accounts.people
    await people.request_reset(EmailAddress(ALICE), HERE)
    link = (await site.link(ALICE)).rpartition("/")[2]
    assert await people.reset(link, password) is not None


async def test_a_thief_with_the_former_password_cannot_use_up_the_codes_of_the_owner(
    site: Website, alice: Person
) -> None:
    site.clock.advance(6 * MINUTE_MS)
    await reset(site, PASSWORD)  # the address is verified now
    await alice.sign_in()
    phone, _ = await add_app(site, alice)
    assert await wrong_codes(site, PASSWORD) == 50
    with pytest.raises(TooManyAttempts):
        await sign_in(site, PASSWORD, phone.code())

    await reset(site, "the second password")

    assert await sign_in(site, "the second password", phone.code()) is not None


async def test_resets_of_the_password_allow_at_most_100_wrong_codes_in_a_day(
    site: Website, alice: Person
) -> None:
    """A second factor must hold if a thief reads the e-mails of the owner."""
    site.clock.advance(6 * MINUTE_MS)
    await reset(site, PASSWORD)
    await alice.sign_in()
    await add_app(site, alice)

    checked = [await wrong_codes(site, PASSWORD)]
    for password in ("the second password", "the third password"):
        await reset(site, password)
        checked.append(await wrong_codes(site, password))

    assert checked == [50, 50, 0]


async def test_a_ticket_ends_after_ten_minutes_or_a_change_of_the_password(
    site: Website, alice: Person
) -> None:
    phone, _ = await add_app(site, alice)
    async with Person(site, address="198.51.100.7") as person:
        late = await ticket(person)
        site.clock.advance(10 * MINUTE_MS)
        sent = await person.send("/sign-in/code", {"ticket": late, "code": phone.code()})
        assert "Sign in again" in words(sent)
        voided = await ticket(person)
        await alice.send("/prove", {"password": PASSWORD})
        await alice.send("/settings/account/password", {"password": "staple horse battery"})
        sent = await person.send("/sign-in/code", {"ticket": voided, "code": phone.code()})
        assert "Sign in again" in words(sent)
        assert person.cookie is None
        assert where(await person.open("/sign-in/code")) == "/sign-in"


async def test_an_app_is_required_only_after_it_is_confirmed_by_a_code(
    site: Website, alice: Person
) -> None:
    phone = await scan(site, alice)
    wrong = await alice.send(f"{FACTORS}/app/confirm", {"code": "000000"})
    assert wrong.status_code == 422
    async with Person(site, address="198.51.100.7") as person:
        assert where(await person.sign_in()) == "/"
        await alice.send(f"{FACTORS}/app/confirm", {"code": phone.code()})
        # The sign-in that began with the password alone is over.
        assert where(await person.open("/settings/account")).startswith("/sign-in")
    assert "was added" in await site.email(ALICE)


async def test_removing_the_last_factor_deletes_the_recovery_codes(
    site: Website, alice: Person
) -> None:
    _, codes = await add_app(site, alice)
    assert "This turns two-factor sign-in off" in words(await alice.open(f"{FACTORS}/app/remove"))
    await alice.send(f"{FACTORS}/app/remove", {"sure": "yes"})
    assert site.rows("SELECT count(*) FROM recovery_code") == [(0,)]
    assert "was removed" in await site.email(ALICE)
    async with Person(site, address="198.51.100.7") as person:
        assert where(await person.sign_in()) == "/"
    actions = [action for (action,) in site.rows("SELECT action FROM account_event ORDER BY id")]
    assert actions[-3:-1] == [
        "an authenticator app was added",
        "the authenticator app was removed",
    ]
    assert codes


async def test_a_new_password_does_not_replace_the_second_factor(
    site: Website, alice: Person
) -> None:
    await alice.send("/settings/account/verify")
    await alice.send(await site.link(ALICE))
    phone, _ = await add_app(site, alice)
    site.clock.advance(6 * MINUTE_MS)
    async with Person(site, address="198.51.100.7") as person:
        await person.send("/forgot", {"email": ALICE})
        await person.send(await site.link(ALICE), {"password": "staple horse battery"})
        form = {"ticket": await ticket(person, password="staple horse battery")}
        assert where(await person.send("/sign-in/code", form | {"code": phone.code()})) == "/"


async def test_a_reset_of_an_unverified_address_drops_the_app_of_a_stranger(
    site: Website, alice: Person
) -> None:
    await add_app(site, alice)  # of a stranger, who signed up with the owner's address
    site.clock.advance(6 * MINUTE_MS)
    async with Person(site, address="198.51.100.7") as owner:
        await owner.send("/forgot", {"email": ALICE})
        await owner.send(await site.link(ALICE), {"password": "staple horse battery"})
        assert where(await owner.sign_in(password="staple horse battery")) == "/"


async def test_an_administrator_can_turn_off_the_two_factor_sign_in_of_a_user(
    site: Website, alice: Person
) -> None:
    await add_app(site, alice)
    await site.accounts.review.drop_second_factor(UserId(1), actor=COMMAND_LINE)
    async with Person(site, address="198.51.100.7") as person:
        assert where(await person.sign_in()) == "/"
    assert where(await alice.open(FACTORS)).startswith("/sign-in")
    assert "an administrator turned off" in await site.email(ALICE)


async def test_an_unknown_passkey_is_404_and_an_invalid_new_passkey_is_refused(
    site: Website, alice: Person
) -> None:
    site.clock.advance(DAY_MS)
    await alice.sign_in()
    assert (await alice.open(f"{FACTORS}/passkeys/1/remove")).status_code == 404
    refused = await alice.send(f"{FACTORS}/passkeys/new", {"name": "x", "answer": "{}"})
    assert refused.status_code == 422
    assert "did not prove itself" in words(refused)
    unnamed = await alice.send(f"{FACTORS}/passkeys/new", {"name": "", "answer": "{}"})
    assert "Give it a name" in words(unnamed)


async def test_administrators_need_a_second_factor_if_it_is_configured(tmp_path: Path) -> None:
    web = WebConfig(second_factor_for_administrators=True)
    async with website(tmp_path, web=web, origin=ORIGIN) as site:
        await site.make_administrator()
        async with Person(site) as administrator:
            await administrator.sign_in(ADMINISTRATOR)
            for path in ("/admin", "/admin/users"):
                barred = await administrator.open(path)
                assert barred.status_code == 403
                assert "Two-factor sign-in is required" in words(barred)
            await add_app(site, administrator)
            assert (await administrator.open("/admin")).status_code == 200
        async with Person(site) as person:
            await person.sign_up(MALLORY)
            assert (await person.open("/admin")).status_code == 404
        with DUE:
            await site.accounts.people.sign_in(ADMINISTRATOR, PASSWORD, HERE)
