"""Actions of applicants and administrators, over a real file; two processes may share it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw
import pytest

from mintscope.accounts.factor_rows import UserKind
from mintscope.accounts.keys.scope import READ_SCOPES, Scope
from mintscope.accounts.session import Purpose
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.application import (
    LAPSE_MS,
    Application,
    ApplicationState,
    Form,
    SignupId,
    parse_form,
)
from mintscope.accounts.signups.signups import IssuedKey, Signup
from mintscope.app.stores import sqlite
from mintscope.kit.audit import COMMAND_LINE, UserId, user_actor
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import (
    AccountNotFound,
    DuplicateApplication,
    InvalidCredentials,
    InvalidFields,
    NotApproved,
    ServiceUnavailable,
)
from mintscope.kit.sql.database import DatabaseError
from mintscope.payments.payment import TopUp
from support.oracles.account_books import contradictions, dump, rows
from support.scenes.account_stores import impatient_accounts
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.payments.pending_payments import new_payment
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

FORM: Final = parse_form(
    signup_body(telegram="@agent", twitter="agent", motivation="To trade.\nAlone.")
)
ADMINISTRATOR: Final = user_actor(7)
STATES: Final = ApplicationState


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def accounts(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Accounts]:
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=clock) as accounts:
        yield accounts


def form_of(name: str) -> Form:
    return parse_form(signup_body(f"{name}@example.org"))


async def confirmed(accounts: Accounts, form: Form = FORM) -> Signup:
    made = await accounts.signup.apply(form, redelivery_key=None)
    await accounts.signup.confirm_by_code(form.email, made.secret, accounts.code(form.email))
    return made


async def approved(accounts: Accounts, form: Form = FORM, *scopes: Scope) -> Signup:
    made = await confirmed(accounts, form)
    await accounts.review.approve(
        made.signup_id, scopes=frozenset(scopes), note="known", actor=ADMINISTRATOR
    )
    return made


async def exchanged(accounts: Accounts, made: Signup, form: Form = FORM) -> IssuedKey:
    applicant = await accounts.exchange.recognise(form.email, made.secret)
    assert applicant is not None
    return await accounts.exchange.exchange(applicant, made.secret, redelivery_key=None)


def recipients(accounts: Accounts, kind: str) -> list[tuple[str, ...]]:
    return rows(accounts.path, f"SELECT recipient FROM letter WHERE kind = '{kind}'")


async def numbers(
    accounts: Accounts, state: ApplicationState | None = None, after: int | None = None
) -> list[int]:
    behind = None if after is None else SignupId(after)
    found = await accounts.review.applications(state, after=behind, limit=2)
    return [one.signup_id for one in found]


async def test_an_application_is_stored_as_it_was_sent(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)

    assert await accounts.review.application(made.signup_id) == Application(
        signup_id=made.signup_id,
        form=FORM,
        state=STATES.AWAITING_CONFIRMATION,
        applied_at=NOW,
        confirmed_at=None,
        decided_at=None,
        decided_by=None,
        scopes=frozenset(),
        note="",
        issued_at=None,
        user_removed=False,
    )


async def test_a_decision_names_its_administrator_and_its_time(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await confirmed(accounts)
    clock.advance(5_000)
    scopes = frozenset({Scope.TRADE_WRITE})

    decided = await accounts.review.approve(
        made.signup_id, scopes=scopes, note="known\nto us", actor=ADMINISTRATOR
    )

    assert decided == await accounts.review.application(made.signup_id)
    assert decided.state is STATES.APPROVED
    assert (decided.decided_by, decided.decided_at) == ("user:7", NOW + 5_000)
    assert (decided.scopes, decided.note) == (scopes, "known\nto us")
    (_, event), *_ = await accounts.review.events(limit=50)
    assert (event.actor, event.action, event.subject) == ("user:7", "approved", "application:1")
    assert event.detail["note"] == "known\nto us"
    assert "trade:write" in event.detail["scopes"]


async def test_a_key_has_the_read_scopes_and_the_granted_scopes(accounts: Accounts) -> None:
    made = await approved(accounts, FORM, Scope.TRADE_WRITE, Scope.GROUPS_READ)

    issued = await exchanged(accounts, made)

    assert issued.line.scopes == READ_SCOPES | {Scope.TRADE_WRITE}
    assert issued.line.hint == f"...{issued.api_key[-8:]}"
    assert issued.username.startswith("agent-")
    holder = await accounts.keys.find(issued.api_key)
    assert holder is not None
    assert (holder.key.key_id, holder.username) == (issued.line.key_id, issued.username)


async def test_waiting_applications_are_listed_oldest_first_and_all_newest_first(
    accounts: Accounts,
) -> None:
    for name in "abcde":
        await confirmed(accounts, form_of(name))
    await accounts.approve(2)

    assert await numbers(accounts, STATES.AWAITING_APPROVAL) == [1, 3]
    assert await numbers(accounts, STATES.AWAITING_APPROVAL, after=3) == [4, 5]
    assert await numbers(accounts, STATES.AWAITING_APPROVAL, after=5) == []
    assert await numbers(accounts) == [5, 4]
    assert await numbers(accounts, after=4) == [3, 2]
    assert await numbers(accounts, STATES.REJECTED) == []
    counts = await accounts.review.counts()
    assert counts == dict.fromkeys(STATES, 0) | {STATES.AWAITING_APPROVAL: 4, STATES.APPROVED: 1}


async def test_pagination_continues_behind_a_deleted_application(accounts: Accounts) -> None:
    for name in "abc":
        await confirmed(accounts, form_of(name))
    await accounts.review.forget(SignupId(1), actor=COMMAND_LINE)

    assert await numbers(accounts, STATES.AWAITING_APPROVAL, after=1) == [2, 3]


async def test_the_number_of_a_deleted_application_is_not_reused(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    assert await accounts.signup.disown(accounts.link())

    again = await accounts.signup.apply(FORM, redelivery_key=None)

    assert again.signup_id > made.signup_id
    assert await accounts.exchange.recognise(FORM.email, made.secret) is None


async def test_two_processes_see_each_others_changes(tmp_path: Path, clock: ManualClock) -> None:
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                open_accounts_service(tmp_path, pepper=PEPPER, clock=clock)
            )
            for _ in range(2)
        ]
        made = await confirmed(here)
        await there.approve(made.signup_id)
        issued = await exchanged(here, made)
        assert await there.keys.find(issued.api_key) is not None
        await there.remove_user(issued.line.user_id)
        assert await here.keys.find(issued.api_key) is None
        with pytest.raises(AccountNotFound):
            await here.signup.state(FORM.email, made.secret)


async def test_a_second_decision_in_another_process_is_refused(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                open_accounts_service(tmp_path, pepper=PEPPER, clock=clock)
            )
            for _ in range(2)
        ]
        made = await confirmed(here)
        await here.review.reject(made.signup_id, note="", actor=COMMAND_LINE)
        with pytest.raises(NotPossible, match="awaits approval; application 1 was rejected"):
            await there.review.approve(
                made.signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE
            )
        assert contradictions(here.path) == []


async def test_a_decision_can_be_undone_for_a_minute_until_the_key_is_fetched(
    accounts: Accounts, clock: ManualClock
) -> None:
    made, undo = await confirmed(accounts), accounts.review.undo
    number = made.signup_id
    scopes = frozenset({Scope.TRADE_WRITE})
    unconfirmed = await accounts.signup.apply(form_of("two"), redelivery_key=None)
    before = await accounts.review.application(number)

    await accounts.review.approve(number, scopes=scopes, note="known", actor=ADMINISTRATOR)
    first_at = clock.now()
    clock.advance(59_999)
    assert await undo(number, decided_at=first_at, actor=user_actor(8)) == before
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    with pytest.raises(NotApproved):
        await accounts.exchange.exchange(applicant, made.secret, redelivery_key=None)
    await accounts.review.reject(unconfirmed.signup_id, note="", actor=ADMINISTRATOR)
    back = await undo(unconfirmed.signup_id, decided_at=clock.now(), actor=ADMINISTRATOR)
    assert back.state is STATES.AWAITING_CONFIRMATION
    await accounts.review.reject(number, note="", actor=ADMINISTRATOR)
    with pytest.raises(NotPossible, match="until another decision is made"):
        await undo(number, decided_at=first_at, actor=ADMINISTRATOR)
    second_at = clock.now()
    clock.advance(60_000)
    with pytest.raises(NotPossible, match="can be undone for a minute"):
        await undo(number, decided_at=second_at, actor=ADMINISTRATOR)
    with pytest.raises(NotPossible, match="with the number 9"):
        await undo(SignupId(9), decided_at=second_at, actor=ADMINISTRATOR)

    third = await approved(accounts, form_of("three"))
    await exchanged(accounts, third, form_of("three"))
    with pytest.raises(NotPossible, match="the applicant has fetched the key"):
        await undo(third.signup_id, decided_at=clock.now(), actor=ADMINISTRATOR)
    history = await accounts.review.history(number)
    assert [event.action for event in history][:4] == [
        *("rejected", "reopened", "approved", "confirmed"),
    ]
    assert (history[1].actor, history[1].detail["was"]) == ("user:8", "approved")
    reported = recipients(accounts, "application_reopened")
    assert reported == [(FORM.email,)]
    assert contradictions(accounts.path) == []


async def test_one_of_a_simultaneous_undo_and_exchange_succeeds(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                open_accounts_service(tmp_path, pepper=PEPPER, clock=clock)
            )
            for _ in range(2)
        ]
        for number in range(8):
            form = form_of(f"agent{number}")
            made = await approved(here, form)
            undone, issued = await asyncio.gather(
                there.review.undo(made.signup_id, decided_at=clock.now(), actor=COMMAND_LINE),
                exchanged(here, made, form),
                return_exceptions=True,
            )
            assert isinstance(undone, NotPossible) != isinstance(issued, NotApproved)
            kept = await here.review.application(made.signup_id)
            assert kept is not None
            is_issued = not isinstance(issued, NotApproved)
            assert kept.state is (STATES.KEY_ISSUED if is_issued else STATES.AWAITING_APPROVAL)
        assert contradictions(here.path) == []


async def test_a_refused_action_names_its_reason(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    review, number = accounts.review, made.signup_id
    no_scopes: frozenset[Scope] = frozenset()

    with pytest.raises(NotPossible, match="awaits the confirmation of its e-mail address"):
        await review.approve(number, scopes=no_scopes, note="", actor=COMMAND_LINE)
    with pytest.raises(NotPossible, match="expected an application that has its key already"):
        await review.reset(number, actor=COMMAND_LINE)
    with pytest.raises(NotPossible, match="with the number 9"):
        await review.reset(SignupId(9), actor=COMMAND_LINE)
    with pytest.raises(NotPossible, match="with the number 9"):
        await review.reject(SignupId(9), note="", actor=COMMAND_LINE)
    with pytest.raises(NotPossible, match="with the number 9"):
        await review.forget(SignupId(9), actor=COMMAND_LINE)
    with pytest.raises(NotPossible, match="there is no account with the number 9"):
        await review.remove_user(UserId(9), actor=COMMAND_LINE)


async def test_an_application_is_not_deleted_while_its_agent_pays(accounts: Accounts) -> None:
    made = await approved(accounts)
    issued = await exchanged(accounts, made)
    account = await accounts.built.credits.open(issued.line.user_id)
    payments = sqlite.payment_store(accounts.path)
    await payments.begin(new_payment("agent", purchase=TopUp(credits=10, account=account)))
    await payments.close()

    with pytest.raises(NotPossible, match="has a payment in progress"):
        await accounts.review.forget(made.signup_id, actor=COMMAND_LINE)

    assert await accounts.keys.find(issued.api_key) is not None


async def test_a_reset_is_refused_after_the_account_was_removed(accounts: Accounts) -> None:
    made = await approved(accounts)
    issued = await exchanged(accounts, made)
    await accounts.remove_user(issued.line.user_id)

    with pytest.raises(NotPossible, match="belongs to an account that was removed"):
        await accounts.review.reset(made.signup_id, actor=COMMAND_LINE)


async def test_a_reset_gives_the_next_key_to_the_same_account(accounts: Accounts) -> None:
    made = await approved(accounts)
    first = await exchanged(accounts, made)
    await accounts.review.reset(made.signup_id, actor=COMMAND_LINE)

    second = await exchanged(accounts, made)

    assert second.line.user_id == first.line.user_id
    assert second.api_key != first.api_key
    assert await accounts.keys.find(first.api_key) is None
    assert await accounts.keys.find(second.api_key) is not None


async def test_deleting_an_application_frees_its_address_and_removes_its_agent(
    accounts: Accounts,
) -> None:
    made = await approved(accounts)
    issued = await exchanged(accounts, made)
    with pytest.raises(DuplicateApplication):
        await accounts.signup.apply(FORM, redelivery_key=None)

    await accounts.review.forget(made.signup_id, actor=COMMAND_LINE)

    assert await accounts.keys.find(issued.api_key) is None
    assert await accounts.review.user(issued.line.user_id) is None
    with pytest.raises(InvalidCredentials):
        await accounts.signup.state(FORM.email, made.secret)
    await accounts.signup.apply(FORM, redelivery_key=None)


async def test_a_rejection_is_sent_only_to_a_confirmed_address(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    await accounts.review.reject(made.signup_id, note="", actor=COMMAND_LINE)
    await accounts.review.reject(
        (await confirmed(accounts, form_of("b"))).signup_id, note="", actor=COMMAND_LINE
    )

    reported = recipients(accounts, "application_rejected")

    assert reported == [("b@example.org",)]


async def test_emails_contain_no_text_of_the_applicant(accounts: Accounts) -> None:
    made = await approved(accounts)
    await exchanged(accounts, made)

    emails = rows(accounts.path, "SELECT kind, facts FROM letter ORDER BY id")

    assert [kind for kind, _ in emails] == [
        "confirm_application",
        "application_approved",
        "new_key",
    ]
    assert all("agent" not in facts and "trade." not in facts for _, facts in emails)


async def test_no_secret_is_in_the_file(accounts: Accounts) -> None:
    made = await approved(accounts)
    issued = await exchanged(accounts, made)
    link = accounts.link().partition(".")[2]

    everything = "\n".join(map(repr, dump(accounts.path).values()))

    for secret in (made.secret, issued.api_key, issued.api_key[9:-8], link, accounts.code()):
        assert secret not in everything
        assert secret.encode().hex() not in everything
    raw = accounts.path.read_bytes() + accounts.path.with_name("money.sqlite-wal").read_bytes()
    assert made.secret.encode() not in raw
    assert issued.api_key.encode() not in raw


async def test_the_log_is_read_newest_first_and_is_append_only(accounts: Accounts) -> None:
    await approved(accounts)

    numbered = await accounts.review.events(limit=2)
    older = await accounts.review.events(before=numbered[-1][0], limit=50)

    assert [event.action for _, event in numbered] == ["approved", "confirmed"]
    assert [event.action for _, event in older] == ["applied"]
    with pytest.raises(DatabaseError, match="append-only"):
        accounts.change("UPDATE account_event SET actor = 'no one'")
    with pytest.raises(DatabaseError, match="append-only"):
        accounts.change("DELETE FROM account_event")


async def test_the_last_administrator_cannot_be_removed(accounts: Accounts) -> None:
    review = accounts.review
    alice, was_made = await review.make_administrator(
        form_of("alice").email, password_hash="one", actor=COMMAND_LINE
    )
    assert was_made
    assert alice.is_administrator
    assert alice.kind is UserKind.PERSON
    with pytest.raises(NotPossible, match="is the last administrator"):
        await review.remove_user(alice.user_id, actor=COMMAND_LINE)

    bob, _ = await review.make_administrator(
        form_of("bob").email, password_hash="two", actor=COMMAND_LINE
    )
    await review.remove_user(alice.user_id, actor=user_actor(bob.user_id))

    assert await review.users(limit=50) == [bob]
    assert await review.users(before=bob.user_id, limit=50) == []
    again, was_made = await review.make_administrator(
        alice.email, password_hash="three", actor=COMMAND_LINE
    )
    assert was_made
    assert again.user_id > bob.user_id


async def test_an_unverified_account_made_administrator_gets_the_operators_password(
    accounts: Accounts,
) -> None:
    review, email = accounts.review, form_of("alice").email
    await review.make_administrator(email, password_hash="a stranger's", actor=COMMAND_LINE)
    accounts.change(
        "INSERT INTO session VALUES (1, zeroblob(32), 1, 0, 0, 0, '', '');"
        "INSERT INTO api_key (user, key_hash, hint, name, scopes, created_at)"
        " VALUES (1, zeroblob(32), '', '', '[]', 0)"
    )

    _, was_made = await review.make_administrator(
        email, password_hash="the operator's", actor=COMMAND_LINE
    )

    assert not was_made
    assert rows(accounts.path, "SELECT password_hash FROM user") == [("the operator's",)]
    assert rows(accounts.path, "SELECT count(*) FROM session") == [(0,)]
    assert rows(accounts.path, "SELECT revoked_at FROM api_key") == [(NOW,)]


async def test_a_verified_account_made_administrator_keeps_password_and_sessions(
    accounts: Accounts,
) -> None:
    review, email = accounts.review, form_of("alice").email
    await review.make_administrator(email, password_hash="her own", actor=COMMAND_LINE)
    accounts.change(
        "UPDATE user SET verified_at = 1, administrator = 0;"
        "INSERT INTO session VALUES (1, zeroblob(32), 1, 0, 0, 0, '', '')"
    )

    promoted, _ = await review.make_administrator(
        email, password_hash="another", actor=COMMAND_LINE
    )

    assert promoted.is_administrator
    assert rows(accounts.path, "SELECT password_hash FROM user") == [("her own",)]
    assert rows(accounts.path, "SELECT count(*) FROM session") == [(1,)]


async def test_a_locked_file_makes_the_service_unavailable_and_changes_nothing(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with open_accounts_service(
        tmp_path, pepper=PEPPER, clock=clock, open_file=impatient_accounts
    ) as accounts:
        made = await confirmed(accounts)
        before = dump(accounts.path)
        other = apsw.Connection(str(accounts.path))
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(ServiceUnavailable):
            await accounts.approve(made.signup_id)
        with pytest.raises(ServiceUnavailable):
            await accounts.signup.apply(form_of("b"), redelivery_key=None)

        other.execute("ROLLBACK")
        other.close()
        assert dump(accounts.path) == before
        await accounts.approve(made.signup_id)


@pytest.mark.parametrize("state", [STATES.AWAITING_APPROVAL, STATES.REJECTED])
async def test_the_store_issues_no_key_unless_the_stored_application_is_approved(
    accounts: Accounts, state: ApplicationState
) -> None:
    made = await confirmed(accounts)
    if state is STATES.REJECTED:
        await accounts.review.reject(made.signup_id, note="", actor=COMMAND_LINE)
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    assert applicant.state is state
    believed = replace(applicant, state=STATES.APPROVED)

    for one in (applicant, believed):
        with pytest.raises(NotApproved):
            await accounts.exchange.exchange(one, made.secret, redelivery_key=None)
    assert rows(accounts.path, "SELECT count(*) FROM api_key") == [(0,)]


async def test_an_application_deleted_meanwhile_is_not_exchanged(accounts: Accounts) -> None:
    made = await approved(accounts)
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    await accounts.review.forget(made.signup_id, actor=COMMAND_LINE)

    with pytest.raises(InvalidCredentials):
        await accounts.exchange.exchange(applicant, made.secret, redelivery_key=None)


async def test_a_confirmation_code_is_void_after_five_wrong_guesses(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    code = accounts.code()
    for guess in range(5):
        with pytest.raises(InvalidFields, match="five guesses failed"):
            await accounts.signup.confirm_by_code(FORM.email, made.secret, f"{guess}")

    with pytest.raises(InvalidFields):
        await accounts.signup.confirm_by_code(FORM.email, made.secret, code)
    with pytest.raises(InvalidCredentials):
        await accounts.signup.confirm_by_code(FORM.email, made.secret[:-1], code)
    assert await accounts.signup.state(FORM.email, made.secret) is STATES.AWAITING_CONFIRMATION


async def test_the_fifth_guess_may_be_right(accounts: Accounts) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    for guess in range(4):
        with pytest.raises(InvalidFields):
            await accounts.signup.confirm_by_code(FORM.email, made.secret, f"{guess}")

    await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code())
    await accounts.signup.confirm_by_code(
        FORM.email, made.secret, "whatever"
    )  # no error, because it is confirmed
    assert await accounts.signup.state(FORM.email, made.secret) is STATES.AWAITING_APPROVAL


async def test_an_unconfirmed_application_lapses_if_its_address_applies_again(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    clock.advance(LAPSE_MS - 1)
    with pytest.raises(DuplicateApplication):
        await accounts.signup.apply(FORM, redelivery_key=None)
    clock.advance(1)

    again = await accounts.signup.apply(FORM, redelivery_key=None)

    assert await numbers(accounts) == [again.signup_id]
    with pytest.raises(InvalidCredentials):
        await accounts.signup.state(FORM.email, made.secret)


async def test_the_sweep_deletes_only_lapsed_unconfirmed_applications(
    accounts: Accounts, clock: ManualClock
) -> None:
    await accounts.signup.apply(form_of("a"), redelivery_key=None)
    await confirmed(accounts, form_of("b"))
    decided = await accounts.signup.apply(form_of("c"), redelivery_key=None)
    await accounts.approve(decided.signup_id)
    clock.advance(LAPSE_MS)
    late = await accounts.signup.apply(form_of("d"), redelivery_key=None)

    assert await accounts.signup.forget_lapsed() == 1
    assert await accounts.signup.forget_lapsed() == 0
    assert await numbers(accounts) == [late.signup_id, decided.signup_id]
    assert contradictions(accounts.path) == []


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_decided_application_cannot_be_disowned(
    accounts: Accounts, *, is_approved: bool
) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=None)
    if is_approved:
        await accounts.approve(made.signup_id)
    else:
        await accounts.review.reject(made.signup_id, note="", actor=COMMAND_LINE)

    assert not await accounts.signup.disown(accounts.link())
    assert await numbers(accounts) == [made.signup_id]
    assert await accounts.signup.confirm_by_link(accounts.link())  # the link is not used up
    found = await accounts.review.application(made.signup_id)
    assert found is not None
    assert found.state is (STATES.APPROVED if is_approved else STATES.REJECTED)


async def test_an_expired_confirmation_link_does_nothing(
    accounts: Accounts, clock: ManualClock
) -> None:
    await accounts.signup.apply(FORM, redelivery_key=None)
    link = accounts.link()
    clock.advance(72 * 3_600_000)

    assert await accounts.signup.find_address(link, Purpose.CONFIRM_APPLICATION) is None
    assert not await accounts.signup.confirm_by_link(link)
    assert not await accounts.signup.disown(link)


@pytest.mark.parametrize("text", ["", ".", "1", "1.", "x.y", "-1.a", "9" * 19 + ".a", "1.\ud800"])
async def test_a_malformed_link_does_nothing(accounts: Accounts, text: str) -> None:
    await accounts.signup.apply(FORM, redelivery_key=None)

    assert await accounts.signup.find_address(text, Purpose.CONFIRM_APPLICATION) is None
    assert not await accounts.signup.confirm_by_link(text)
    assert not await accounts.signup.disown(text)


async def test_the_link_of_one_application_does_not_confirm_another(accounts: Accounts) -> None:
    await accounts.signup.apply(FORM, redelivery_key=None)
    await accounts.signup.apply(form_of("b"), redelivery_key=None)
    number, _, _ = accounts.link().partition(".")
    _, _, other = accounts.link("b@example.org").partition(".")

    assert not await accounts.signup.confirm_by_link(f"{number}.{other}")
