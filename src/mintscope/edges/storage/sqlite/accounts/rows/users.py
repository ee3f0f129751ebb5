"""Users as administrators see, make and remove them."""

from typing import Final

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId
from mintscope.core.accounts.audit import Actor, Event
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.reviews import NotPossible, Promotion
from mintscope.core.accounts.user import User, UserId
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import revoke_keys
from mintscope.edges.storage.sqlite.accounts.rows.events import note
from mintscope.edges.storage.sqlite.accounts.rows.proofs import end_proofs
from mintscope.edges.storage.sqlite.accounts.rows.sessions import USER_COLUMNS, user_of

FIND: Final = f"SELECT {USER_COLUMNS} FROM user WHERE id = ? AND removed_at IS NULL"  # noqa: S608

NEWEST: Final = f"""
SELECT {USER_COLUMNS} FROM user
 WHERE removed_at IS NULL AND id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?
"""  # noqa: S608  a constant

PERSON: Final = f"""
SELECT {USER_COLUMNS} FROM user WHERE kind = 'person' AND email = ? AND removed_at IS NULL
"""  # noqa: S608  a constant

ADD_PERSON: Final = f"""
INSERT INTO user (kind, username, email, password_hash, created_at)
VALUES ('person', ?, ?, ?, ?) RETURNING {USER_COLUMNS}
"""  # noqa: S608  a constant

OTHER_ADMINISTRATORS: Final = """
SELECT EXISTS (SELECT 1 FROM user WHERE administrator = 1 AND removed_at IS NULL AND id <> ?)
"""

# A password that no hasher made: nothing matches it.
REMOVE: Final = """
UPDATE user SET removed_at = ?2, password_hash = iif(kind = 'person', '', NULL) WHERE id = ?1
"""

PROMOTE: Final = "UPDATE user SET administrator = 1 WHERE id = ?"
SET_PASSWORD: Final = "UPDATE user SET password_hash = ?2 WHERE id = ?1"  # noqa: S105  a statement
END_SESSIONS: Final = "DELETE FROM session WHERE user = ?"

AGENT_OF: Final = """
SELECT user.id FROM application JOIN user ON user.id = application.user
 WHERE application.id = ? AND kind = 'agent' AND removed_at IS NULL
"""

OF_USERS: Final = (Purpose.VERIFY_EMAIL, Purpose.RESET_PASSWORD, Purpose.CLAIM_AGENT)


def find_user(db: apsw.Connection, user_id: UserId) -> User | None:
    """Return one who was not removed."""
    row = db.execute(FIND, (user_id,)).fetchone()
    return None if row is None else user_of(row)


def find_users(db: apsw.Connection, before: UserId | None, limit: int) -> list[User]:
    """Return up to *limit* who were not removed, newest first."""
    return [user_of(row) for row in db.execute(NEWEST, (before, limit))]


def remove_user(db: apsw.Connection, user_id: UserId, actor: Actor, at: UnixMs) -> None:
    """Remove an account; inside a transaction.

    Raises    NotPossible
    """
    user = find_user(db, user_id)
    if user is None:
        raise NotPossible(f"expected an account; there is none with the number {user_id}")
    if user.is_administrator and not db.execute(OTHER_ADMINISTRATORS, (user_id,)).get:
        raise NotPossible(
            f"expected another administrator beside {user.username}, who is the last one"
        )
    _remove(db, user_id, actor, at)


def remove_agent_of(db: apsw.Connection, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """Remove the agent account that was made for an application; inside a transaction."""
    user_id: int | None = db.execute(AGENT_OF, (signup_id,)).get
    if user_id is not None:
        _remove(db, UserId(user_id), actor, at, because=f"application:{signup_id}")


def promote(db: apsw.Connection, promotion: Promotion) -> tuple[User, bool]:
    """Make a person an administrator; inside a transaction."""
    row = db.execute(PERSON, (promotion.email,)).fetchone()
    is_new = row is None
    user = _add_person(db, promotion) if row is None else user_of(row)
    if user.verified_at is None and not is_new:
        _take_over(db, user, promotion)
    if not user.is_administrator:
        db.execute(PROMOTE, (user.user_id,))
        _note(db, user.user_id, "made administrator", promotion.actor, promotion.at)
    after = find_user(db, user.user_id)
    assert after is not None
    return after, is_new


def _add_person(db: apsw.Connection, promotion: Promotion) -> User:
    new = (promotion.username, promotion.email, promotion.password_hash, promotion.at)
    row = db.execute(ADD_PERSON, new).fetchone()
    assert row is not None, "an insertion returns its row"
    user = user_of(row)
    _note(db, user.user_id, "created", promotion.actor, promotion.at)
    return user


def _take_over(db: apsw.Connection, user: User, promotion: Promotion) -> None:
    """Give the account to whom it was meant for: it may be anybody's until now."""
    db.execute(SET_PASSWORD, (user.user_id, promotion.password_hash))
    revoked = _end(db, user.user_id, promotion.at)
    at = promotion.at
    _note(db, user.user_id, "reset password", promotion.actor, at, keys_revoked=str(revoked))


def _remove(db: apsw.Connection, user_id: UserId, actor: Actor, at: UnixMs, **told: str) -> None:
    db.execute(REMOVE, (user_id, at))
    revoked = _end(db, user_id, at)
    _note(db, user_id, "removed", actor, at, keys_revoked=str(revoked), **told)


def _end(db: apsw.Connection, user_id: UserId, at: UnixMs) -> int:
    """End everything that lets somebody act as the user; return how many keys."""
    db.execute(END_SESSIONS, (user_id,))
    for purpose in OF_USERS:
        end_proofs(db, purpose, user_id, at)
    return revoke_keys(db, user_id, at)


def _note(
    db: apsw.Connection,
    user_id: UserId,
    action: str,
    actor: Actor,
    at: UnixMs,
    **detail: str,
) -> None:
    subject = f"user:{user_id}"
    note(db, Event(at=at, actor=actor, action=action, subject=subject, detail=detail))
