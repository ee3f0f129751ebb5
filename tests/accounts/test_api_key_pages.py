"""Settings > API keys: a person sees only their own keys; a key is made and shown once."""

import re

import pytest
import structlog

from mintscope.accounts.keys.key import KEYS_PER_USER_MAX
from mintscope.kit.audit import KeyId
from mintscope.solana.blocks import WSOL
from support.scenes.people.web_person import ALICE, MALLORY, Person, expect_harmless, where, words
from support.scenes.service import bearer
from support.scenes.website import Website

KEYS = "/settings/api-keys"
REVIEW = f"{KEYS}/new/review?name=Bot&trade=write&lifetime=30d"
SECRET = re.compile("svc_live_[0-9a-f]{80}")
HOSTILE = "<script>alert(1)</script>\"'{{7*7}}"


async def make(person: Person, address: str = REVIEW, newest: int = 0) -> str:
    """Create an API key on the review page at *address*, which has its settings; return the key."""
    made = await person.send(address, {"newest": str(newest)})
    assert made.status_code == 200, words(made)
    found = SECRET.search(made.text)
    assert found
    return found[0]


async def status_of(person: Person, secret: str) -> int:
    return (await person.client.get("/v1/me", headers=bearer(secret))).status_code


async def test_a_new_key_is_in_one_answer_and_in_no_other_page_log_file_or_email(
    site: Website, alice: Person
) -> None:
    with structlog.testing.capture_logs() as logs:
        made = await alice.send(REVIEW, {"newest": "0"})
        found = SECRET.search(made.text)
        assert found
        secret = found[0]
        pages = [await alice.open(path) for path in (KEYS, f"{KEYS}/1", REVIEW, "/")]

    assert made.status_code == 200  # no redirect, because addresses must not contain a key
    assert made.headers["cache-control"] == "no-store"
    assert "location" not in made.headers
    assert secret not in "".join(f"{page.text}{page.headers}" for page in pages)
    assert secret not in str(logs)
    for file in site.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file
    assert secret not in await site.email(ALICE)
    assert secret[-8:] in await site.email(ALICE)


async def test_keys_of_other_accounts_are_404(site: Website, alice: Person) -> None:
    secret = await make(alice)
    async with Person(site) as mallory:
        await mallory.sign_up(MALLORY)
        for key in ("1", "2", "01x", "-1", "9" * 19, "1%00"):
            for action in ("", "/rename", "/cap", "/rotate", "/revoke"):
                assert (await mallory.open(f"{KEYS}/{key}{action}")).status_code == 404
                if action:
                    form = {"overlap": "0"}
                    answer = await mallory.send(f"{KEYS}/{key}{action}", form)
                    assert answer.status_code == 404
    assert await status_of(alice, secret) == 200


async def test_a_form_that_is_sent_twice_makes_one_key(alice: Person) -> None:
    secret = await make(alice)
    again = await alice.send(REVIEW, {"newest": "0"})

    assert again.status_code == 409
    assert "A key was created after you opened this form" in words(again)
    assert not SECRET.search(again.text)
    assert await status_of(alice, secret) == 200


async def test_a_cap_is_set_changed_and_taken_away(site: Website, alice: Person) -> None:
    await make(alice)

    async def kept() -> list[int | None]:
        rows = site.rows("SELECT month_credits_max FROM api_key ORDER BY id")
        return [most for (most,) in rows]

    for text, most in (("25", 25), (" 1000 ", 1000), ("", None), ("0", 0)):
        answer = await alice.send(f"{KEYS}/1/cap", {"cap": text})
        assert where(answer).startswith(f"{KEYS}/1?notice=key-capped")
        assert await kept() == [most]
    page = await alice.open(f"{KEYS}/1")
    assert "0 spent this month of at most 0; 0 left in your account" in words(page)
    for wrong in ("-1", "1.5", "x", "9" * 13):
        answer = await alice.send(f"{KEYS}/1/cap", {"cap": wrong})
        assert "Expected a whole number of credits" in words(answer)
    await alice.send(f"{KEYS}/1/rotate", {"overlap": "0"})
    assert await kept() == [0, 0]  # a rotated key keeps its cap
    await alice.send(f"{KEYS}/1/revoke")
    assert where(await alice.open(f"{KEYS}/1/cap")) == f"{KEYS}/1"


async def test_a_new_key_has_its_cap_from_the_first_call_on(alice: Person) -> None:
    review = f"{REVIEW}&cap=1200"
    shown = words(await alice.open(review))
    wrong = words(await alice.open(f"{REVIEW}&cap=some"))
    await make(alice, review)

    assert "It spends at most 1,200 credits in a calendar month." in shown
    assert "without a cap" in words(await alice.open(REVIEW))
    assert "Expected a whole number of credits" in wrong
    assert 'value="1200"' in (await alice.open(f"{KEYS}/1/cap")).text


async def test_a_new_key_has_its_networks_from_the_first_call_on(
    site: Website, alice: Person
) -> None:
    mapped = "::ffff:203.0.113.8/120"
    review = f"{REVIEW}&networks=203.0.113.9/24,+{mapped},+2001:db8:7::/48"
    shown = words(await alice.open(review))
    secret = await make(alice, review)
    rotated = SECRET.search((await alice.send(f"{KEYS}/1/rotate", {"overlap": "1h"})).text)
    assert rotated is not None

    stands = "accepted only from 203.0.113.0/24 , 2001:db8:7::/48 . Your current address is not"
    assert stands in shown
    assert "from anywhere" in words(await alice.open(REVIEW))
    assert "Your address is 198.51.100.1" in words(await alice.open(f"{KEYS}/new"))
    for page in (f"{KEYS}/1", f"{KEYS}/2"):
        assert "Networks 203.0.113.0/24, 2001:db8:7::/48" in words(await alice.open(page))
    for key in (secret, rotated[0]):
        for address, status in (
            *(("203.0.113.77", 200), ("::ffff:203.0.113.5", 200), ("2001:db8:7:1::9", 200)),
            *(("203.0.114.1", 401), ("2001:db8:8::9", 401), ("198.51.100.1", 401), ("", 401)),
        ):
            async with Person(site, address=address) as caller:
                assert await status_of(caller, key) == status, address
                paid = await caller.client.get(f"/v1/token/{WSOL}", headers=bearer(key))
                assert (paid.status_code == 401) == (status == 401), address
    used = site.rows("SELECT DISTINCT address FROM key_address")
    assert not {("198.51.100.1",), ("203.0.114.1",)} & set(used), "a refusal is no use"


async def test_the_networks_of_a_key_are_changed_by_its_owner_on_its_page(
    site: Website, alice: Person
) -> None:
    """A change applies from the next request on and is logged; invalid text changes nothing."""
    secret = await make(alice, REVIEW)
    page = f"{KEYS}/1/networks"
    wrong = await alice.send(page, {"networks": "here, 203.0.113.9"})
    changed = await alice.send(page, {"networks": "203.0.113.9/24 198.51.100.0/24"})
    again = await alice.open(page)
    async with Person(site, address="203.0.113.200") as caller:
        inside = await status_of(caller, secret)
        await alice.send(page, {"networks": "198.51.100.0/24"})
        outside = await status_of(caller, secret)
        await alice.send(page, {"networks": ""})
        anywhere = await status_of(caller, secret)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        of_stranger = [
            (await mallory.open(page)).status_code,
            (await mallory.send(page, {"networks": ""})).status_code,
        ]
    log = words(await alice.open("/settings/log"))
    await alice.send(f"{KEYS}/1/revoke")

    assert wrong.status_code == 422
    assert "Expected addresses or networks" in words(wrong)
    assert 'value="here, 203.0.113.9"' in wrong.text
    expect_harmless(wrong)
    assert where(changed) == f"{KEYS}/1?notice=key-networks"
    assert 'value="203.0.113.0/24, 198.51.100.0/24"' in again.text
    assert "Your address is 198.51.100.1" in words(again)
    assert (inside, outside, anywhere) == (200, 401, 200)
    assert of_stranger == [404, 404]
    assert log.count("Changed the allowed networks: API key") == 3
    assert "203.0.113.0/24" not in log
    assert where(await alice.open(page)) == f"{KEYS}/1"


@pytest.mark.parametrize(
    ("networks", "flaw"),
    [
        ("here", "Expected addresses or networks"),
        ("203.0.113.0/33", "Expected addresses or networks"),
        ("2001:db8::7", "write 2001:db8::/64"),
        ("2001:db8::%25eth0/64", "Expected an IPv6 network without a zone"),
        ("+".join(f"10.0.0.{number}" for number in range(21)), "at most 20 networks"),
    ],
)
async def test_invalid_networks_are_reported_together_with_all_other_errors(
    alice: Person, networks: str, flaw: str
) -> None:
    answer = await alice.open(f"{KEYS}/new/review?name=&cap=x&networks={networks}")
    assert answer.status_code == 422
    text = words(answer)
    assert flaw in text
    assert "Enter a name by which you recognize" in text
    assert "Expected a whole number of credits" in text
    expect_harmless(answer)
    assert "sent_before" not in text
    made = await alice.send(f"{REVIEW}&networks={networks}", {"newest": "0"})
    assert made.status_code == 422


async def test_a_key_is_rotated_once(alice: Person) -> None:
    old = await make(alice)
    first = await alice.send(f"{KEYS}/1/rotate", {"overlap": "1h"})
    again = await alice.send(f"{KEYS}/1/rotate", {"overlap": "1h"})

    assert first.headers["cache-control"] == "no-store"
    assert SECRET.search(first.text)
    assert again.status_code == 409
    assert where(await alice.open(f"{KEYS}/1/rotate")) == f"{KEYS}/1"
    assert await status_of(alice, old) == 200


async def test_a_revoked_key_ends_at_once_and_can_be_revoked_again(alice: Person) -> None:
    secret = await make(alice)
    for _ in range(2):
        answer = await alice.send(f"{KEYS}/1/revoke")
        assert where(answer) == f"{KEYS}?notice=key-revoked"
        assert await status_of(alice, secret) == 401
    assert where(await alice.open(f"{KEYS}/1/revoke")) == f"{KEYS}/1"


async def test_the_name_of_a_key_is_escaped_on_every_page(alice: Person) -> None:
    address = f"{KEYS}/new/review"
    review = await alice.client.get(address, params={"name": HOSTILE})
    expect_harmless(review)
    made = await alice.send(f"{address}?{review.request.url.query.decode()}", {"newest": "0"})
    expect_harmless(made)
    assert SECRET.search(made.text)
    for path in (KEYS, f"{KEYS}/1", f"{KEYS}/1/rotate", f"{KEYS}/1/revoke"):
        page = await alice.open(path)
        expect_harmless(page)
        assert "&lt;script&gt;" in page.text


async def test_an_account_has_at_most_a_hundred_active_keys(site: Website, alice: Person) -> None:
    assert alice.cookie is not None
    session = await site.accounts.people.session(alice.cookie)
    assert session is not None
    for _ in range(KEYS_PER_USER_MAX):
        await site.accounts.keys.create(session, name="x", scopes=frozenset(), lifetime_ms=None)
    answer = await alice.send(REVIEW, {"newest": str(KEYS_PER_USER_MAX)})

    assert answer.status_code == 409
    assert "An account may have at most 100 active keys." in words(answer)
    await site.accounts.keys.revoke(session, KeyId(1))
    await make(alice, newest=KEYS_PER_USER_MAX)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("name=", "Enter a name by which you recognize the key later."),
        (f"name={'x' * 65}", "Expected at most 64 characters; there were 65."),
        ("name=a%0Ab", "Expected a name without control characters."),
        ("name=a&trade=all", "Choose none, read, or read and write."),
        ("name=a&lifetime=2d", "Choose one of the listed options."),
        ("name=a&name=b", "Expected one field name; were 2."),
    ],
)
async def test_an_invalid_form_for_a_new_key_is_refused_with_the_reason(
    alice: Person, query: str, complaint: str
) -> None:
    looked = await alice.open(f"{KEYS}/new/review?{query}")
    sent = await alice.send(f"{KEYS}/new/review?{query}", {"newest": "0"})

    for answer in (looked, sent):
        assert answer.status_code in {400, 422}
        assert complaint in words(answer)
    assert "No active keys." in words(await alice.open(KEYS))


@pytest.mark.parametrize(
    ("access", "scopes"),
    [
        ("trade=write", ["trade:read", "trade:write"]),
        ("trade=read&groups=write", ["trade:read", "groups:read", "groups:write"]),
        ("signals=write", ["signals:read", "signals:write"]),
        ("", []),
    ],
)
async def test_write_access_includes_read_access_and_no_other_scope_is_granted(
    alice: Person, access: str, scopes: list[str]
) -> None:
    address = f"{KEYS}/new/review?name=Bot&{access}"
    promised = words(await alice.open(address)).partition("It cannot")[0]
    secret = await make(alice, address)
    answer = await alice.client.get("/v1/me", headers=bearer(secret))

    assert answer.json()["data"]["scopes"] == scopes
    assert ("Spend the credits of your account" in promised) == ("trade:read" in scopes)
    assert ("See watchlists." in promised) == ("groups:read" in scopes)
    assert ("Buy credits, move credits" in promised) == ("trade:write" in scopes)


async def test_the_form_for_a_new_key_offers_every_area(alice: Person) -> None:
    page = (await alice.open(f"{KEYS}/new?preset=everything")).text
    offered = [area for area in ("trade", "wallets", "signals", "groups") if f'id="{area}"' in page]
    assert offered == ["trade", "wallets", "signals", "groups"]


async def test_a_key_is_renamed(alice: Person) -> None:
    secret = await make(alice)
    assert "Bot" in words(await alice.open(f"{KEYS}/1/rename"))
    for wrong in ("", "a" * 65, "a\x07b"):
        assert (await alice.send(f"{KEYS}/1/rename", {"name": wrong})).status_code == 422
    renamed = await alice.send(f"{KEYS}/1/rename", {"name": HOSTILE})
    assert where(renamed) == f"{KEYS}/1?notice=key-renamed"
    page = await alice.open(f"{KEYS}/1")
    assert HOSTILE in words(page)
    expect_harmless(page)
    assert await status_of(alice, secret) == 200
    await alice.send(f"{KEYS}/1/revoke")
    await alice.send(f"{KEYS}/1/rename", {"name": "too late"})
    assert "too late" not in words(await alice.open(f"{KEYS}/1"))


async def test_a_key_shows_the_addresses_that_used_it(site: Website, alice: Person) -> None:
    secret = await make(alice)
    async with Person(site, address="203.0.113.5") as program:
        await status_of(program, secret)
        answer = await program.client.get("/v1/credits/balance", headers=bearer(secret))
        assert answer.status_code == 200
    async with Person(site, address="2001:db8:1:2:3::4") as program:
        await program.client.get("/v1/credits/balance", headers=bearer(secret))
        await program.client.get("/v1/me", headers=bearer(secret[:-1] + "0"))
    assert "Used from" not in words(await alice.open(f"{KEYS}/1"))
    await site.accounts.keys.flush()
    text = words(await alice.open(f"{KEYS}/1"))
    assert "203.0.113.5" in text
    assert "2001:db8:1:2::/64" in text
    assert len(site.rows("SELECT 1 FROM key_address")) == 2
