"""The contract of every AccountStore: its transactions, and every operation on its rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import (
    App,
    HalfSignIn,
    KeptUser,
    NewPasskey,
    NewUser,
    Passkey,
    PasskeyId,
    User,
    UserKind,
)
from mintscope.accounts.keys.key import KeyAddress, KeyLine, NewKey
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.email import EmailId, EmailKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.session import NewProof, NewSession, ProofId, Purpose, SessionId
from mintscope.accounts.signups.application import (
    Application,
    ApplicationState,
    Form,
    NewApplication,
    SignupId,
    UserType,
)
from mintscope.kit.audit import COMMAND_LINE, Event, KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import HOUR_MS
from mintscope.watchlists.rows import WatchlistId, WatchlistLine
from support.scenes.account_stores import ENGINES

ALICE: Final = EmailAddress("alice@example.org")
BOB: Final = EmailAddress("bob@example.org")
NONCE: Final = bytes(range(32))
NO_FACTS: Final[dict[str, str]] = {}


def at(number: int) -> UnixMs:
    return UnixMs(1_700_000_000_000 + number)


def hash_of(number: int) -> CredentialHash:
    return CredentialHash(bytes([number] * 32))


@pytest.fixture(params=ENGINES)
async def two(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[AccountStore, AccountStore]]:
    """Yield two stores over one database, as in two processes."""
    async with AsyncExitStack() as stack:
        opener = ENGINES[request.param]
        here, there = [await stack.enter_async_context(opener(tmp_path)) for _ in range(2)]
        yield here, there


@pytest.fixture
def store(two: tuple[AccountStore, AccountStore]) -> AccountStore:
    return two[0]


def person(email: EmailAddress = ALICE, name: str = "alice") -> NewUser:
    return NewUser(
        kind=UserKind.PERSON, username=name, email=email, password_hash="hashed", created_at=at(1)
    )


def agent(name: str, email: EmailAddress = ALICE) -> NewUser:
    return NewUser(
        kind=UserKind.AGENT, username=name, email=email, verified_at=at(2), created_at=at(1)
    )


def application(email: EmailAddress = ALICE, number: int = 1) -> NewApplication:
    form = Form(
        email=email, telegram="@a", twitter=None, user_type=UserType.BOTH, motivation="To trade."
    )
    return NewApplication(
        form=form,
        secret_hash=hash_of(number),
        secret_nonce=NONCE,
        signup_redeem=hash_of(9),
        at=at(number),
    )


def key(number: int, expires_at: UnixMs | None = None) -> NewKey:
    scopes = frozenset({Scope.TRADE_READ, Scope.GROUPS_WRITE})
    return NewKey(
        key_hash=hash_of(number), hint="...1", name="bot", scopes=scopes, expires_at=expires_at
    )


def remark(action: str) -> Event:
    return Event(at=at(1), actor=COMMAND_LINE, action=action, subject="user:1", detail={"a": "b"})


async def actions(store: AccountStore) -> list[str]:
    return [event.action for _, event in await store.read(lambda rows: rows.events.newest(None, 9))]


# Transactions.


async def test_transact_returns_a_result_and_another_process_sees_the_change(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    user_id = await here.transact(lambda rows: rows.users.insert(person()))

    kept = await there.read(lambda rows: rows.users.get(user_id))
    assert kept is not None
    assert kept.user.email == ALICE


async def test_an_exception_undoes_all_changes_of_its_transaction(store: AccountStore) -> None:
    def work(rows: AccountRows) -> None:
        rows.users.insert(person())
        rows.events.insert(remark("made"))
        raise LookupError("not so")

    with pytest.raises(LookupError, match="not so"):
        await store.transact(work)

    assert await actions(store) == []
    assert await store.read(lambda rows: rows.users.newest(None, 9)) == []
    await store.transact(lambda rows: rows.events.insert(remark("next")))
    assert await actions(store) == ["next"]


async def test_a_transaction_sees_what_it_has_written(store: AccountStore) -> None:
    def work(rows: AccountRows) -> KeptUser | None:
        return rows.users.get(rows.users.insert(person()))

    assert await store.transact(work) is not None


async def test_simultaneous_transactions_of_two_processes_lose_no_update(
    two: tuple[AccountStore, AccountStore],
) -> None:
    def count_up(rows: AccountRows) -> None:
        kept = rows.proofs.newest(Purpose.VERIFY_EMAIL, 1)
        assert kept is not None
        rows.proofs.update(kept.proof_id, guesses=kept.guesses + 1)

    await two[0].transact(lambda rows: open_proof(rows, Purpose.VERIFY_EMAIL, 1))

    await asyncio.gather(*(store.transact(count_up) for store in two for _ in range(50)))

    kept = await two[1].read(lambda rows: rows.proofs.newest(Purpose.VERIFY_EMAIL, 1))
    assert kept is not None
    assert kept.guesses == 100


async def test_changes_made_by_a_read_are_not_kept(store: AccountStore) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - of the engine
        await store.read(lambda rows: rows.events.insert(remark("read")))

    assert await actions(store) == []


# Users.


async def test_a_user_is_read_as_it_was_inserted(store: AccountStore) -> None:
    user_id = await store.transact(lambda rows: rows.users.insert(person()))

    assert await store.read(lambda rows: rows.users.get(user_id)) == KeptUser(
        User(
            user_id=user_id,
            kind=UserKind.PERSON,
            username="alice",
            email=ALICE,
            verified_at=None,
            is_administrator=False,
            created_at=at(1),
        ),
        "hashed",
    )
    assert await store.read(lambda rows: rows.users.get(UserId(99))) is None


async def test_users_are_found_by_address_and_kind_newest_first(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[list[UserId]]:
        ids = [rows.users.insert(new) for new in (person(), agent("a"), agent("b"))]
        rows.users.insert(person(BOB, "bob"))
        people = [kept.user.user_id for kept in rows.users.of_email(ALICE, UserKind.PERSON)]
        agents = [kept.user.user_id for kept in rows.users.of_email(ALICE, UserKind.AGENT)]
        return [ids, people, agents]

    ids, people, agents = await store.transact(work)
    assert (people, agents) == ([ids[0]], [ids[2], ids[1]])


async def test_a_removed_user_is_not_found_and_neither_are_its_sessions_and_keys(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> UserId:
        user_id = rows.users.insert(person())
        rows.users.update(user_id, administrator=True, password_hash="", verified_at=at(3))
        assert rows.users.administrators() == [user_id]
        rows.sessions.insert(user_id, NewSession(hash_of(1), "here", "browser"), at(2))
        rows.api_keys.insert(user_id, key(1), at(2), signup_id=None)
        rows.users.update(user_id, removed_at=at(4))
        return user_id

    user_id = await store.transact(work)

    def look(rows: AccountRows) -> list[object]:
        return [
            rows.users.get(user_id),
            *rows.users.of_email(ALICE, UserKind.PERSON),
            *rows.users.newest(None, 9),
            *rows.users.administrators(),
            rows.sessions.find(hash_of(1)),
            *rows.sessions.of_user(user_id),
            rows.api_keys.find(hash_of(1)),
        ]

    assert {*await store.read(look)} == {None}
    assert await store.transact(lambda rows: rows.users.insert(person(name="again"))) > user_id


async def test_users_are_listed_newest_first_in_pages(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[UserId]:
        return [rows.users.insert(agent(name)) for name in "abc"]

    first, second, third = await store.transact(work)

    def page(rows: AccountRows) -> list[list[UserId]]:
        pages = rows.users.newest(None, 2), rows.users.newest(second, 2)
        return [[user.user_id for user in users] for users in pages]

    assert await store.read(page) == [[third, second], [first]]


# Applications.


async def test_an_application_is_read_as_it_was_inserted_and_updated(store: AccountStore) -> None:
    new = application()

    def work(rows: AccountRows) -> SignupId:
        signup_id, user_id = rows.applications.insert(new), rows.users.insert(agent("a"))
        rows.applications.update(
            signup_id,
            state=ApplicationState.KEY_ISSUED,
            confirmed_at=at(2),
            decided_at=at(3),
            decided_by="user:7",
            scopes=frozenset({Scope.TRADE_WRITE}),
            note="known",
            user=user_id,
            issued_at=at(4),
            key_nonce=NONCE,
            exchange_redeem=hash_of(8),
        )
        return signup_id

    signup_id = await store.transact(work)

    kept = await store.read(lambda rows: rows.applications.get(signup_id))
    assert kept is not None
    assert kept.application == Application(
        signup_id=signup_id,
        form=new.form,
        state=ApplicationState.KEY_ISSUED,
        applied_at=new.at,
        confirmed_at=at(2),
        decided_at=at(3),
        decided_by="user:7",
        scopes=frozenset({Scope.TRADE_WRITE}),
        note="known",
        issued_at=at(4),
        user_removed=False,
    )
    assert (kept.secret_hash, kept.secret_nonce) == (new.secret_hash, NONCE)
    assert (kept.signup_redeem, kept.exchange_redeem) == (hash_of(9), hash_of(8))
    assert (kept.owner, kept.key_nonce) == (UserId(1), NONCE)
    assert await store.read(lambda rows: rows.applications.find(ALICE)) == kept
    assert await store.read(lambda rows: rows.applications.find(BOB)) is None


async def test_an_application_shows_that_its_user_was_removed(store: AccountStore) -> None:
    def work(rows: AccountRows) -> bool:
        signup_id, user_id = rows.applications.insert(application()), rows.users.insert(agent("a"))
        rows.applications.update(signup_id, user=user_id)
        rows.users.update(user_id, removed_at=at(2))
        kept = rows.applications.get(signup_id)
        return kept is not None and kept.application.user_removed

    assert await store.transact(work)


async def test_a_deleted_application_frees_its_address_but_not_its_number(
    store: AccountStore,
) -> None:
    first = await store.transact(lambda rows: rows.applications.insert(application()))
    with pytest.raises(Exception):  # noqa: B017, PT011 - of the engine
        await store.transact(lambda rows: rows.applications.insert(application()))
    await store.transact(lambda rows: rows.applications.delete(first))

    second = await store.transact(lambda rows: rows.applications.insert(application()))

    assert second > first
    assert await store.read(lambda rows: rows.applications.get(first)) is None


async def test_applications_are_listed_by_state_and_newest_first(store: AccountStore) -> None:
    waiting, approved = ApplicationState.AWAITING_CONFIRMATION, ApplicationState.APPROVED

    def work(rows: AccountRows) -> list[SignupId]:
        emails = [EmailAddress(f"{name}@example.org") for name in "abcd"]
        ids = [rows.applications.insert(application(email)) for email in emails]
        rows.applications.update(ids[1], state=approved, decided_at=at(2))
        return ids

    a, b, c, d = await store.transact(work)

    def look(rows: AccountRows) -> list[list[SignupId]]:
        lists = rows.applications
        found = [
            lists.page(waiting, None, 2),
            lists.page(waiting, c, 2),
            lists.page(None, None, 2),
            lists.page(None, c, 9),
        ]
        return [[each.signup_id for each in page] for page in found]

    assert await store.read(look) == [[a, c], [d], [d, c], [b, a]]
    counts = await store.read(lambda rows: rows.applications.counts())
    assert counts == {waiting: 3, approved: 1}


# API keys.


async def test_the_search_of_applications_ignores_case(store: AccountStore) -> None:
    def make(rows: AccountRows) -> SignupId:
        form = replace(application().form, motivation="Äpfel, 100% ÉTÉ.", twitter=None)
        rows.applications.insert(application(BOB, number=2))
        return rows.applications.insert(replace(application(), form=form))

    made = await store.transact(make)

    async def found(text: str) -> list[SignupId]:
        page = await store.read(lambda rows: rows.applications.page(None, None, 9, text))
        return [each.signup_id for each in page]

    for text in ("Äpfel", "äpfel", "ÄPFEL", "Été", "100%", "ALICE@"):
        assert await found(text) == [made], text
    assert await found("Apfel") == await found("100_") == []


async def test_a_key_is_found_by_its_hash_with_the_name_of_its_user(store: AccountStore) -> None:
    def work(rows: AccountRows) -> KeyLine:
        user_id = rows.users.insert(person())
        made = replace(key(1, at(50)), networks="203.0.113.0/24 2001:db8::/48")
        return rows.api_keys.insert(user_id, made, at(2), signup_id=SignupId(3))

    line = await store.transact(work)

    assert (line.name, line.hint, line.scopes) == ("bot", "...1", key(1).scopes)
    assert (line.created_at, line.expires_at) == (at(2), at(50))
    assert line.networks == "203.0.113.0/24 2001:db8::/48"
    assert (line.revoked_at, line.last_used_at, line.replaced_by) == (None, None, None)
    holder = await store.read(lambda rows: rows.api_keys.find(hash_of(1)))
    assert holder is not None
    assert (holder.key, holder.username) == (line, "alice")
    assert await store.read(lambda rows: rows.api_keys.get(line.key_id)) == line
    assert await store.read(lambda rows: rows.api_keys.of_application(SignupId(3))) == [line]
    assert await store.read(lambda rows: rows.api_keys.find(hash_of(2))) is None
    assert await store.read(lambda rows: rows.api_keys.get(KeyId(99))) is None


async def test_a_key_is_updated_and_its_time_of_last_use_never_decreases(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> KeyLine | None:
        user_id = rows.users.insert(person())
        line = rows.api_keys.insert(user_id, key(1), at(2), signup_id=None)
        other = rows.api_keys.insert(user_id, key(2), at(2), signup_id=None)
        rows.api_keys.note_uses({line.key_id: at(9)})
        rows.api_keys.note_uses({line.key_id: at(8)})
        rows.api_keys.update(
            line.key_id, expires_at=at(20), revoked_at=at(10), replaced_by=other.key_id
        )
        return rows.api_keys.get(line.key_id)

    changed = await store.transact(work)
    assert changed is not None
    assert (changed.last_used_at, changed.expires_at, changed.revoked_at) == (at(9), at(20), at(10))
    assert changed.replaced_by == changed.key_id + 1


async def test_the_keys_of_a_user_are_counted_shown_moved_and_revoked(store: AccountStore) -> None:
    def work(rows: AccountRows) -> tuple[UserId, UserId]:
        alice, bob = rows.users.insert(person()), rows.users.insert(person(BOB, "bob"))
        rows.api_keys.insert(alice, key(1), at(1), signup_id=None)
        rows.api_keys.insert(alice, key(2), at(2), signup_id=SignupId(1))
        rows.api_keys.insert(alice, key(3, expires_at=at(10)), at(3), signup_id=None)
        rows.api_keys.insert(bob, key(4), at(4), signup_id=None)
        rows.applications.update(rows.applications.insert(application()), user=alice)
        return alice, bob

    alice, bob = await store.transact(work)

    def look(rows: AccountRows) -> list[object]:
        keys = rows.api_keys
        return [
            [line.key_id for line in keys.shown(alice, at(9), 9)],
            [line.key_id for line in keys.shown(alice, at(10), 2)],
            (keys.count_active(alice, at(9)), keys.count_active(alice, at(10))),
            (keys.count_made(alice, at(0)), keys.count_made(alice, at(1))),
        ]

    assert await store.read(look) == [[3, 2, 1], [2, 1], (3, 2), (2, 1)]
    assert await store.transact(lambda rows: rows.api_keys.revoke_active(alice, at(10))) == 2
    assert await store.transact(lambda rows: rows.api_keys.revoke_active(alice, at(11))) == 0
    await store.transact(lambda rows: rows.users.hand_over(alice, bob))
    given = await store.read(lambda rows: rows.applications.find(ALICE))
    assert given is not None
    assert given.owner == bob
    shown = await store.read(lambda rows: rows.api_keys.shown(bob, at(12), 9))
    assert [(line.key_id, line.revoked_at) for line in shown] == [
        (4, None),
        (3, None),
        (2, at(10)),
        (1, at(10)),
    ]


# Sessions.


async def test_a_session_contains_the_current_state_of_its_user(store: AccountStore) -> None:
    def work(rows: AccountRows) -> SessionId:
        user_id = rows.users.insert(person())
        session_id = rows.sessions.insert(user_id, NewSession(hash_of(1), "here", "curl"), at(2))
        rows.users.update(user_id, administrator=True)
        rows.sessions.update(session_id, seen_at=at(3), proved_at=at(4))
        return session_id

    session_id = await store.transact(work)

    session = await store.read(lambda rows: rows.sessions.get(session_id))
    assert session is not None
    assert session.user.is_administrator
    assert (session.created_at, session.seen_at, session.proved_at) == (at(2), at(3), at(4))
    assert (session.address, session.agent, session.csrf) == ("here", "curl", "")
    assert await store.read(lambda rows: rows.sessions.find(hash_of(1))) == session
    assert await store.read(lambda rows: rows.sessions.find(hash_of(2))) is None


async def test_sessions_are_listed_deleted_and_purged(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[list[SessionId]]:
        user_id = rows.users.insert(person())
        ids = [
            rows.sessions.insert(user_id, NewSession(hash_of(number), "", ""), at(number))
            for number in range(1, 6)
        ]
        rows.sessions.update(ids[0], seen_at=at(9))

        def left() -> list[SessionId]:
            return [session.session_id for session in rows.sessions.of_user(user_id)]

        states = [left()]
        rows.sessions.delete(ids[3])
        states.append(left())
        rows.sessions.purge(idle_since=at(2), begun_before=at(0))
        states.append(left())
        rows.sessions.purge(idle_since=at(0), begun_before=at(1))
        states.append(left())
        return states

    assert await store.transact(work) == [[1, 5, 4, 3, 2], [1, 5, 3, 2], [1, 5, 3], [5, 3]]


# Proofs.


def open_proof(rows: AccountRows, purpose: Purpose, subject: int, expires_at: int = 9) -> ProofId:
    made_at = UnixMs(at(expires_at) - purpose.lifetime_ms)
    return rows.proofs.insert(NewProof(purpose, subject, ALICE, NONCE, made_at))


async def test_a_proof_is_stored_updated_and_found_by_its_subject(store: AccountStore) -> None:
    def work(rows: AccountRows) -> ProofId:
        open_proof(rows, Purpose.RESET_PASSWORD, 7)
        proof_id = open_proof(rows, Purpose.RESET_PASSWORD, 7)
        open_proof(rows, Purpose.VERIFY_EMAIL, 7)
        rows.proofs.update(proof_id, used_at=at(5), guesses=2)
        return proof_id

    proof_id = await store.transact(work)

    kept = await store.read(lambda rows: rows.proofs.get(proof_id))
    assert kept is not None
    assert (kept.purpose, kept.subject, kept.email) == (Purpose.RESET_PASSWORD, 7, ALICE)
    assert (kept.nonce, kept.made_at, kept.expires_at) == (NONCE, at(9 - HOUR_MS), at(9))
    assert (kept.used_at, kept.guesses) == (at(5), 2)
    assert await store.read(lambda rows: rows.proofs.newest(Purpose.RESET_PASSWORD, 7)) == kept
    assert await store.read(lambda rows: rows.proofs.newest(Purpose.CLAIM_AGENT, 7)) is None


async def test_proofs_about_a_subject_are_used_up_and_deleted_together(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[UnixMs | None]:
        ids = [open_proof(rows, Purpose.VERIFY_EMAIL, subject) for subject in (1, 1, 2)]
        rows.proofs.update(ids[0], used_at=at(2))
        rows.proofs.use_up(Purpose.VERIFY_EMAIL, 1, at(3))
        kept = [rows.proofs.get(proof_id) for proof_id in ids]
        rows.proofs.forget(Purpose.VERIFY_EMAIL, 1)
        assert [rows.proofs.get(proof_id) is None for proof_id in ids] == [True, True, False]
        return [proof.used_at for proof in kept if proof is not None]

    assert await store.transact(work) == [at(2), at(3), None]


async def test_expired_and_used_proofs_are_purged_unless_their_e_mail_is_kept(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> list[bool]:
        ids = [open_proof(rows, Purpose.VERIFY_EMAIL, 1, end) for end in (5, 6, 9, 5)]
        rows.proofs.update(ids[2], used_at=at(4))
        rows.emails.insert(EmailKind.VERIFY_EMAIL, ALICE, NO_FACTS, ids[3], at(1))
        assert not rows.emails.purge(at(6), at(6), 9)
        return [rows.proofs.get(proof_id) is None for proof_id in ids]

    assert await store.transact(work) == [True, False, True, False]


async def test_e_mails_and_proofs_are_purged_in_parts(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[tuple[bool, int]]:
        for _ in range(3):
            proof_id = open_proof(rows, Purpose.VERIFY_EMAIL, 1, 5)
            email_id = rows.emails.insert(EmailKind.VERIFY_EMAIL, ALICE, NO_FACTS, proof_id, at(1))
            rows.emails.update(email_id, sent_at=at(2))
        return [(rows.emails.purge(at(6), at(6), 2), len(rows.emails.newest(9))) for _ in range(2)]

    assert await store.transact(work) == [(True, 1), (False, 0)]
    assert await store.read(lambda rows: rows.proofs.newest(Purpose.VERIFY_EMAIL, 1)) is None


async def test_proofs_without_a_user_are_purged_once_they_have_expired(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[bool]:
        ids = [open_proof(rows, Purpose.RESET_PASSWORD, 0, end) for end in (5, 6)]
        ids += [open_proof(rows, Purpose.RESET_PASSWORD, 1, 5)]
        assert not rows.emails.purge(at(1), at(6), 9)
        return [rows.proofs.get(proof_id) is None for proof_id in ids]

    assert await store.transact(work) == [True, False, False]


# E-mails.


def write(rows: AccountRows, number: int = 1, proof_id: ProofId | None = None) -> EmailId:
    return rows.emails.insert(EmailKind.NEW_KEY, ALICE, {"hint": "..."}, proof_id, at(number))


async def test_an_e_mail_is_stored_with_its_proof_and_updated(store: AccountStore) -> None:
    def work(rows: AccountRows) -> EmailId:
        email_id = write(rows, 3, open_proof(rows, Purpose.CLAIM_AGENT, 1))
        rows.emails.update(email_id, attempts=2, reason="busy", sent_at=at(4), given_up_at=at(5))
        return email_id

    email_id = await store.transact(work)

    draft = await store.read(lambda rows: rows.emails.get(email_id))
    assert draft is not None
    assert draft.proof is not None
    assert draft.proof.purpose is Purpose.CLAIM_AGENT
    assert (draft.kind, draft.recipient, draft.written_at) == (EmailKind.NEW_KEY, ALICE, at(3))
    assert (draft.facts, draft.attempts, draft.reason) == ({"hint": "..."}, 2, "busy")
    assert (draft.sent_at, draft.given_up_at) == (at(4), at(5))
    assert await store.read(lambda rows: rows.emails.get(EmailId(99))) is None


async def test_e_mails_are_found_by_recipient_and_by_the_subject_of_their_proof(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> list[list[EmailId]]:
        first, second = write(rows, 1), write(rows, 2, open_proof(rows, Purpose.VERIFY_EMAIL, 7))
        sent = write(rows, 3, open_proof(rows, Purpose.VERIFY_EMAIL, 7))
        rows.emails.update(sent, sent_at=at(4))
        rows.emails.insert(EmailKind.NEW_KEY, BOB, NO_FACTS, None, at(5))
        rows.emails.insert(EmailKind.CLAIM_AGENT, ALICE, NO_FACTS, None, at(5))
        found = [
            rows.emails.written_to(ALICE, EmailKind.NEW_KEY, at(0)),
            rows.emails.written_to(ALICE, EmailKind.NEW_KEY, at(1)),
            rows.emails.waiting_with(Purpose.VERIFY_EMAIL, 7),
        ]
        assert [first, second, sent] == [1, 2, 3]
        return [sorted(draft.email_id for draft in drafts) for drafts in found]

    assert await store.transact(work) == [[1, 2, 3], [2, 3], [2]]


async def test_the_outbox_lists_the_emails_that_wait(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[list[EmailId]]:
        ids = [write(rows, number) for number in (1, 2, 3, 4, 5)]
        rows.emails.update(ids[0], due_at=at(6))
        rows.emails.update(ids[3], sent_at=at(4))
        rows.emails.update(ids[4], given_up_at=at(5))
        for now, limit in ((at(5), 9), (at(6), 2), (at(6), 9)):
            assert rows.emails.claim(now, limit) == rows.emails.due(now, limit)
        found = [
            rows.emails.due(at(5), 9),
            rows.emails.due(at(6), 2),
            rows.emails.due(at(6), 9),
            sorted(rows.emails.written_before(at(2), 9), key=lambda draft: draft.email_id),
            rows.emails.newest(2),
        ]
        assert rows.emails.count_waiting() == 3
        assert len(rows.emails.written_before(at(9), 1)) == 1
        return [[draft.email_id for draft in drafts] for drafts in found]

    assert await store.transact(work) == [[2, 3], [2, 3], [2, 3, 1], [1, 2], [5, 4]]


async def test_old_e_mails_are_purged_if_they_were_sent_or_given_up(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[bool]:
        ids = [write(rows) for _ in range(4)]
        rows.emails.update(ids[0], sent_at=at(4))
        rows.emails.update(ids[1], given_up_at=at(4))
        rows.emails.update(ids[2], sent_at=at(5))
        rows.emails.purge(at(5), at(5), 9)
        return [rows.emails.get(email_id) is None for email_id in ids]

    assert await store.transact(work) == [True, True, False, False]


# Events.


async def test_events_are_listed_newest_first_in_pages(store: AccountStore) -> None:
    def work(rows: AccountRows) -> None:
        for action in ("one", "two", "three"):
            rows.events.note(at(1), COMMAND_LINE, action, "user:1", a="b")

    await store.transact(work)

    (third, newest), (second, _) = await store.read(lambda rows: rows.events.newest(None, 2))
    ((_, oldest),) = await store.read(lambda rows: rows.events.newest(second, 9))
    assert third > second
    assert newest == remark("three")
    assert oldest == replace(newest, action="one")


# Addresses that used keys.


async def test_a_key_keeps_the_ten_addresses_that_used_it_last(store: AccountStore) -> None:
    def work(rows: AccountRows) -> tuple[UserId, KeyId, KeyId]:
        alice = rows.users.insert(person())
        one, other = (
            rows.api_keys.insert(alice, key(number), at(1), signup_id=None).key_id
            for number in (1, 2)
        )
        rows.key_addresses.note(one, {f"192.0.2.{n}": at(n) for n in range(1, 10)})
        rows.key_addresses.note(one, {"192.0.2.9": at(5), "2001:db8::/64": at(20)})
        rows.key_addresses.note(other, {"192.0.2.1": at(7)})
        return alice, one, other

    alice, one, other = await store.transact(work)
    found = await store.read(lambda rows: rows.key_addresses.of_key(one))
    assert [*found][:3] == [
        KeyAddress("2001:db8::/64", at(20)),
        KeyAddress("192.0.2.9", at(9)),
        KeyAddress("192.0.2.8", at(8)),
    ]
    assert len(found) == 10

    await store.transact(lambda rows: rows.key_addresses.note(one, {"x": at(30), "y": at(31)}))
    found = await store.read(lambda rows: rows.key_addresses.of_key(one))
    assert [each.address for each in found] == [
        "y", "x", "2001:db8::/64", *(f"192.0.2.{n}" for n in range(9, 2, -1)),
    ]  # fmt: skip
    assert await store.read(lambda rows: rows.key_addresses.of_key(other)) == [
        KeyAddress("192.0.2.1", at(7))
    ]
    await store.transact(lambda rows: rows.key_addresses.forget(alice))
    assert await store.read(lambda rows: rows.key_addresses.of_key(one)) == []


async def test_proofs_made_since_a_moment_are_used_up(store: AccountStore) -> None:
    def work(rows: AccountRows) -> list[ProofId]:
        purpose = Purpose.UNDO_EMAIL
        made = [
            rows.proofs.insert(NewProof(purpose, 7, ALICE, NONCE, at(number)))
            for number in (1, 2, 3)
        ]
        rows.proofs.use_up(purpose, 7, at(9), since=at(2))
        return made

    made = await store.transact(work)
    proofs = await store.read(lambda rows: [rows.proofs.get(proof_id) for proof_id in made])
    assert [None if proof is None else proof.used_at for proof in proofs] == [None, at(9), at(9)]


# Second factors.


async def test_a_user_has_one_app_and_it_is_a_second_factor_once_confirmed(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> UserId:
        alice = rows.users.insert(person())
        first = rows.apps.replace(alice, NONCE, at(1))
        second = rows.apps.replace(alice, NONCE[::-1], at(2))
        assert first != second
        app = App(
            app_id=second,
            user_id=alice,
            nonce=NONCE[::-1],
            made_at=at(2),
            confirmed_at=None,
            last_step=-1,
        )
        assert rows.apps.of_user(alice) == app
        kept = rows.users.get(alice)
        assert kept is not None
        assert not kept.user.has_second_factor
        rows.apps.update(second, confirmed_at=at(3), last_step=7)
        assert rows.apps.of_user(alice) == replace(app, confirmed_at=at(3), last_step=7)
        rows.apps.end(alice, at(3))  # no effect: the app was made before
        return alice

    alice = await store.transact(work)
    kept = await store.read(lambda rows: rows.users.get(alice))
    assert kept is not None
    assert kept.user.has_second_factor
    await store.transact(lambda rows: rows.apps.end(alice, at(2)))
    assert await store.read(lambda rows: rows.apps.of_user(alice)) is None


async def test_recovery_codes_are_replaced_used_and_deleted(store: AccountStore) -> None:
    def work(rows: AccountRows) -> tuple[UserId, UserId]:
        alice, bob = rows.users.insert(person()), rows.users.insert(person(BOB, "bob"))
        rows.recovery_codes.replace(alice, [hash_of(1)], at(1))
        rows.recovery_codes.replace(alice, [hash_of(2), hash_of(3)], at(2))
        rows.recovery_codes.replace(bob, [hash_of(2)], at(2))
        rows.recovery_codes.delete(rows.recovery_codes.unused(alice)[0].code_id)
        rows.recovery_codes.end(bob, at(3))  # no effect: the codes were made before
        return alice, bob

    alice, bob = await store.transact(work)

    def hashes(rows: AccountRows) -> list[list[CredentialHash]]:
        unused = rows.recovery_codes.unused
        return [[each.code_hash for each in unused(user)] for user in (alice, bob)]

    assert await store.read(hashes) == [[hash_of(3)], [hash_of(2)]]
    await store.transact(lambda rows: rows.recovery_codes.end(bob, at(2)))
    assert await store.read(hashes) == [[hash_of(3)], []]


async def test_a_passkey_is_found_by_its_credential(store: AccountStore) -> None:
    new = NewPasskey(credential_id=b"id", public_key=b"key", sign_count=3, name="phone")
    other = NewPasskey(credential_id=b"other", public_key=b"key", sign_count=0, name="laptop")

    def work(rows: AccountRows) -> tuple[UserId, PasskeyId, PasskeyId]:
        alice = rows.users.insert(person())
        first, second = (
            rows.passkeys.insert(alice, each, at(number)) for number, each in ((1, new), (2, other))
        )
        rows.passkeys.update(first, sign_count=4, last_used_at=at(5))
        return alice, first, second

    alice, first, second = await store.transact(work)
    passkey = Passkey(
        passkey_id=first,
        user_id=alice,
        credential_id=b"id",
        public_key=b"key",
        sign_count=4,
        name="phone",
        made_at=at(1),
        last_used_at=at(5),
    )
    assert await store.read(lambda rows: rows.passkeys.find(b"id")) == passkey
    assert await store.read(lambda rows: rows.passkeys.find(b"none")) is None
    kept = await store.read(lambda rows: rows.users.get(alice))
    assert kept is not None
    assert kept.user.has_second_factor

    def shown(rows: AccountRows) -> list[PasskeyId]:
        return [each.passkey_id for each in rows.passkeys.of_user(alice)]

    assert await store.read(shown) == [first, second]
    await store.transact(lambda rows: rows.passkeys.end(alice, at(2)))
    assert await store.read(shown) == [first]
    await store.transact(lambda rows: rows.passkeys.delete(first))
    assert await store.read(shown) == []


async def test_a_waiting_sign_in_is_deleted_only_once_and_can_be_purged_and_ended(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> UserId:
        alice = rows.users.insert(person())
        first = rows.sign_ins.insert(alice, hash_of(1), at(1))
        assert rows.sign_ins.find(hash_of(1)) == HalfSignIn(first, alice, at(1))
        assert [rows.sign_ins.delete(first) for _ in range(2)] == [True, False]
        for number in (2, 3):
            rows.sign_ins.insert(alice, hash_of(number), at(number))
        rows.sign_ins.purge(at(3))
        return alice

    alice = await store.transact(work)

    def left(rows: AccountRows) -> list[bool]:
        return [rows.sign_ins.find(hash_of(number)) is not None for number in (1, 2, 3)]

    assert await store.read(left) == [False, False, True]
    await store.transact(lambda rows: rows.sign_ins.end(alice))
    assert await store.read(left) == [False, False, False]


# Watchlists.


async def test_watchlists_are_stored_renamed_and_deleted_with_their_mints(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> tuple[UserId, UserId, WatchlistId, WatchlistId]:
        alice, bob = rows.users.insert(person()), rows.users.insert(person(BOB, "bob"))
        first, second = (rows.watchlists.insert(alice, name, at(1)) for name in ("one", "two"))
        rows.watchlists.add(first, Mint("b"), at(2))
        rows.watchlists.add(first, Mint("a"), at(3))
        rows.watchlists.add(second, Mint("a"), at(4))
        rows.watchlists.rename(first, "uno")
        assert rows.watchlists.find(bob, first) is None
        assert rows.watchlists.find(alice, first) == WatchlistLine(first, "uno", 2, at(1))
        assert [each.name for each in rows.watchlists.of_user(alice)] == ["uno", "two"]
        assert [*rows.watchlists.mints(first)] == ["b", "a"]
        removed = [rows.watchlists.remove(first, Mint("b")) for _ in range(2)]
        assert removed == [True, False]
        rows.watchlists.delete(first)
        return alice, bob, first, second

    alice, bob, first, second = await store.transact(work)

    def look(rows: AccountRows) -> list[object]:
        found = [rows.watchlists.of_user(user) for user in (alice, bob)]
        return [*found, [*rows.watchlists.mints(second)], [*rows.watchlists.mints(first)]]

    assert await store.read(look) == [[WatchlistLine(second, "two", 1, at(1))], [], ["a"], []]


async def test_watchlists_are_handed_over_and_their_numbers_never_used_again(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> list[list[WatchlistId]]:
        alice, bob = rows.users.insert(person()), rows.users.insert(person(BOB, "bob"))
        lists = [rows.watchlists.insert(user, "x", at(1)) for user in (bob, alice, alice)]
        rows.watchlists.hand_over(alice, bob)
        rows.watchlists.delete(lists[2])
        later = rows.watchlists.insert(alice, "x", at(2))
        seen = [
            [each.watchlist_id for each in rows.watchlists.of_user(user)] for user in (alice, bob)
        ]
        return [[*lists, later], *seen]

    (first, second, third, later), of_alice, of_bob = await store.transact(work)
    assert (of_alice, of_bob) == ([later], [first, second])
    assert later > third
