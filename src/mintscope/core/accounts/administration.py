"""Administrators: who is one, and what they do to accounts, inside one transaction."""

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import Actor, note, user_actor
from mintscope.core.accounts.people.access import end_access, expect_session, remove
from mintscope.core.accounts.people.session import Session, SessionEnded
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import NewUser, User, UserId, find_person

# A person in a session, or an actor that the machine itself vouches for.
Reviewer = Session | Actor


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


def remove_user(rows: AccountRows, user_id: UserId, reviewer: Reviewer, at: UnixMs) -> None:
    """Remove an account that is not the last administrator's.  Raises NotPossible."""
    actor = expect_administrator(rows, reviewer)
    kept = rows.users.get(user_id)
    if kept is None:
        raise NotPossible(f"expected an account; there is none with the number {user_id}")
    if kept.user.is_administrator and set(rows.users.administrators()) == {user_id}:
        raise NotPossible(
            f"expected another administrator beside {kept.user.username}, who is the last one"
        )
    remove(rows, kept.user, actor, at)


def promote(rows: AccountRows, new: NewUser, actor: Actor) -> tuple[User, bool]:
    """Make the person of an address an administrator; True: *new* was added for it."""
    at, person = new.created_at, find_person(rows.users, new.email)
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
