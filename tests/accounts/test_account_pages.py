"""Settings > Account: changes of the address, undo links, and deletion of the account."""

import re
from asyncio import create_task, to_thread
from contextlib import closing

import httpx
import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.alerts.alert import Alert
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.postgres import SPEND
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS
from mintscope.solana.blocks import WSOL
from support.scenes.engine import rows_of
from support.scenes.people.takeover import RULE
from support.scenes.people.web_person import (
    ALICE,
    MALLORY,
    Person,
    fields_of,
    tags,
    where,
    words,
)
from support.scenes.postgres import dsn_in
from support.scenes.service import bearer, credit_token
from support.scenes.website import ADMINISTRATOR, HERE, PASSWORD, Website

EMAIL = "/settings/account/email"
DELETE = "/settings/account/delete"
NEW = "alice@new.example"
OTHER_PASSWORD = "staple horse battery"
SOMEONE_WAITS = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)"


async def verify(site: Website, person: Person, email: str = ALICE) -> None:
    """Verify the address of *person* with the link that is sent to *email*."""
    site.clock.advance(6 * MINUTE_MS)  # verification e-mails are five minutes apart
    await person.send("/settings/account/verify")
    assert "verified" in where(await person.send(await site.link(email)))


async def change(site: Website, person: Person, email: str) -> str:
    """Request *email* as the new address of *person*; return the path of the link sent to it."""
    site.clock.advance(6 * MINUTE_MS)  # such e-mails are five minutes apart
    await person.send("/prove", {"password": PASSWORD})
    assert "address-sent" in where(await person.send(EMAIL, {"email": email}))
    return await site.link(email)


async def emails_to(site: Website, email: str) -> int:
    assert site.accounts.mailbox is not None
    sent = await site.accounts.mailbox.recent(limit=100)
    return sum(each.email.recipient == email for each in sent)


async def make_key(site: Website, email: str, name: str = "bot", networks: str = "") -> str:
    cookie = await site.accounts.people.sign_in(EmailAddress(email), PASSWORD, HERE)
    session = await site.accounts.people.session(cookie)
    assert session is not None
    issued = await site.accounts.keys.create(
        session, name=name, scopes=frozenset(Scope), lifetime_ms=None, networks=networks
    )
    return issued.api_key


async def status_of(person: Person, key: str) -> int:
    return (await person.client.get("/v1/me", headers=bearer(key))).status_code


async def test_an_address_changes_when_its_reader_confirms_it(site: Website, alice: Person) -> None:
    await verify(site, alice)
    link = await change(site, alice, NEW)
    assert NEW not in words(await alice.open("/settings/account"))
    async with Person(site, address="198.51.100.9") as elsewhere:
        await elsewhere.sign_in()
        assert NEW in words(await alice.open(link))
        assert where(await alice.send(link)).endswith("notice=address-changed")
        assert where(await elsewhere.open("/settings/account")).startswith("/sign-in")
        assert (await elsewhere.sign_in()).status_code == 422
        assert where(await elsewhere.sign_in(NEW)) == "/"
    assert f"{NEW} Verified" in words(await alice.open("/settings/account"))
    assert (await alice.send(link)).status_code == 404
    undo = await site.email(ALICE)
    assert "e-mail address of your account" in undo
    assert NEW not in undo  # e-mails contain no text that a person has typed


async def test_the_link_works_for_a_day_and_only_in_the_account_that_requested_it(
    site: Website, alice: Person
) -> None:
    link = await change(site, alice, NEW)
    async with Person(site, address="198.51.100.9") as mallory:
        assert where(await mallory.open(link)).startswith("/sign-in")
        await mallory.sign_up(MALLORY)
        assert (await mallory.open(link)).status_code == 404
        assert (await mallory.send(link)).status_code == 404
    site.clock.advance(24 * HOUR_MS)
    await alice.sign_in()  # her session has ended, too
    assert (await alice.send(link)).status_code == 404


async def test_only_the_newest_link_changes_the_address(site: Website, alice: Person) -> None:
    first = await change(site, alice, "typo@new.example")
    second = await change(site, alice, NEW)
    assert (await alice.send(first)).status_code == 404
    assert "address-changed" in where(await alice.send(second))


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("nothing", "Expected"),
        (ALICE, "your address already"),
        (MALLORY, "An account with this address"),
    ],
)
async def test_an_impossible_address_is_refused(
    site: Website, alice: Person, typed: str, answer: str
) -> None:
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
    reported = await alice.send(EMAIL, {"email": typed})
    assert reported.status_code == 422
    assert answer in words(reported)


async def test_an_address_taken_meanwhile_stays_with_its_account(
    site: Website, alice: Person
) -> None:
    link = await change(site, alice, NEW)
    async with Person(site, address="198.51.100.9") as other:
        await other.sign_up(NEW)
        assert "An account with this address" in words(await alice.send(link))
        assert f"{NEW} Not verified" in words(await other.open("/settings/account"))


async def test_a_requested_address_gets_at_most_five_emails_a_day(
    site: Website, alice: Person
) -> None:
    for _ in range(12):
        site.clock.advance(70 * MINUTE_MS)
        await alice.sign_in()
        await alice.send(EMAIL, {"email": NEW})
    assert await emails_to(site, NEW) == 5


async def test_questions_for_other_addresses_are_limited_together_with_sign_ups(
    site: Website, alice: Person
) -> None:
    """The answer shows whether an address has an account, as that of a sign-up does."""
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)

    statuses = [(await alice.send(EMAIL, {"email": MALLORY})).status_code for _ in range(21)]

    assert statuses == [422] * 19 + [429] * 2  # after the sign-up of Alice


async def test_the_owner_of_the_old_address_takes_the_account_back(
    site: Website, alice: Person
) -> None:
    await verify(site, alice)
    old_key = await make_key(site, ALICE)
    site.clock.advance(MINUTE_MS)
    async with Person(site, address="198.51.100.9") as thief:
        await thief.sign_in()  # the thief knows the password
        await thief.send(await change(site, thief, MALLORY))
        undo = await site.link(ALICE)
        new_key = await make_key(site, MALLORY, "of the thief")
        await thief.send(await change(site, thief, "mallory@second.example"))
        later = await site.link(MALLORY)

        async with Person(site, address="198.51.100.2") as owner:
            assert ALICE in words(await owner.open(undo))
            answer = await owner.send(undo, {"sure": "yes"})
            assert "The account is yours again" in words(answer)
            links = [each.get("href", "") for _, each in tags(answer)]
            (reset,) = [link for link in links if link.startswith("/reset/")]
            assert (await thief.sign_in()).status_code == 422  # the password is void
            assert where(await thief.open("/settings/account")).startswith("/sign-in")
            assert (await thief.open(later)).status_code == 404  # the thief's undo link is void
            sent = await owner.send(reset.partition("?")[0], {"password": OTHER_PASSWORD})
            assert where(sent).startswith("/sign-in")
            assert where(await owner.sign_in(ALICE, OTHER_PASSWORD)) == "/"
            assert f"{ALICE} Verified" in words(await owner.open("/settings/account"))
            assert await status_of(owner, old_key) == 200
            assert await status_of(owner, new_key) == 401
            assert (await owner.open(undo)).status_code == 404


async def test_an_unverified_old_address_gets_no_email_about_the_change(
    site: Website, alice: Person
) -> None:
    await alice.send(await change(site, alice, NEW))
    assert await emails_to(site, NEW) == 1
    assert await emails_to(site, ALICE) == 1  # from the sign-up


async def test_an_undo_link_expires_after_a_week(site: Website, alice: Person) -> None:
    await verify(site, alice)
    await alice.send(await change(site, alice, NEW))
    undo = await site.link(ALICE)
    site.clock.advance(7 * DAY_MS)
    assert (await alice.open(undo)).status_code == 404
    assert (await alice.send(undo, {"sure": "yes"})).status_code == 404


async def test_a_deleted_account_keeps_no_personal_data(site: Website, alice: Person) -> None:
    key = await make_key(site, ALICE, networks="198.51.100.0/24")
    assert await status_of(alice, key) == 200
    await site.accounts.keys.flush()
    _, secret = await site.apply_for_key(ALICE)
    await verify(site, alice)
    made = await site.accounts.signals.make(UserId(1), RULE)
    assert isinstance(made, Alert)
    await site.accounts.signals.test(UserId(1), made.signal_id)
    text = words(await alice.open(DELETE))
    assert "1 alert is deleted, with all firings" in text
    assert "1 key stops working" in text
    assert "It is deleted, and its address may apply again" in text
    ((username,),) = site.rows("SELECT username FROM user")
    assert (await alice.send(DELETE, {"username": "someone"})).status_code == 422
    assert "account-deleted" in where(await alice.send(DELETE, {"username": username}))

    assert alice.cookie is None
    assert await status_of(alice, key) == 401
    assert (await alice.sign_in()).status_code == 422
    assert site.rows("SELECT networks FROM api_key") == [("",)]
    columns = "email, username, password_hash, administrator"
    assert site.rows(f"SELECT {columns} FROM user WHERE id = 1") == [("", "removed-1", "", 0)]
    gone = "session key_address application linked_wallet watchlist signal signal_firing"
    for table in gone.split():
        assert site.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert "was deleted" in await site.email(ALICE)
    assert await site.accounts.exchange.recognise(EmailAddress(ALICE), secret) is None
    assert await site.accounts.review.applications(limit=9) == []
    assert where(await alice.sign_up()).startswith("/")  # the address is free


async def test_a_deleted_account_keeps_no_application_of_an_earlier_address(
    site: Website, alice: Person
) -> None:
    await verify(site, alice)
    signup_id, secret = await site.apply_for_key(ALICE)
    assert await site.accounts.signup.confirm_by_link((await site.link(ALICE)).rpartition("/")[2])
    await site.accounts.review.approve(signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE)
    key = await site.exchange(ALICE, secret)
    await alice.send(await change(site, alice, NEW))
    await site.apply_for_key(NEW)
    assert "It is deleted, and its address may apply again" in words(await alice.open(DELETE))

    ((username,),) = site.rows("SELECT username FROM user")
    assert "account-deleted" in where(await alice.send(DELETE, {"username": username}))

    assert site.rows("SELECT email FROM application") == []
    assert await status_of(alice, key) == 401


async def test_credits_of_a_deleted_account_move_to_a_credit_token(
    site: Website, alice: Person
) -> None:
    ((username,),) = site.rows("SELECT username FROM user")
    await give_credits(site, 7)
    assert "7 credits" in words(await alice.open(DELETE))
    asked = await alice.send(DELETE, {"username": username, "keep": "yes"})
    assert "Your account is not deleted yet" in words(asked)
    (token,) = tokens_of(asked)
    assert token[-4:] in await site.email(ALICE)
    assert "Moved all credits to a credit token" in words(await alice.open("/settings/log"))
    assert "seen" not in fields_of(asked, DELETE)
    again = await alice.send(
        DELETE, fields_of(asked, DELETE)
    )  # the box that confirms the token is not checked
    assert tokens_of(again) == [token]
    left = await alice.send(DELETE, fields_of(asked, DELETE) | {"seen": "1"})
    assert "account-deleted" in where(left)
    assert alice.cookie is None
    assert await balance_of(alice, token) == 7


async def test_a_lost_answer_to_a_deletion_loses_no_credits(site: Website, alice: Person) -> None:
    ((username,),) = site.rows("SELECT username FROM user")
    form = {"username": username, "keep": "yes"}
    await give_credits(site, 7)
    await alice.send(DELETE, form)  # the answer is lost
    assert "7 credits are in a credit token" in words(await alice.open(DELETE))
    (token,) = tokens_of(await alice.send(DELETE, form))
    assert await balance_of(alice, token) == 7

    await give_credits(site, 3, 2)
    asked = await alice.send(DELETE, form | {"seen": "1"})
    first, second = tokens_of(asked)
    assert first == token
    assert [await balance_of(alice, each) for each in (first, second)] == [7, 3]
    assert tokens_of(await alice.send(DELETE, form | {"seen": "1"})) == [first, second]
    left = await alice.send(DELETE, fields_of(asked, DELETE) | {"seen": "2"})
    assert "account-deleted" in where(left)
    assert [await balance_of(alice, each) for each in (first, second)] == [7, 3]


async def test_credits_that_are_not_kept_at_a_deletion_can_no_longer_be_spent(
    site: Website, alice: Person
) -> None:
    """The credits stay in the books; neither a credit token nor the next account gets them."""
    ((username,),) = site.rows("SELECT username FROM user")
    balances = "SELECT id, balance FROM credit_account WHERE balance > 0"
    key = await make_key(site, ALICE)
    await give_credits(site, 7)
    held = site.rows(balances)
    account = await site.accounts.credits.find(UserId(1))
    assert held == [(account, 7)]
    assert "account-deleted" in where(await alice.send(DELETE, {"username": username}))
    spent = await alice.client.get(f"/v1/token/{WSOL}", headers=bearer(key))
    await alice.sign_up()

    assert spent.status_code == 401
    assert site.rows(balances) == held
    assert (await site.accounts.credits.summary(UserId(2))).balance == 0


async def test_a_deletion_that_fails_takes_no_credits(site: Website, alice: Person) -> None:
    ((username,),) = site.rows("SELECT username FROM user")
    form = {"username": username, "keep": "yes"}
    await give_credits(site, 7)
    trigger = "BEFORE UPDATE ON user BEGIN SELECT raise(FAIL, 'full'); END"
    path = site.folder / MONEY_FILE
    (token,) = tokens_of(await alice.send(DELETE, form))
    rows_of(path, f"CREATE TRIGGER full {trigger}")
    assert (await alice.send(DELETE, form | {"seen": "1"})).status_code == 503
    rows_of(path, "DROP TRIGGER full")

    assert "7 credits" in words(await alice.open(DELETE))
    assert tokens_of(await alice.send(DELETE, form)) == [token]
    assert "account-deleted" in where(await alice.send(DELETE, form | {"seen": "1"}))
    assert await balance_of(alice, token) == 7


@pytest.mark.parametrize("engine_of_stores", ["postgresql"], indirect=True)
async def test_credits_spent_during_the_move_out_of_an_account_are_not_moved(
    site: Website, alice: Person
) -> None:
    """The agent spends the last credit after the deletion began, before the credit is moved."""
    assert alice.cookie is not None
    session = await site.accounts.people.session(alice.cookie)
    assert session is not None
    await give_credits(site, 1)
    account = await site.accounts.credits.find(session.user.user_id)

    def see_someone_wait() -> None:
        while not agent.execute(SOMEONE_WAITS).get:
            pass

    database = PostgresDatabase(dsn_in(site.folder, ("money",)))
    with closing(database) as agent, agent.transaction(beside=True):
        agent.execute(SPEND, ([account], site.clock.now(), 1, 1, []))
        keeping = create_task(site.accounts.credits.keep(session))
        await to_thread(see_someone_wait)

    assert await keeping == []
    assert (await site.accounts.credits.summary(session.user.user_id)).balance == 0


def tokens_of(page: httpx.Response) -> list[str]:
    """Return the credit tokens that the page shows."""
    return re.findall("svc_credit_[0-9a-f]{64}", page.text)


async def balance_of(person: Person, token: str) -> int:
    answer = await person.client.get("/v1/credits/balance", headers=bearer(token))
    balance = answer.json()["data"]["balance"]
    assert isinstance(balance, int)
    return balance


async def give_credits(site: Website, count: int, number: int = 1) -> None:
    """Deposit *count* credits in Alice's account, from the new credit token *number*."""
    key = await make_key(site, ALICE, "deposits")
    token = credit_token(number)
    await site.ledger.issue(token, count, "")
    async with Person(site) as program:
        moved = await program.client.post(
            "/v1/account/credits/deposit",
            headers=bearer(key) | {"idempotency-key": f"a-deposit-of-mine-{number}"},
            json={"creditToken": token},
        )
    assert moved.status_code == 200, moved.text


async def test_the_last_administrator_cannot_delete_the_account(site: Website) -> None:
    await site.make_administrator()
    async with Person(site) as administrator:
        await administrator.sign_in(ADMINISTRATOR)
        ((username,),) = site.rows("SELECT username FROM user")
        refused = await administrator.send(DELETE, {"username": username})
        assert refused.status_code == 422
        assert "is the last administrator" in words(refused)
        assert (await administrator.open("/admin")).status_code == 200


async def test_a_user_name_can_be_changed_to_a_valid_free_name(
    site: Website, alice: Person
) -> None:
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        taken = await mallory.send("/settings/account/name", {"username": "ann-the-trader"})
        refused = [
            words(await alice.send("/settings/account/name", {"username": name}))
            for name in ("ann-the-trader", "a", "-ann-", "removed-1", "ann the trader")
        ]
        changed = await alice.send("/settings/account/name", {"username": "Alice"})

    assert where(taken).endswith("notice=account-renamed")
    assert "This name is taken." in refused[0]
    assert all("Expected 3 to 32 characters" in each for each in refused[1:])
    assert where(changed).endswith("notice=account-renamed")
    assert "User name alice" in words(await alice.open("/settings/account"))


async def test_a_spend_alert_sends_one_email_a_day_and_the_log_shows_each_action(
    site: Website, alice: Person
) -> None:
    refused = words(await alice.send("/credits/spend-alert", {"level": "5"}))
    await verify(site, alice)
    texts = ("many", "1,5", "0", "000", "0000000000001" + "0" * 30, "1" * 13)
    wrong = [await alice.send("/credits/spend-alert", {"level": text}) for text in texts]
    await alice.send("/credits/spend-alert", {"level": "5"})
    shown = await alice.open("/credits")
    await give_credits(site, 30)
    account = await site.accounts.credits.find(UserId(1))
    assert account is not None

    async def emails_after(spends: int) -> int:
        for _ in range(spends):
            await site.ledger.spend(account)
        site.clock.advance(6 * MINUTE_MS)
        await site.accounts.maintenance.round()
        kind = f"{SqlEmailRows.NAME} WHERE kind = 'spend_alert'"
        ((count,),) = site.rows(f"SELECT count(*) FROM {kind}")
        return int(count)

    email_counts = [await emails_after(spends) for spends in (4, 1, 5)]
    for level in ("", "5"):  # on the day of the e-mail
        await alice.send("/credits/spend-alert", {"level": level})
    email_counts.append(await emails_after(1))
    text = await site.email(ALICE)
    site.clock.advance(DAY_MS)
    email_counts += [await emails_after(spends) for spends in (4, 2)]
    async with Person(site) as again:
        await again.sign_in()
        await again.send("/credits/spend-alert", {"level": ""})
        log = words(await again.open("/settings/log"))

    assert "Verify your e-mail address first" in refused
    assert {each.status_code for each in wrong} == {422}
    assert all("Expected a whole number of credits" in words(each) for each in wrong)
    assert 'value="5"' in shown.text
    assert email_counts == [0, 1, 1, 1, 1, 2]
    assert "Your account has spent 5 credits on" in text
    assert re.search("Signed in You .* 5 credits You .*Verified the e-mail address You", log)
    assert "Changed the spend alert none You" in log
    assert "Signed up You" in log


async def test_the_log_shows_actions_of_an_api_key_on_itself_and_on_other_keys(
    site: Website, alice: Person
) -> None:
    keys = [await make_key(site, ALICE, name) for name in ("first", "second")]
    program = alice.client
    capped = await program.patch(
        "/v1/account/keys/1", headers=bearer(keys[1]), json={"monthCreditsMax": 5}
    )
    revoked = await program.delete("/v1/me/key", headers=bearer(keys[1]))
    page = await alice.open("/settings/log")
    log = words(page)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        other = words(await mallory.open("/settings/log"))

    assert (capped.status_code, revoked.status_code) == (200, 200)
    assert re.search(
        "Revoked: API key An API key .* Changed the monthly cap: API key 5 credits An API key",
        log,
    ), log
    assert page.text.count('<a href="/settings/api-keys/2">An API key</a>') == 2
    assert "API key An" not in other
