"""The owner takes an account back from a thief, with all its contents from before the theft."""

import re
from contextlib import closing
from dataclasses import replace

import apsw
import httpx
import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewPasskey
from mintscope.accounts.factors import code_at, step_of
from mintscope.accounts.keys.scope import OPEN_SCOPES
from mintscope.accounts.session import Session
from mintscope.accounts.sessions import EVENTS_AT_ONCE, NotPossible
from mintscope.alerts.alert import Alert
from mintscope.alerts.deliveries import Attempt, Deliveries, Ended
from mintscope.app.stores.folder import MONEY_FILE, WEBHOOKS_FILE
from mintscope.kit.audit import COMMAND_LINE, KeyId, UserId
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, MINUTE_MS
from support.scenes.account_stores import queue_of
from support.scenes.engine import webhook_queue
from support.scenes.people.takeover import (
    OWN_HOOK,
    OWN_WALLET,
    RULE,
    THEIR_HOOK,
    THEIR_WALLET,
    AccountContents,
    add_app,
    break_in,
    expect_the_owners_alone,
    move_in,
    session_of,
)
from support.scenes.people.web_person import ALICE, MALLORY, Person, tags, where, words
from support.scenes.service import bearer
from support.scenes.website import HERE, PASSWORD, Website

OTHER_PASSWORD = "another good password"
SECOND = "mallory@second.example"


async def undo_in(site: Website, email: str, text: str) -> str:
    """Return the path of the undo link in the newest e-mail to *email* that contains *text*."""
    assert site.accounts.mailbox is not None
    for posted in await site.accounts.mailbox.recent(limit=100):
        if posted.email.recipient == email and text in " ".join(posted.email.text.split()):
            found = re.search(re.escape(site.origin) + r"(/undo-email/\S+)", posted.email.text)
            assert found, posted.email.text
            return found[1]
    raise AssertionError(text)


async def status(person: Person, key: str) -> int:
    return (await person.client.get("/v1/me", headers=bearer(key))).status_code


@pytest.fixture
async def found(site: Website, alice: Person) -> AccountContents:
    """Return the contents of Alice's account, made a minute before the thief signs in."""
    site.clock.advance(6 * MINUTE_MS)  # e-mails to verify an address are five minutes apart
    await alice.send("/settings/account/verify")
    assert "verified" in where(await alice.send(await site.link(ALICE)))
    moved_in = await move_in(site, ALICE)
    site.clock.advance(MINUTE_MS)
    return moved_in


def expect_untouched(site: Website, found: AccountContents) -> None:
    """Expect that only the owner's API key, wallet and webhook addresses are there, and no app."""
    assert site.rows("SELECT count(*) FROM authenticator_app") == [(0,)]
    assert site.rows("SELECT id FROM api_key WHERE revoked_at IS NULL") == [(found.key_id,)]
    assert site.rows("SELECT wallet FROM linked_wallet") == [(OWN_WALLET,)]
    assert site.rows("SELECT webhook_url FROM signal ORDER BY id") == [(OWN_HOOK,)] * 2


async def make_key(site: Website, session: Session) -> KeyId:
    issued = await site.accounts.keys.create(
        session, name="one more", scopes=OPEN_SCOPES, lifetime_ms=None
    )
    return issued.line.key_id


async def change_address(site: Website, session: Session, email: str) -> None:
    """Change the address of the account of *session* to *email*, and confirm the change."""
    site.clock.advance(6 * MINUTE_MS)
    assert await site.accounts.addresses.request(session, EmailAddress(email))
    assert await site.accounts.addresses.confirm(
        session, (await site.link(email)).rpartition("/")[2]
    )


async def make_agent(site: Website, email: str) -> tuple[str, UserId]:
    """Return the API key and the id of a new agent with *email*, a wallet and an alert."""
    signup_id, secret = await site.apply_for_key(email)
    assert await site.accounts.signup.confirm_by_link((await site.link(email)).rpartition("/")[2])
    await site.accounts.review.approve(signup_id, scopes=OPEN_SCOPES, note="", actor=COMMAND_LINE)
    key = await site.exchange(email, secret)
    holder = await site.accounts.keys.find(key)
    assert holder is not None
    await site.accounts.wallets.link(holder, THEIR_WALLET)
    agent = holder.key.user_id
    made = await site.accounts.signals.make(agent, replace(RULE, webhook_url=THEIR_HOOK))
    assert isinstance(made, Alert)
    return key, agent


async def claim(site: Website, session: Session, agent: UserId) -> None:
    """Claim *agent* in *session*, whose account has the address of the agent."""
    people = site.accounts.people
    (now,) = await people.sessions(session.user.user_id)
    assert await people.request_claim(now, agent)
    link = (await site.link(now.user.email)).rpartition("/")[2]
    assert await people.claim(now, link) is not None


async def take_back(site: Website, undo: str) -> list[str]:
    """Use the undo link, set a password as the owner; return the page's list of undone changes."""
    async with Person(site, address="198.51.100.2") as owner:
        assert ALICE in words(await owner.open(undo))
        answer = await owner.send(undo, {"sure": "yes"})
        assert "The account is yours again" in words(answer)
        (reset,) = [each["href"] for _, each in tags(answer) if "/reset/" in each.get("href", "")]
        assert where(await owner.send(reset, {"password": OTHER_PASSWORD})).startswith("/sign-in")
        assert where(await owner.sign_in(ALICE, OTHER_PASSWORD)) == "/"
        assert f"{ALICE} Verified" in words(await owner.open("/settings/account"))
        return ended_by(answer)


def ended_by(answer: httpx.Response) -> list[str]:
    """Return the entries in the list "Ended or removed" of a page."""
    reported = answer.text.partition("Ended or removed:")[2].partition("</ul>")[0]
    return re.findall(r"<li>([^<]*)</li>", reported)


EVERYTHING = [
    "2 sessions.",
    "One API key.",
    "2 authenticator apps and passkeys.",
    "One linked wallet.",
    "One alert.",
    "The webhook of one alert, whose address was changed.",
    "One cap of an API key is as it was before.",
    "The Telegram chat that was linked.",
    "The spend alert is as it was before.",
]


@pytest.mark.parametrize("way", ["address", "key", "wallet"])
async def test_an_undo_reverts_all_additions_and_changes_of_a_thief(
    site: Website, alice: Person, found: AccountContents, way: str
) -> None:
    thief = await session_of(site, ALICE)
    key = await break_in(site, thief, found)
    undo = await undo_in(site, ALICE, "new API key")
    if way == "address":
        await change_address(site, thief, MALLORY)
        undo = await undo_in(site, ALICE, "e-mail address of your account")
    elif way == "wallet":
        site.clock.advance(MINUTE_MS)
        assert await site.accounts.wallets.unlink(thief, THEIR_WALLET)
        await site.accounts.wallets.link(thief, THEIR_WALLET)
        undo = await undo_in(site, ALICE, THEIR_WALLET)

    ended = await take_back(site, undo)

    assert ended[1:] == EVERYTHING[1:]
    expect_the_owners_alone(site)
    assert await status(alice, found.key) == 200
    assert await status(alice, key) == 401
    async with Person(site, address="198.51.100.9") as mallory:
        for email in (ALICE, MALLORY):
            assert (await mallory.sign_in(email)).status_code == 422


async def test_a_wallet_that_an_api_key_linked_is_announced_and_undone(
    site: Website, found: AccountContents
) -> None:
    holder = await site.accounts.keys.find(found.key)
    assert holder is not None
    await site.accounts.wallets.link(holder, THEIR_WALLET)

    await take_back(site, await undo_in(site, ALICE, THEIR_WALLET))

    assert site.rows("SELECT wallet FROM linked_wallet") == [(OWN_WALLET,)]


async def test_a_second_factor_is_announced_and_undone(
    site: Website, found: AccountContents
) -> None:
    """The thief changed nothing else in the session, so nothing else is undone."""
    thief = await session_of(site, ALICE)
    site.clock.advance(MINUTE_MS)
    await add_app(site, thief)

    ended = await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert ended[1:] == ["One authenticator app or passkey."]
    expect_untouched(site, found)


async def test_an_undo_of_the_last_change_reverts_the_whole_session_of_a_thief(
    site: Website, found: AccountContents
) -> None:
    """The link in the e-mail on the last change undoes all changes since the thief's sign-in."""
    thief = await session_of(site, ALICE)
    await break_in(site, thief, found)
    site.clock.advance(MINUTE_MS)
    gone = await make_key(site, thief)
    assert await site.accounts.keys.revoke(thief, gone)
    turns = site.rows("SELECT version FROM signal_turn")
    await site.accounts.factors.remove_app(thief)

    ended = await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert "One API key." in ended
    expect_the_owners_alone(site)
    assert site.rows("SELECT version FROM signal_turn") != turns  # evaluators read the alerts again
    assert ("took account back",) in site.rows("SELECT action FROM account_event")


async def test_an_undo_removes_caps_from_keys_that_had_no_cap(
    site: Website, found: AccountContents
) -> None:
    owner = await session_of(site, ALICE)
    keys = [found.key_id, await make_key(site, owner)]
    assert await site.accounts.keys.cap(owner, found.key_id, None)
    site.clock.advance(MINUTE_MS)
    thief = await session_of(site, ALICE)
    for key_id in keys:
        assert await site.accounts.keys.cap(thief, key_id, 5)
    assert isinstance(await site.accounts.signals.make(thief.user.user_id, RULE), Alert)
    await add_app(site, thief)
    turns = site.rows("SELECT version FROM signal_turn")

    ended = await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert "2 caps of API keys are as they were before." in ended
    assert site.rows("SELECT month_credits_max FROM api_key") == [(None,)] * 2
    assert site.rows("SELECT version FROM signal_turn") != turns  # an alert was deleted


async def test_an_undo_restores_a_cap_that_a_thief_changed_many_times(
    site: Website, found: AccountContents
) -> None:
    owner = await session_of(site, ALICE)
    assert await site.accounts.keys.cap(owner, found.key_id, 7)
    assert await site.accounts.keys.set_networks(owner, found.key_id, "203.0.113.0/24")
    site.clock.advance(MINUTE_MS)
    thief = await session_of(site, ALICE)
    for cap in range(EVENTS_AT_ONCE + 5):
        assert await site.accounts.keys.cap(thief, found.key_id, cap)
    await add_app(site, thief)

    ended = await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert "One cap of an API key is as it was before." in ended
    limits = site.rows("SELECT networks, revoked_at FROM api_key")
    assert limits == [("203.0.113.0/24", None)], "its owner named them before"
    words_kept = site.rows("SELECT DISTINCT action FROM account_event WHERE action LIKE 'cap%'")
    assert words_kept == [("capped",)], "earlier versions wrote this one"
    assert site.rows("SELECT month_credits_max FROM api_key") == [(7,)]


async def test_a_key_whose_networks_a_thief_changed_is_revoked(
    site: Website, found: AccountContents
) -> None:
    """The earlier networks are not stored, so they cannot be restored.  Only wider networks are
    announced by e-mail.
    """
    owner = await session_of(site, ALICE)
    other = await make_key(site, owner)
    for key_id in (found.key_id, other):
        assert await site.accounts.keys.set_networks(owner, key_id, "203.0.113.0/24")
    site.clock.advance(MINUTE_MS)
    thief = await session_of(site, ALICE)
    for networks in ("0.0.0.0/0", "203.0.113.0/24"):
        assert await site.accounts.keys.set_networks(thief, found.key_id, networks)
    assert site.accounts.mailbox is not None
    announced = [each.email.subject for each in await site.accounts.mailbox.recent(limit=100)]
    assert announced.count("An API key accepts more networks") == 1, "fewer are not"

    ended = await take_back(site, await undo_in(site, ALICE, "more networks"))

    assert "One API key." in ended
    assert site.rows("SELECT id FROM api_key WHERE revoked_at IS NULL") == [(other,)]
    details = site.rows("SELECT DISTINCT detail FROM account_event WHERE action LIKE '%networks'")
    assert all("203.0.113" not in each and "hint" in each for (each,) in details), (
        "the log, which is kept for ever, has no addresses"
    )


async def test_an_undo_ends_the_access_of_an_agent_that_a_thief_claimed(
    site: Website, alice: Person, found: AccountContents
) -> None:
    key, agent = await make_agent(site, MALLORY)
    site.clock.advance(DAY_MS)
    thief = await session_of(site, ALICE)
    await change_address(site, thief, MALLORY)
    await claim(site, thief, agent)
    assert await status(alice, key) == 200

    ended = await take_back(site, await undo_in(site, ALICE, "e-mail address of your account"))

    assert "One API key." in ended
    assert "One linked wallet." in ended
    assert await status(alice, key) == 401
    assert await status(alice, found.key) == 200
    assert site.rows("SELECT wallet FROM linked_wallet") == [(OWN_WALLET,)]
    hooks = site.rows("SELECT webhook_url FROM signal ORDER BY id")
    assert hooks == [(OWN_HOOK,), (OWN_HOOK,), (None,)]


async def test_the_application_of_an_agent_that_a_thief_claimed_gives_no_key_after_an_undo(
    site: Website, found: AccountContents
) -> None:
    signup_id, secret = await site.apply_for_key(MALLORY)
    assert await site.accounts.signup.confirm_by_link((await site.link(MALLORY)).rpartition("/")[2])
    await site.accounts.review.approve(signup_id, scopes=OPEN_SCOPES, note="", actor=COMMAND_LINE)
    holder = await site.accounts.keys.find(await site.exchange(MALLORY, secret))
    assert holder is not None
    site.clock.advance(DAY_MS)
    thief = await session_of(site, ALICE)
    await change_address(site, thief, MALLORY)
    await claim(site, thief, holder.key.user_id)
    await take_back(site, await undo_in(site, ALICE, "e-mail address of your account"))

    async with Person(site) as owner:
        await owner.sign_in(ALICE, OTHER_PASSWORD)
        log = words(await owner.open("/settings/log"))
    assert "Deleted: application for an API key You" in log
    assert "Came with a claimed agent: application for an API key You" in log
    with pytest.raises(NotPossible):
        await site.accounts.review.reset(signup_id, actor=COMMAND_LINE)
    assert await site.accounts.exchange.recognise(EmailAddress(MALLORY), secret) is None
    assert site.rows("SELECT id FROM api_key WHERE revoked_at IS NULL") == [(found.key_id,)]


async def test_the_application_of_a_thief_with_the_changed_address_gives_no_key_after_an_undo(
    site: Website, alice: Person, found: AccountContents
) -> None:
    await change_address(site, await session_of(site, ALICE), MALLORY)
    signup_id, secret = await site.apply_for_key(MALLORY)
    assert await site.accounts.signup.confirm_by_link((await site.link(MALLORY)).rpartition("/")[2])
    await site.accounts.review.approve(signup_id, scopes=OPEN_SCOPES, note="", actor=COMMAND_LINE)
    assert await status(alice, await site.exchange(MALLORY, secret)) == 200
    await site.accounts.review.reset(signup_id, actor=COMMAND_LINE)
    await take_back(site, await undo_in(site, ALICE, "e-mail address of your account"))

    assert await site.accounts.exchange.recognise(EmailAddress(MALLORY), secret) is None
    assert site.rows("SELECT id FROM api_key WHERE revoked_at IS NULL") == [(found.key_id,)]


async def test_a_reset_ends_the_access_of_an_agent_that_a_thief_claimed_in_the_last_week(
    site: Website, alice: Person, found: AccountContents
) -> None:
    key, agent = await make_agent(site, MALLORY)
    site.clock.advance(8 * DAY_MS)
    thief = await session_of(site, ALICE)
    await change_address(site, thief, MALLORY)
    await claim(site, thief, agent)
    await change_address(site, thief, ALICE)
    site.clock.advance(3 * DAY_MS)
    await site.accounts.people.request_reset(EmailAddress(ALICE), HERE)

    form = {"password": OTHER_PASSWORD, "taken": "yes"}
    async with Person(site, address="198.51.100.2") as owner:
        ended = ended_by(await owner.send(await site.link(ALICE), form))

    assert "One API key." in ended
    assert await status(alice, key) == 401
    assert await status(alice, found.key) == 200
    expected = [(OWN_HOOK,), (OWN_HOOK,), (None,)]
    assert site.rows("SELECT webhook_url FROM signal ORDER BY id") == expected


async def test_an_undo_keeps_an_agent_that_the_owner_claimed_before(
    site: Website, alice: Person, found: AccountContents
) -> None:
    owner = await session_of(site, ALICE)
    key, agent = await make_agent(site, MALLORY)
    await change_address(site, owner, MALLORY)
    await claim(site, owner, agent)
    await change_address(site, owner, ALICE)
    site.clock.advance(MINUTE_MS)
    await add_app(site, await session_of(site, ALICE))

    await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert await status(alice, key) == 200
    assert await status(alice, found.key) == 200
    assert (THEIR_HOOK,) in site.rows("SELECT webhook_url FROM signal")


async def test_an_undo_removes_an_app_that_the_owner_began_and_a_thief_confirmed(
    site: Website, found: AccountContents
) -> None:
    factors = site.accounts.factors
    await factors.begin_app(await session_of(site, ALICE))
    site.clock.advance(DAY_MS)
    thief = await session_of(site, ALICE)
    secret = await factors.app_secret(thief)
    assert secret is not None
    await factors.confirm_app(thief, code_at(secret, step_of(site.clock.now())))

    ended = await take_back(site, await undo_in(site, ALICE, "authenticator app"))

    assert "One authenticator app or passkey." in ended
    expect_untouched(site, found)


async def test_the_second_factor_of_the_owner_stays(site: Website, found: AccountContents) -> None:
    owner = await session_of(site, ALICE)
    site.clock.advance(MINUTE_MS)
    thief = await session_of(site, ALICE)  # as if by a stolen cookie, without the factor
    store, user_id = site.accounts.people.store, owner.user.user_id
    new = NewPasskey(credential_id=b"o", public_key=b"k", sign_count=0, name="phone of the owner")
    before = UnixMs(thief.created_at - 1)
    await store.transact(lambda rows: rows.passkeys.insert(user_id, new, before))
    await break_in(site, thief, found)

    async with Person(site, address="198.51.100.2") as person:
        answer = await person.send(await undo_in(site, ALICE, "new API key"), {"sure": "yes"})

    assert "2 authenticator apps and passkeys." in ended_by(answer)
    assert site.rows("SELECT name FROM passkey") == [("phone of the owner",)]
    assert site.rows("SELECT count(*) FROM authenticator_app") == [(0,)]


async def test_an_undo_drops_waiting_webhooks_to_the_address_of_a_thief(
    site: Website, found: AccountContents
) -> None:
    """Those webhooks are not sent at all; webhooks to the owner's own address are sent."""
    thief = await session_of(site, ALICE)
    await break_in(site, thief, found)
    (owned, changed), user_id = found.alerts, thief.user.user_id
    signals, store = site.accounts.signals, site.accounts.people.store
    async with queue_of(webhook_queue(site.folder / WEBHOOKS_FILE)) as queue:
        deliveries = Deliveries(
            store=store,
            queue=queue,
            secrets=signals.secrets,
            clock=site.clock,
            retry_ms_max=DAY_MS,
        )
        made = (await signals.of_user(user_id))[-1].signal_id
        for number in (owned, changed, made):
            assert await signals.test(user_id, number) is not None
        await deliveries.take_in()
        turns = await deliveries.lease([])
        assert [turn.webhooks[0].url for turn in turns] == [OWN_HOOK, THEIR_HOOK, THEIR_HOOK]
        refused = [
            Ended(turn, [Attempt(each.firing, "no") for each in turn.webhooks]) for turn in turns
        ]
        await deliveries.note(refused)

        await take_back(site, await undo_in(site, ALICE, "new API key"))
        back = await signals.change(
            user_id, changed, lambda rule: replace(rule, webhook_url="https://next.example/")
        )
        assert isinstance(back, Alert)
        site.clock.advance(MINUTE_MS)
        turns = await deliveries.lease([])
        sent = [each.url for turn in turns for each in turn.webhooks]
        assert sent == [OWN_HOOK]
        (event,) = await signals.firings(user_id, changed, None, 9) or ()
        assert event.reason == "the account was taken back"
        assert (await queue.read(lambda rows: rows.length())).waiting == 1


async def test_a_thief_cannot_undo_the_undo_of_the_owner(
    site: Website, found: AccountContents
) -> None:
    thief = await session_of(site, ALICE)
    await change_address(site, thief, MALLORY)
    undo = await undo_in(site, ALICE, "e-mail address of your account")
    site.clock.advance(MINUTE_MS)
    await break_in(site, thief, found)
    theirs = await undo_in(site, MALLORY, "new API key")
    async with Person(site, address="198.51.100.9") as mallory:
        assert "The account is yours again" in words(await mallory.send(theirs, {"sure": "yes"}))

    await take_back(site, undo)

    expect_the_owners_alone(site)
    async with Person(site, address="198.51.100.9") as mallory:
        assert (await mallory.open(theirs)).status_code == 404


@pytest.mark.usefixtures("found")
async def test_the_old_address_is_reserved_while_the_undo_link_is_valid(site: Website) -> None:
    await change_address(site, await session_of(site, ALICE), MALLORY)
    async with Person(site, address="198.51.100.9") as other:
        taken = await other.sign_up(ALICE)
        assert taken.status_code == 422
        assert "An account with this address" in words(taken)
        await other.sign_up(SECOND)
        reported = await other.send("/settings/account/email", {"email": ALICE})
        assert "An account with this address" in words(reported)
        site.clock.advance(7 * DAY_MS)
    async with Person(site, address="198.51.100.10") as other:
        assert where(await other.sign_up(ALICE)).startswith("/")


async def test_a_reset_reverts_changes_of_a_thief_if_the_owner_says_so(
    site: Website, found: AccountContents
) -> None:
    site.clock.advance(8 * DAY_MS)
    key = await break_in(site, await session_of(site, ALICE), found)
    site.clock.advance(3 * DAY_MS)
    await site.accounts.people.request_reset(EmailAddress(ALICE), HERE)
    reset = await site.link(ALICE)
    async with Person(site, address="198.51.100.2") as owner:
        form = {"password": OTHER_PASSWORD, "taken": "yes"}
        answer = await owner.send(reset, form)
        assert "The account is yours again" in words(answer)
        assert ended_by(answer)[1:] == EVERYTHING[1:]
        assert where(await owner.sign_in(ALICE, OTHER_PASSWORD)) == "/"
        assert await status(owner, found.key) == 200
        assert await status(owner, key) == 401
    expect_the_owners_alone(site)


async def test_a_reset_of_a_forgotten_password_keeps_keys_and_alerts(
    site: Website, alice: Person, found: AccountContents
) -> None:
    await site.accounts.people.request_reset(EmailAddress(ALICE), HERE)
    reset = await site.link(ALICE)
    assert where(await alice.send(reset, {"password": OTHER_PASSWORD})).startswith("/sign-in")
    assert await status(alice, found.key) == 200
    assert site.rows("SELECT count(*) FROM signal") == [(2,)]


async def test_a_change_of_the_address_requires_a_fresh_proof_of_the_password(
    site: Website, alice: Person
) -> None:
    session = await session_of(site, ALICE)
    site.clock.advance(6 * MINUTE_MS)
    assert await site.accounts.addresses.request(session, EmailAddress(MALLORY))
    link = await site.link(MALLORY)
    site.clock.advance(11 * MINUTE_MS)

    assert where(await alice.send(link)).startswith("/prove")
    await alice.send("/prove", {"password": PASSWORD})
    assert "address-changed" in where(await alice.send(link))


@pytest.mark.usefixtures("found")
async def test_links_of_a_thief_are_void_after_the_undo(site: Website) -> None:
    """A reset link sent to the thief's address would set the password of the owner's account."""
    await change_address(site, await session_of(site, ALICE), MALLORY)
    undo = await undo_in(site, ALICE, "e-mail address of your account")
    await site.accounts.people.request_reset(EmailAddress(MALLORY), HERE)
    reset = await site.link(MALLORY)

    async with Person(site, address="198.51.100.2") as owner:
        await owner.send(undo, {"sure": "yes"})
    async with Person(site, address="198.51.100.9") as mallory:
        assert (await mallory.open(reset)).status_code == 404


@pytest.mark.usefixtures("found")
async def test_a_reset_link_sent_to_the_old_address_is_void_after_a_change(site: Website) -> None:
    await site.accounts.people.request_reset(EmailAddress(ALICE), HERE)
    reset = await site.link(ALICE)
    await change_address(site, await session_of(site, ALICE), MALLORY)

    async with Person(site, address="198.51.100.9") as someone:
        assert (await someone.open(reset)).status_code == 404


@pytest.mark.usefixtures("found")
async def test_an_owner_can_change_back_to_the_old_address(site: Website) -> None:
    session = await session_of(site, ALICE)
    await change_address(site, session, MALLORY)
    await change_address(site, session, ALICE)

    assert site.rows('SELECT email FROM "user"') == [(ALICE,)]


async def test_an_undo_link_of_an_earlier_version_keeps_keys_from_before_the_change(
    site: Website, alice: Person, found: AccountContents
) -> None:
    thief = await session_of(site, ALICE)
    await make_key(site, thief)
    await change_address(site, thief, MALLORY)
    undo = await undo_in(site, ALICE, "e-mail address of your account")
    with closing(apsw.Connection(str(site.folder / MONEY_FILE))) as db:
        # Earlier versions did not store the beginning of the session.
        db.execute("UPDATE proof SET since = NULL WHERE purpose = 'undo_email'")

    assert "One API key." not in await take_back(site, undo)

    assert await status(alice, found.key) == 200


@pytest.mark.usefixtures("found")
async def test_at_most_twenty_announcements_of_a_kind_are_written_in_a_day(site: Website) -> None:
    session = await session_of(site, ALICE)
    for _ in range(23):
        await site.accounts.people.change_password(session, PASSWORD)

    assert site.accounts.mailbox is not None
    posted = await site.accounts.mailbox.recent(limit=100)
    texts = [each.email.text for each in posted if "was changed, and all other" in each.email.text]
    assert ["/undo-email/" in each for each in texts] == [True] * 20


@pytest.mark.usefixtures("alice")
async def test_an_address_that_is_not_verified_gets_no_undo(site: Website) -> None:
    """An address that was never confirmed may belong to a stranger."""
    await make_key(site, await session_of(site, ALICE))

    reported = await site.email(ALICE)
    assert "new API key" in reported
    assert "/undo-email/" not in reported
