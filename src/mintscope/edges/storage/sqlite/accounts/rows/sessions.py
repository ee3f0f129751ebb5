"""Sessions as rows, and users with them."""

from typing import Any, Final

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import Actor, user_actor
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.people.session import Session, SessionEnded, SessionId
from mintscope.core.accounts.user import User, UserId, UserKind

USER_COLUMNS: Final = "user.id, kind, username, email, verified_at, administrator, user.created_at"
USER_COLUMN_COUNT: Final = 7
COLUMNS: Final = (
    f"{USER_COLUMNS}, session.id, session.created_at, seen_at, proved_at, address, agent"
)

IS_THERE: Final = """
SELECT EXISTS (SELECT 1 FROM session JOIN user ON user.id = session.user
                WHERE session.id = ? AND user.id = ? AND removed_at IS NULL)
"""

IS_ADMINISTRATOR: Final = "SELECT administrator FROM user WHERE id = ?"


def expect_session(db: apsw.Connection, session: Session) -> None:
    """Expect *session* to be there still, in the transaction of what is done in it.

    Between the moment at which it was looked up and now the owner may have reset the password.
    Raises    SessionEnded
    """
    if not db.execute(IS_THERE, (session.session_id, session.user.user_id)).get:
        raise SessionEnded


def expect_administrator(db: apsw.Connection, reviewer: Session | Actor) -> Actor:
    """Return how the audit log names *reviewer*, who must be an administrator to this moment.

    In the transaction of what is done; whom the machine vouches for is not looked up.
    Raises    SessionEnded
    """
    if not isinstance(reviewer, Session):
        return reviewer
    expect_session(db, reviewer)
    if not db.execute(IS_ADMINISTRATOR, (reviewer.user.user_id,)).get:
        raise SessionEnded
    return user_actor(reviewer.user.user_id)


def user_of(row: tuple[Any, ...]) -> User:
    """Return the user that a row of USER_COLUMNS holds."""
    user_id, kind, username, email, verified_at, administrator, created_at = row
    return User(
        user_id=UserId(user_id),
        kind=UserKind(kind),
        username=username,
        email=EmailAddress(email),
        verified_at=None if verified_at is None else UnixMs(verified_at),
        is_administrator=bool(administrator),
        created_at=UnixMs(created_at),
    )


def session_of(row: tuple[Any, ...]) -> Session:
    """Return the session that a row of COLUMNS holds, without the text of its forms."""
    session_id, created_at, seen_at, proved_at, address, agent = row[USER_COLUMN_COUNT:]
    return Session(
        session_id=SessionId(session_id),
        user=user_of(row[:USER_COLUMN_COUNT]),
        created_at=UnixMs(created_at),
        seen_at=UnixMs(seen_at),
        proved_at=UnixMs(proved_at),
        address=address,
        agent=agent,
        csrf="",
    )
