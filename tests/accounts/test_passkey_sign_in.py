"""Sign-in by a passkey alone, with pages and forms of the service and a simulated device."""

import json
import os
from asyncio import gather, sleep
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from typing_extensions import override

from mintscope.accounts.factor_rows import PASSKEYS_MAX, NewPasskey, WebAuthn
from mintscope.accounts.session import FRESH_MS
from mintscope.accounts.sessions import NOTICES_MAX
from mintscope.app.config.config import WebConfig
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.kit.time import DAY_MS, MINUTE_MS
from support.scenes.engine import writing
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
from support.scenes.website import PASSWORD, Website, website

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class HeldPasskey:
    """A passkey as its device stores it."""

    credential_id: bytes
    private_key: EllipticCurvePrivateKey
    handle: bytes
    count: int = 0


@dataclass
class Authenticator:
    """A device with ES256 keys, written from WebAuthn Level 3, and the browser that uses it.

    verifies   whether the device verifies its user, by a PIN or fingerprint
    """

    host: str
    origin: str
    verifies: bool = True
    held: list[HeldPasskey] = field(default_factory=list)

    def create(self, question: str) -> str:
        """Return the answer of `navigator.credentials.create` with a new passkey."""
        asked = json.loads(question)
        assert asked["rp"]["id"] == self.host
        passkey = HeldPasskey(
            os.urandom(16), generate_private_key(SECP256R1()), bytes_of(asked["user"]["id"])
        )
        self.held.append(passkey)
        numbers = passkey.private_key.public_key().public_numbers()
        x, y = (number.to_bytes(32) for number in (numbers.x, numbers.y))
        cose = b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20" + x + b"\x22\x58\x20" + y
        data = self._data(0, ATTESTED) + bytes(16)
        data += len(passkey.credential_id).to_bytes(2) + passkey.credential_id + cose
        attestation = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData"
        attestation += b"\x58" + len(data).to_bytes(1) + data
        seen = self._seen("webauthn.create", asked)
        return _answer(passkey, clientDataJSON=seen, attestationObject=attestation)

    def sign(self, question: str, **changes: Any) -> str:
        """Return the answer of `navigator.credentials.get` by the newest allowed passkey.

        changes   values of `challenge` or `origin` to send in place of the true ones
        """
        asked = json.loads(question)
        assert asked["rpId"] == self.host
        wanted = {bytes_of(each["id"]) for each in asked["allowCredentials"]}
        fitting = [each for each in self.held if not wanted or each.credential_id in wanted]
        passkey = fitting[-1]
        passkey.count += 1
        data = self._data(passkey.count)
        seen = self._seen("webauthn.get", asked | changes)
        signed = passkey.private_key.sign(data + sha256(seen).digest(), ECDSA(SHA256()))
        return _answer(
            passkey,
            clientDataJSON=seen,
            authenticatorData=data,
            signature=signed,
            userHandle=passkey.handle,
        )

    def _data(self, count: int, flags: int = 0) -> bytes:
        flags |= PRESENT | (VERIFIED if self.verifies else 0)
        return sha256(self.host.encode()).digest() + bytes([flags]) + count.to_bytes(4)

    def _seen(self, kind: str, asked: dict[str, Any]) -> bytes:
        origin = asked.get("origin", self.origin)
        seen = {"type": kind, "challenge": asked["challenge"], "origin": origin}
        return json.dumps(seen | {"crossOrigin": False}).encode()


def _answer(passkey: HeldPasskey, **response: bytes) -> str:
    name = text_of(passkey.credential_id)
    parts = {key: text_of(data) for key, data in response.items()}
    return json.dumps(
        {"id": name, "rawId": name, "type": "public-key", "response": parts}
        | {"clientExtensionResults": {}}
    )


FACTORS = "/settings/second-factor"
ALONE = "/sign-in/passkey-alone"
PROVE = "/prove/passkey"
OVER = "This took too long, or was already done"
VISIT = "__Host-mintscope-visit"


def question(page: httpx.Response) -> str:
    """Return the request for a passkey in *page*; exactly one of its forms must have one."""
    (found,) = [each["data-question"] for _, each in tags(page) if "data-question" in each]
    return found


def fields(page: httpx.Response, device: Authenticator, **changes: str) -> dict[str, str]:
    """Return the fields that the page's script sends: the start time, and *device*'s answer."""
    (begun,) = [each["value"] for _, each in tags(page) if each.get("name") == "begun"]
    return {"begun": begun, "answer": device.sign(question(page), **changes)}


async def add_passkey(person: Person, device: Authenticator, name: str = "phone") -> None:
    page = await person.open(f"{FACTORS}/passkeys/new")
    sent = {"name": name, "answer": device.create(question(page))}
    assert (await person.send(f"{FACTORS}/passkeys/new", sent)).status_code in {200, 303}


async def logged_copies(site: Website) -> int:
    assert site.accounts.mailbox is not None
    sent = await site.accounts.mailbox.recent(limit=100)
    return sum("may be a copy" in " ".join(each.email.text.split()) for each in sent)


@pytest.fixture
def device() -> Authenticator:
    return Authenticator("shop.example", ORIGIN)


@pytest.fixture
async def owner(site: Website, alice: Person, device: Authenticator) -> AsyncIterator[Person]:
    """Yield Alice at another browser, where she is not signed in; her device has a passkey."""
    await add_passkey(alice, device)
    site.clock.advance(MINUTE_MS)
    async with Person(site, address="198.51.100.2") as person:
        yield person


async def test_a_passkey_signs_in_without_a_password(
    site: Website, owner: Person, device: Authenticator
) -> None:
    page = await owner.open("/sign-in?next=/settings/account")
    expect_harmless(page)
    asked = json.loads(question(page))
    assert asked["userVerification"] == "required"
    assert asked["allowCredentials"] == []
    assert asked["rpId"] == "shop.example"
    assert "no-store" in page.headers["cache-control"]
    (kept,) = page.headers.get_list("set-cookie")
    assert kept.startswith(f"{VISIT}=")
    assert kept.endswith("; Path=/; Secure; HttpOnly; SameSite=Lax")
    assert "set-cookie" not in (await owner.open("/sign-in")).headers

    entered = await owner.send(ALONE, fields(page, device) | {"next": "/settings/account"})

    assert where(entered) == "/settings/account"
    assert ALICE in words(await owner.open("/settings/account"))
    assert (await owner.open(f"{FACTORS}/passkeys/new")).status_code == 200, "it is a fresh proof"
    log = words(await owner.open("/settings/log"))
    assert "Signed in with a passkey" in log
    assert "A passkey was added" in log
    detail = site.rows("SELECT detail FROM account_event WHERE action = 'signed in with passkey'")
    assert detail == [('{"passkey":"1"}',)], "no name is kept for ever"
    ((count, used_at),) = site.rows("SELECT sign_count, last_used_at FROM passkey")
    assert (count, used_at) == (1, site.clock.now())
    site.clock.advance(FRESH_MS)
    assert where(await owner.open(f"{FACTORS}/passkeys/new")).startswith("/prove")


async def test_an_answer_works_once_in_its_own_browser_for_ten_minutes(
    site: Website, owner: Person, device: Authenticator
) -> None:
    page = await owner.open("/sign-in")
    sent = fields(page, device)
    async with Person(site, address="198.51.100.3") as thief:
        await thief.open("/sign-in")
        assert (await thief.send(ALONE, sent)).status_code == 422
        thief.client.cookies.delete(VISIT)
        assert OVER in words(await thief.send(ALONE, sent))
        assert thief.cookie is None
    assert where(await owner.send(ALONE, sent)) == "/"
    owner.client.cookies.delete("__Host-mintscope")
    assert OVER in words(await owner.send(ALONE, sent))
    assert owner.cookie is None

    site.clock.advance(1)  # at another time there is another challenge
    page = await owner.open("/sign-in")
    late = fields(page, device)
    site.clock.advance(10 * MINUTE_MS)
    again = await owner.send(ALONE, late)
    assert OVER in words(again)
    fresh = fields(again, device)
    early = fresh | {"begun": str(int(fresh["begun"]) + 1)}
    assert (await owner.send(ALONE, early)).status_code == 422, "another time, another challenge"
    assert OVER in words(await owner.send(ALONE, fresh | {"begun": "soon"}))
    assert where(await owner.send(ALONE, fresh)) == "/"


async def test_an_answer_with_an_insufficient_proof_is_refused(
    site: Website, owner: Person, device: Authenticator
) -> None:
    page = await owner.open("/sign-in")
    (held,) = device.held

    async def refused(sent: dict[str, str], text: str) -> None:
        answer = await owner.send(ALONE, sent)
        assert answer.status_code == 422
        assert text in words(answer)
        expect_harmless(answer)

    device.verifies = False
    await refused(fields(page, device), "did not verify you")
    device.verifies = True
    handle, held.handle = held.handle, b"of another account"
    await refused(fields(page, device), "not registered here")
    held.handle = handle
    await refused(fields(page, device, origin="https://shop.example.net"), "did not prove itself")
    await refused(fields(page, device, challenge="AAAA"), "did not prove itself")
    stranger = Authenticator("shop.example", ORIGIN)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        stranger.create(question(await mallory.open(f"{FACTORS}/passkeys/new")))
    await refused(fields(page, stranger), "not registered here")
    stranger.held[0].credential_id = held.credential_id
    await refused(fields(page, stranger), "did not prove itself")
    for answer in ("", "{}", "null"):
        await refused(fields(page, device) | {"answer": answer}, "did not prove itself")
    assert owner.cookie is None
    assert site.rows("SELECT sign_count FROM passkey") == [(0,)]
    assert where(await owner.send(ALONE, fields(page, device))) == "/"


async def test_a_copied_passkey_is_refused_and_reported_but_a_forgery_is_not_reported(
    site: Website, owner: Person, device: Authenticator
) -> None:
    (held,) = device.held
    held.count = 7
    assert where(await owner.send(ALONE, fields(await owner.open("/sign-in"), device))) == "/"
    site.clock.advance(MINUTE_MS)
    async with Person(site, address="198.51.100.3") as thief:
        page = await thief.open("/sign-in")
        held.count = 7
        own, held.private_key = held.private_key, generate_private_key(SECP256R1())
        assert "did not prove itself" in words(await thief.send(ALONE, fields(page, device)))
        held.private_key = own
        held.count = 7
        assert "may be a copy" in words(await thief.send(ALONE, fields(page, device)))
        assert thief.cookie is None
        assert await logged_copies(site) == 1
        for _ in range(NOTICES_MAX + 5):
            held.count = 0
            await thief.send(ALONE, fields(page, device))
        assert await logged_copies(site) < NOTICES_MAX, "few while the address is not verified"
    assert "Refused a passkey that may be a copy" in words(await owner.open("/settings/log"))


async def test_an_answer_that_is_sent_twice_at_once_is_not_reported_as_a_copy(
    site: Website, owner: Person, device: Authenticator
) -> None:
    page = await owner.sign_in()
    ticket, *_ = [each["value"] for _, each in tags(page) if each.get("name") == "ticket"]
    sent = {"ticket": ticket, "answer": device.sign(question(page))}
    entered, over = sorted(
        await gather(*(owner.send("/sign-in/passkey", sent) for _ in range(2))),
        key=lambda each: each.status_code,
    )
    assert where(entered) == "/"
    assert OVER in words(over)
    assert await logged_copies(site) == 0


async def test_a_removed_passkey_cannot_sign_in(
    site: Website, alice: Person, owner: Person, device: Authenticator
) -> None:
    page = await owner.open("/sign-in")
    await alice.send(f"{FACTORS}/passkeys/1/remove")
    assert "not registered here" in words(await owner.send(ALONE, fields(page, device)))

    await add_passkey(alice, device)
    page = await owner.open("/sign-in")
    name = site.rows('SELECT username FROM "user"')[0][0]
    await alice.send("/settings/account/delete", {"username": name})
    assert "not registered here" in words(await owner.send(ALONE, fields(page, device)))


async def test_a_person_can_remove_only_their_own_passkeys(
    site: Website, alice: Person, device: Authenticator
) -> None:
    kept = "SELECT id, user FROM passkey ORDER BY id"
    await add_passkey(alice, device)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        await add_passkey(mallory, Authenticator("shop.example", ORIGIN))
        asked = await mallory.open(f"{FACTORS}/passkeys/1/remove")
        await mallory.send(f"{FACTORS}/passkeys/1/remove")
        after_another = site.rows(kept)
        await mallory.send(f"{FACTORS}/passkeys/2/remove")

    assert asked.status_code == 404
    assert after_another == [(1, 1), (2, 2)]
    assert site.rows(kept) == [(1, 1)]


class CountingWebAuthn(WebAuthn):
    """A WebAuthn verifier that counts the new passkeys that it has accepted."""

    count = 0

    @override
    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        new = super().registered(answer, challenge, name)
        self.count += 1
        return new


async def test_two_passkeys_added_at_once_do_not_exceed_the_limit_of_an_account(
    site: Website, alice: Person, device: Authenticator
) -> None:
    for number in range(1, PASSKEYS_MAX):
        await add_passkey(alice, device, f"key {number}")
    page = await alice.open(f"{FACTORS}/passkeys/new")
    answers = [device.create(question(page)) for _ in range(2)]
    assert alice.cookie is not None
    session = await site.accounts.people.session(alice.cookie)
    assert session is not None
    verifier = CountingWebAuthn(host=device.host, origins=[device.origin], name="mintscope")
    factors = site.accounts.factors
    factors.verifier = verifier

    with writing(site.folder / MONEY_FILE):  # neither is stored before both are accepted
        adding = gather(
            *(factors.add_passkey(session, answer, "last") for answer in answers),
            return_exceptions=True,
        )
        while verifier.count < 2:  # noqa: ASYNC110 - it says nothing by itself
            await sleep(0)

    added, refused = await adding
    assert site.rows("SELECT count(*) FROM passkey") == [(PASSKEYS_MAX,)]
    assert added == []
    assert str(refused) == "this account cannot have another passkey"


async def test_a_reset_of_an_unverified_address_removes_the_passkeys_of_a_stranger(
    site: Website, owner: Person, device: Authenticator
) -> None:
    await owner.send("/forgot", {"email": ALICE})
    link = await site.link(ALICE)
    assert where(await owner.send(link, {"password": "another good password"}))
    page = await owner.open("/sign-in")
    assert "not registered here" in words(await owner.send(ALONE, fields(page, device)))


async def test_a_passkey_replaces_the_password_in_a_session_of_its_own_account(
    site: Website, alice: Person, device: Authenticator
) -> None:
    """As in a sign-in, the device must answer within ten minutes, and verify its user."""
    wanted = "/settings/api-keys/new"
    await add_passkey(alice, device)
    site.clock.advance(FRESH_MS)
    (held,) = device.held
    asked = where(await alice.open(wanted))
    assert asked.startswith("/prove?")
    page = await alice.open(asked)
    expect_harmless(page)
    reported = json.loads(question(page))
    assert reported["userVerification"] == "required"
    assert len(reported["allowCredentials"]) == 1

    async def refused(sent: dict[str, str], text: str) -> None:
        answer = await alice.send(PROVE, sent | {"next": wanted})
        assert answer.status_code == 422, answer.headers
        assert text in words(answer)
        expect_harmless(answer)
        assert where(await alice.open(wanted)).startswith("/prove")

    device.verifies = False
    await refused(fields(page, device), "did not verify you")
    device.verifies = True
    await refused(fields(page, device, challenge="AAAA"), "did not prove itself")
    await refused(fields(page, device) | {"begun": "1"}, "took too long")
    stranger = Authenticator("shop.example", ORIGIN)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        await add_passkey(mallory, stranger)
        # The question of another session, and an answer of another account.
        site.clock.advance(FRESH_MS)
        theirs = await mallory.open(where(await mallory.open(wanted)))
        page = await alice.open(asked)
        await refused(fields(theirs, stranger), "does not belong to this account")
        stranger.held[0].credential_id = held.credential_id
        await refused(fields(page, stranger), "did not prove itself")
    sent = fields(page, device)
    assert where(await alice.send(PROVE, sent | {"next": wanted})) == wanted
    assert (await alice.open(wanted)).status_code == 200
    site.clock.advance(FRESH_MS)
    await refused(sent, "took too long")
    page = await alice.open(asked)
    held.count = 0
    await refused(fields(page, device), "may be a copy")
    log = words(await alice.open("/settings/log"))
    assert log.count("Confirmed a step with a passkey") == 1
    detail = site.rows("SELECT detail FROM account_event WHERE action = 'confirmed with passkey'")
    assert detail == [('{"passkey":"1"}',)]


@pytest.mark.parametrize("way", ["undo", "reset"])
async def test_a_passkey_from_before_an_account_was_taken_back_needs_the_password(
    site: Website, alice: Person, owner: Person, way: str
) -> None:
    """The thief adds the passkey, signs in with it a week later, and is noticed only then."""
    site.clock.advance(6 * MINUTE_MS)
    await alice.send("/settings/account/verify")
    assert "verified" in where(await alice.send(await site.link(ALICE)))
    kept, found = Authenticator("shop.example", ORIGIN), Authenticator("shop.example", ORIGIN)
    async with Person(site, address="198.51.100.9") as thief:
        await add_passkey(alice, kept, "kept")
        site.clock.advance(8 * DAY_MS)
        assert where(await thief.send(ALONE, fields(await thief.open("/sign-in"), kept))) == "/"
        await add_passkey(thief, found, "found")
        site.clock.advance(MINUTE_MS)
        new = {"password": "another good password"}
        if way == "undo":
            assert site.accounts.mailbox is not None
            reported = (await site.accounts.mailbox.recent(limit=1))[0].email.text
            (undo,) = [each for each in reported.split() if "/undo-email/" in each]
            answer = await owner.send(undo.removeprefix(site.origin), {"sure": "yes"})
            (reset,) = [
                each["href"] for _, each in tags(answer) if "/reset/" in each.get("href", "")
            ]
            await owner.send(reset, new)
        else:
            await owner.send("/forgot", {"email": ALICE})
            await owner.send(await site.link(ALICE), new | {"taken": "yes"})
        assert site.rows("SELECT name FROM passkey") == [("phone",), ("kept",)]

        page = await thief.open("/sign-in")
        refused = await thief.send(ALONE, fields(page, kept))
        assert "added before the account was taken back" in words(refused)
        expect_harmless(refused)
        page = await owner.sign_in(password="another good password")
        ticket, *_ = [each["value"] for _, each in tags(page) if each.get("name") == "ticket"]
        sent = {"ticket": ticket, "answer": kept.sign(question(page))}
        assert where(await owner.send("/sign-in/passkey", sent)) == "/"
        site.clock.advance(FRESH_MS)
        page = await owner.open("/prove")
        refused = await owner.send(PROVE, fields(page, kept))
        assert "added before the account was taken back" in words(refused)
        assert where(await owner.send("/prove", new)) == "/"
        new_one = Authenticator("shop.example", ORIGIN)
        site.clock.advance(1)
        await add_passkey(owner, new_one, "new")
        site.clock.advance(1)
        page = await thief.open("/sign-in")
        assert where(await thief.send(ALONE, fields(page, new_one))) == "/"


async def test_wrong_passkeys_of_a_client_are_limited_like_wrong_passwords(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    web = WebConfig(client_guesses_max=3)
    device = Authenticator("shop.example", ORIGIN)
    async with (
        website(tmp_path_factory.mktemp("site"), web=web, origin=ORIGIN) as site,
        Person(site) as alice,
        Person(site, address="198.51.100.2") as owner,
    ):
        await alice.sign_up()
        await add_passkey(alice, device)
        site.clock.advance(MINUTE_MS)
        for _ in range(4):
            page = await owner.open("/sign-in")
            assert where(await owner.send(ALONE, fields(page, device))) == "/"
            owner.client.cookies.delete("__Host-mintscope")
            site.clock.advance(1)
        assert (await owner.sign_in(password="wrong password")).status_code == 422
        page = await owner.open("/sign-in")
        for _ in range(2):
            wrong = await owner.send(ALONE, fields(page, device, challenge="AAAA"))
            assert wrong.status_code == 422
        late = await owner.send(ALONE, fields(page, device))
        assert late.status_code == 429
        assert "retry-after" in late.headers
        assert (await owner.sign_in(password=PASSWORD)).status_code == 429
