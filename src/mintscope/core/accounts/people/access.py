"""Access to accounts: sessions and administrators who must be there, and what ends it."""

from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId, subject_of
from mintscope.core.accounts.audit import Actor, note, user_actor
from mintscope.core.accounts.keys.api_key import KeyLine
from mintscope.core.accounts.mail.email import EmailKind, tell_owner
from mintscope.core.accounts.people.session import Session, SessionEnded
from mintscope.core.accounts.proof import EVER, Purpose
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import NewUser, User, UserId, UserKind, find_person

# A person in a session, or an actor that the machine itself vouches for.
Reviewer = Session | Actor

OF_USERS: Final = (
    Purpose.VERIFY_EMAIL,
    Purpose.RESET_PASSWORD,
    Purpose.CLAIM_AGENT,
    Purpose.CHANGE_EMAIL,
    Purpose.UNDO_EMAIL,
)


def expect_session(rows: AccountRows, session: Session) -> User:
    """Return the user of *session* as the transaction reads it.  Raises SessionEnded."""
    found = rows.sessions.get(session.session_id)
    if found is None or found.user.user_id != session.user.user_id:
        raise SessionEnded
    return found.user


def end_sessions(rows: AccountRows, user_id: UserId, *, but: Session | None = None) -> int:
    """End all sessions of the user *but* one; return how many."""
    kept = None if but is None else but.session_id
    ended = [
        session.session_id
        for session in rows.sessions.of_user(user_id)
        if session.session_id != kept
    ]
    rows.sessions.delete(ended)
    rows.sign_ins.end(user_id)
    return len(ended)


def drop_factors(rows: AccountRows, user_id: UserId, *, since: UnixMs = EVER) -> None:
    """Remove the second factors, and recovery codes, that were added at *since* or later."""
    rows.apps.delete(user_id, since)
    rows.passkeys.delete(user_id, since)
    rows.recovery_codes.delete(user_id, since)


def end_access(rows: AccountRows, user_id: UserId, at: UnixMs) -> int:
    """End every session, second factor, proof and key of the user; return how many keys."""
    end_sessions(rows, user_id)
    drop_factors(rows, user_id)
    for purpose in OF_USERS:
        rows.proofs.use_up(purpose, user_id, at)
    return rows.user_keys.revoke_active(user_id, at)


def remove(rows: AccountRows, user: User, actor: Actor, at: UnixMs, **detail: str) -> None:
    """Remove the account of *user* and its signals, and end the access to it."""
    revoked = end_access(rows, user.user_id, at)
    for signal in rows.signals.of_user(user.user_id):
        rows.signals.delete(signal.signal_id)
        rows.turn.touch()
    if user.kind is UserKind.PERSON:
        rows.users.update(user.user_id, password_hash="")  # no password has this hash
    rows.users.update(user.user_id, removed_at=at)
    subject = f"user:{user.user_id}"
    note(rows.events, at, actor, "removed", subject, keys_revoked=str(revoked), **detail)


def issued_keys(rows: AccountRows, signup_id: SignupId) -> list[KeyLine]:
    """Return the key issued for an application, and those that it was rotated into."""
    lines: list[KeyLine] = list(rows.api_keys.of_application(signup_id))
    for line in lines:
        if line.replaced_by is not None:
            successor = rows.api_keys.get(line.replaced_by)
            assert successor is not None, "keys are never deleted"
            lines.append(successor)
    return sorted(lines, key=lambda line: line.key_id)


def revoke_issued(rows: AccountRows, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """Revoke the key issued for an application, and those that it was rotated into."""
    for line in issued_keys(rows, signup_id):
        if line.revoked_at is None:
            rows.api_keys.update(line.key_id, revoked_at=at)
            because = subject_of(signup_id)
            note(rows.events, at, actor, "revoked", f"key:{line.key_id}", because=because)


class NotPossible(Exception):
    """The state of the subject does not allow it; the message says what was expected and was."""


def expect_administrator(rows: AccountRows, reviewer: Reviewer) -> Actor:
    """Return how the audit log names *reviewer*.  Raises SessionEnded.

    An actor that is no session is vouched for by the machine, and not looked up.
    """
    if not isinstance(reviewer, Session):
        return reviewer
    user = expect_session(rows, reviewer)
    if not user.is_administrator:
        raise SessionEnded
    return user_actor(user.user_id)


def expect_removable(rows: AccountRows, user: User) -> None:
    """Raise NotPossible for the last administrator, and while a payment of *user* is under way."""
    if rows.credits.is_paid_for(user.user_id):
        raise NotPossible(
            f"expected no payment under way for {user.username}; there is one, whose outcome is"
            " mostly known within three minutes: try again then"
        )
    if user.is_administrator and set(rows.users.administrators()) == {user.user_id}:
        raise NotPossible(
            f"expected another administrator beside {user.username}, who is the last one"
        )


def remove_user(rows: AccountRows, user_id: UserId, reviewer: Reviewer, at: UnixMs) -> None:
    """Remove an account that is not the last administrator's.  Raises NotPossible."""
    actor = expect_administrator(rows, reviewer)
    kept = rows.users.get(user_id)
    if kept is None:
        raise NotPossible(f"expected an account; there is none with the number {user_id}")
    expect_removable(rows, kept.user)
    remove(rows, kept.user, actor, at)


def drop_second_factor(rows: AccountRows, user_id: UserId, reviewer: Reviewer, at: UnixMs) -> None:
    """Remove every second factor of a person, and write to them.  Raises NotPossible."""
    actor = expect_administrator(rows, reviewer)
    kept = rows.users.get(user_id)
    if kept is None or not kept.user.has_second_factor:
        raise NotPossible(f"expected a person with a second factor; user {user_id} is none")
    drop_factors(rows, user_id)
    end_sessions(rows, user_id)
    note(rows.events, at, actor, "removed second factor", f"user:{user_id}")
    what = "an administrator removed your second factors"
    tell_owner(rows.emails, kept.user, EmailKind.SECOND_FACTOR, {"what": what}, at)


def promote(rows: AccountRows, new: NewUser, actor: Actor) -> tuple[User, bool]:
    """Make the person of an address an administrator; True: *new* was added for it."""
    at = new.created_at
    person = find_person(rows.users, new.email)
    if person is None:
        user_id = rows.users.insert(new)
        note(rows.events, at, actor, "created", f"user:{user_id}")
    else:
        user_id = person.user.user_id
        if person.user.verified_at is None:
            _take_over(rows, user_id, new, actor)
    if person is None or not person.user.is_administrator:
        rows.users.update(user_id, administrator=True)
        note(rows.events, at, actor, "made administrator", f"user:{user_id}")
    after = rows.users.get(user_id)
    assert after is not None, "it was read or added just now"
    return after.user, person is None


def _take_over(rows: AccountRows, user_id: UserId, new: NewUser, actor: Actor) -> None:
    """Give the account to the owner of its address: until now a stranger may have made it."""
    assert new.password_hash is not None, "a person has a password"
    at = new.created_at
    rows.users.update(user_id, password_hash=new.password_hash)
    revoked = str(end_access(rows, user_id, at))
    note(rows.events, at, actor, "reset password", f"user:{user_id}", keys_revoked=revoked)
