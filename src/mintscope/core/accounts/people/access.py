"""Access to an account: a session that must be there, and what ends all access."""

from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId, subject_of
from mintscope.core.accounts.audit import Actor, note
from mintscope.core.accounts.keys.api_key import KeyLine
from mintscope.core.accounts.people.session import Session, SessionEnded
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import User, UserId, UserKind

OF_USERS: Final = (Purpose.VERIFY_EMAIL, Purpose.RESET_PASSWORD, Purpose.CLAIM_AGENT)


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
    return len(ended)


def end_access(rows: AccountRows, user_id: UserId, at: UnixMs) -> int:
    """End every session, proof and key of the user; return how many keys."""
    end_sessions(rows, user_id)
    for purpose in OF_USERS:
        rows.proofs.use_up(purpose, user_id, at)
    return rows.user_keys.revoke_active(user_id, at)


def remove(rows: AccountRows, user: User, actor: Actor, at: UnixMs, **detail: str) -> None:
    """Remove the account of *user* and end the access to it."""
    revoked = end_access(rows, user.user_id, at)
    if user.kind is UserKind.PERSON:
        rows.users.update(user.user_id, password_hash="")  # no password has this hash
    rows.users.update(user.user_id, removed_at=at)
    subject = f"user:{user.user_id}"
    note(rows.events, at, actor, "removed", subject, keys_revoked=str(revoked), **detail)


def revoke_issued(rows: AccountRows, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """End the key that was issued for an application, and those that rotations made of it."""
    lines: list[KeyLine] = list(rows.api_keys.of_application(signup_id))
    for line in lines:
        if line.replaced_by is not None:
            successor = rows.api_keys.get(line.replaced_by)
            assert successor is not None, "keys are never deleted"
            lines.append(successor)
    for line in sorted(lines, key=lambda line: line.key_id):
        if line.revoked_at is None:
            rows.api_keys.update(line.key_id, revoked_at=at)
            because = subject_of(signup_id)
            note(rows.events, at, actor, "revoked", f"key:{line.key_id}", because=because)
