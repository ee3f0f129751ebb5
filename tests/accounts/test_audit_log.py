"""The audit log and the e-mails of a person or an application, in their exact words."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.key import KEYS_PER_DAY_MAX
from mintscope.accounts.keys.keys import TooManyKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.email import Draft
from mintscope.accounts.rows import AccountStore
from mintscope.accounts.session import Purpose, SessionEnded
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.application import LAPSE_MS, parse_form
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.time import DAY_MS
from support.oracles.account_books import rows
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    OTHER_PASSWORD,
    PeopleService,
    open_people_service,
)
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

READS = "trade:read, wallets:read, signals:read, groups:read"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


@pytest.fixture
async def accounts(tmp_path: Path) -> AsyncIterator[Accounts]:
    clock = ManualClock(NOW)
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=clock) as accounts:
        yield accounts


def reported(found: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows with their last column, which is JSON, decoded."""
    return [(*columns, json.loads(facts)) for *columns, facts in found]


EVENTS = "SELECT actor, action, subject, detail FROM account_event ORDER BY id"


async def emails(store: AccountStore) -> list[Draft]:
    """Return the written e-mails, oldest first."""
    return [*reversed(await store.read(lambda rows: rows.emails.newest(100)))]


async def written(store: AccountStore) -> list[tuple[str, str, dict[str, str]]]:
    return [(each.kind, each.recipient, each.facts) for each in await emails(store)]


async def test_the_log_and_the_emails_record_the_life_of_a_person(service: PeopleService) -> None:
    session = await service.signed_up()
    await service.people.request_verification(session)
    assert await service.people.verify(session, service.link(Purpose.VERIFY_EMAIL))
    await service.people.change_password(session, OTHER_PASSWORD)
    scopes = frozenset({Scope.TRADE_WRITE})
    made = await service.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    rotated = await service.keys.rotate(session, made.line.key_id, overlap_ms=0)
    assert rotated is not None
    assert await service.keys.revoke(session, rotated.line.key_id)
    await service.taken_back()

    assert reported(service.rows(EVENTS)) == [
        ("user:1", "signed up", "user:1", {}),
        ("user:1", "verified mailbox", "user:1", {}),
        ("user:1", "changed password", "user:1", {}),
        ("user:1", "created", "key:1", {"hint": made.line.hint}),
        ("user:1", "rotated", "key:2", {"hint": rotated.line.hint}),
        ("user:1", "revoked", "key:2", {}),
        ("user:1", "reset password", "user:1", {"keys_revoked": "0"}),
    ]
    both = "trade:read, trade:write"
    assert await written(service.store) == [
        ("verify_email", ALICE, {}),
        ("password_changed", ALICE, {}),
        ("new_key", ALICE, {"hint": made.line.hint, "scopes": both}),
        ("new_key", ALICE, {"hint": rotated.line.hint, "scopes": both}),
        ("reset_password", ALICE, {}),
        ("password_changed", ALICE, {}),
    ]


async def test_a_reset_that_first_verifies_the_address_revokes_earlier_keys(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    await service.keys.create(session, name="bot", scopes=frozenset(), lifetime_ms=None)
    await service.taken_back()

    assert reported(service.rows(EVENTS))[-1] == (
        *("user:1", "reset password", "user:1"),
        {"keys_revoked": "1"},
    )


async def test_revoked_keys_count_towards_the_daily_limit_of_new_keys(
    service: PeopleService,
) -> None:
    """Keys of the day before do not count."""
    session = await service.signed_up()

    async def make() -> None:
        made = await service.keys.create(session, name="", scopes=frozenset(), lifetime_ms=None)
        assert await service.keys.revoke(session, made.line.key_id)

    for _ in range(KEYS_PER_DAY_MAX):
        await make()
    with pytest.raises(TooManyKeys):
        await make()
    service.change("UPDATE api_key SET created_at = created_at - ?", DAY_MS)
    await make()


async def apply(accounts: Accounts, name: str, *, confirm: bool = True) -> Any:
    form = parse_form(signup_body(f"{name}@example.org"))
    made = await accounts.signup.apply(form, redelivery_key=None)
    if confirm:
        await accounts.signup.confirm_by_code(form.email, made.secret, accounts.code(form.email))
    return made


async def exchange(accounts: Accounts, name: str, secret: str) -> Any:
    application = await accounts.exchange.recognise(EmailAddress(f"{name}@example.org"), secret)
    assert application is not None
    return await accounts.exchange.exchange(application, secret, redelivery_key=None)


async def test_the_log_and_the_emails_record_the_life_of_an_application(accounts: Accounts) -> None:
    agent = await apply(accounts, "agent")
    await accounts.review.approve(
        agent.signup_id,
        scopes=frozenset({Scope.TRADE_WRITE}),
        note="known",
        actor=COMMAND_LINE,
    )
    first = await exchange(accounts, "agent", agent.secret)
    again = await accounts.review.reset(agent.signup_id, actor=COMMAND_LINE)
    assert (again.state, again.issued_at) == ("approved", None)
    second = await exchange(accounts, "agent", agent.secret)
    await accounts.review.forget(agent.signup_id, actor=COMMAND_LINE)

    because = {"because": "application:1"}
    wide = "trade:read, trade:write, wallets:read, signals:read, groups:read"
    assert reported(rows(accounts.path, EVENTS)) == [
        ("applicant", "applied", "application:1", {}),
        ("applicant", "confirmed", "application:1", {}),
        ("command line", "approved", "application:1", {"note": "known", "scopes": wide}),
        ("applicant", "created", "user:1", because),
        ("applicant", "issued", "key:1", because),
        ("command line", "revoked", "key:1", because),
        ("command line", "reset", "application:1", {}),
        ("applicant", "issued", "key:2", because),
        ("command line", "revoked", "key:2", because),
        ("command line", "removed", "user:1", because | {"keys_revoked": "0"}),
        ("command line", "forgotten", "application:1", {"state": "key_issued"}),
    ]
    email = "agent@example.org"
    assert await written(accounts.store) == [
        ("confirm_application", email, {}),
        ("application_approved", email, {"scopes": wide}),
        ("new_key", email, {"hint": first.line.hint, "scopes": wide}),
        ("application_approved", email, {"scopes": wide}),
        ("new_key", email, {"hint": second.line.hint, "scopes": wide}),
    ]


async def test_the_log_records_rejected_unconfirmed_and_lapsed_applications(
    accounts: Accounts,
) -> None:
    refused, unknown, lapsing = (
        await apply(accounts, "refused"),
        await apply(accounts, "unknown", confirm=False),
        await apply(accounts, "lapsing", confirm=False),
    )
    await accounts.review.reject(refused.signup_id, note="", actor=COMMAND_LINE)
    await accounts.review.approve(
        unknown.signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE, unconfirmed=True
    )
    accounts.change("UPDATE application SET applied_at = applied_at - ?", LAPSE_MS)
    assert await accounts.signup.forget_lapsed() == 1
    assert lapsing.signup_id == 3

    found = reported(rows(accounts.path, EVENTS))
    assert [event for event in found if event[1] not in {"applied", "confirmed"}] == [
        ("command line", "rejected", "application:1", {}),
        (
            *("command line", "approved", "application:2"),
            {"mailbox": "unconfirmed", "scopes": READS},
        ),
        ("service", "lapsed", "application:3", {}),
    ]
    assert [row[:2] for row in await written(accounts.store)][3:] == [
        ("application_rejected", "refused@example.org"),
        ("application_approved", "unknown@example.org"),
    ]
    reasons = [each.reason for each in await emails(accounts.store) if each.given_up_at]
    assert reasons == ["its application was deleted"]


async def test_a_refused_review_names_the_expected_and_the_actual_state(accounts: Accounts) -> None:
    agent = await apply(accounts, "agent")
    waiting = await apply(accounts, "waiting", confirm=False)
    review = accounts.review
    with pytest.raises(NotPossible) as unknown:
        await review.reject(agent.signup_id + 9, note="", actor=COMMAND_LINE)
    with pytest.raises(NotPossible) as early:
        await review.reset(agent.signup_id, actor=COMMAND_LINE)
    with pytest.raises(NotPossible) as unconfirmed:
        await review.approve(waiting.signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE)
    await review.reject(agent.signup_id, note="", actor=COMMAND_LINE)
    with pytest.raises(NotPossible) as decided:
        await review.reject(agent.signup_id, note="", actor=COMMAND_LINE)

    assert [str(each.value).partition("; ") for each in (unknown, early, unconfirmed, decided)] == [
        ("there is no application with the number 10", "", ""),
        (
            "expected an application that has its key already",
            "; ",
            "application 1 awaits approval",
        ),
        (
            "expected an application that awaits approval",
            "; ",
            "application 2 awaits the confirmation of its e-mail address",
        ),
        (
            (
                "expected an application that awaits approval or"
                " awaits the confirmation of its e-mail address"
            ),
            "; ",
            "application 1 was rejected",
        ),
    ]


async def test_a_refused_reset_names_the_removal_of_the_account(accounts: Accounts) -> None:
    agent = await apply(accounts, "agent")
    await accounts.review.approve(agent.signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE)
    await exchange(accounts, "agent", agent.secret)
    await accounts.review.remove_user(UserId(1), actor=COMMAND_LINE)
    with pytest.raises(NotPossible) as caught:
        await accounts.review.reset(agent.signup_id, actor=COMMAND_LINE)

    assert str(caught.value).endswith("application 1 belongs to an account that was removed")


async def test_the_log_records_new_and_removed_administrators(
    service: PeopleService, accounts: Accounts
) -> None:
    session = await service.signed_up()
    await service.keys.create(session, name="bot", scopes=frozenset(), lifetime_ms=None)
    with pytest.raises(SessionEnded):
        await accounts.review.remove_user(session.user.user_id, actor=session)
    alice, is_new = await accounts.review.make_administrator(
        ALICE, password_hash="quick:another", actor=COMMAND_LINE
    )
    assert (alice.is_administrator, is_new) == (True, False)
    mallory, is_new = await accounts.review.make_administrator(
        MALLORY, password_hash="quick:third", actor=COMMAND_LINE
    )
    assert (mallory.is_administrator, is_new) == (True, True)
    signed_in = await service.enter(await service.people.sign_in(MALLORY, "third", HERE))
    await accounts.review.remove_user(alice.user_id, actor=signed_in)
    with pytest.raises(NotPossible) as last:
        await accounts.review.remove_user(mallory.user_id, actor=COMMAND_LINE)
    with pytest.raises(NotPossible) as gone:
        await accounts.review.remove_user(alice.user_id, actor=COMMAND_LINE)

    assert str(last.value) == (
        f"{mallory.username} is the last administrator: make another account an administrator first"
    )
    assert str(gone.value) == "there is no account with the number 1"
    found = reported(service.rows(EVENTS))
    assert [event for event in found if event[2].startswith("user")] == [
        ("user:1", "signed up", "user:1", {}),
        ("command line", "reset password", "user:1", {"keys_revoked": "1"}),
        ("command line", "made administrator", "user:1", {}),
        ("command line", "created", "user:2", {}),
        ("command line", "made administrator", "user:2", {}),
        ("user:2", "signed in", "user:2", {}),
        ("user:2", "removed", "user:1", {"keys_revoked": "0"}),
    ]
    assert service.rows("SELECT password_hash FROM user WHERE id = 1") == [("",)]
