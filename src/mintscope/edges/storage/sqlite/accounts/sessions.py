"""SessionRows on SQLite."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final, Unpack

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.people.session import NewSession, Session, SessionChanges, SessionId
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts import users
from mintscope.edges.storage.sqlite.accounts.columns import insert, update
from mintscope.edges.storage.sqlite.accounts.users import user_of

SELECT: Final = f"""
SELECT {users.COLUMNS}, session.id, session.created_at, seen_at, proved_at, address, agent
  FROM session JOIN user ON user.id = session.user
 WHERE removed_at IS NULL
"""  # noqa: S608  a constant
FIND: Final = f"{SELECT} AND cookie_hash = ?"
GET: Final = f"{SELECT} AND session.id = ?"
OF_USER: Final = f"{SELECT} AND session.user = ? ORDER BY seen_at DESC, session.id DESC"
DELETE: Final = "DELETE FROM session WHERE id = ?"
PURGE: Final = "DELETE FROM session WHERE seen_at <= ? OR created_at <= ?"


class SqliteSessionRows:
    """Implements SessionRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session of that cookie."""
        row = self._db.execute(FIND, (cookie_hash,)).fetchone()
        return None if row is None else _session_of(row)

    def get(self, session_id: SessionId) -> Session | None:
        """Return one session, with its user as it is now."""
        row = self._db.execute(GET, (session_id,)).fetchone()
        return None if row is None else _session_of(row)

    def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, newest use first."""
        return [_session_of(row) for row in self._db.execute(OF_USER, (user_id,))]

    def insert(self, user_id: UserId, new: NewSession, at: UnixMs) -> SessionId:
        """Add a session that begins at *at*."""
        times = dict.fromkeys(("created_at", "seen_at", "proved_at"), at)
        return SessionId(insert(self._db, "session", {"user": user_id} | times | asdict(new)))

    def update(self, session_id: SessionId, **changes: Unpack[SessionChanges]) -> None:
        """Change columns of a session."""
        update(self._db, "session", session_id, changes)

    def delete(self, session_ids: Collection[SessionId]) -> None:
        """Delete sessions."""
        self._db.executemany(DELETE, [(session_id,) for session_id in session_ids]).fetchall()

    def purge(self, *, idle_since: UnixMs, begun_before: UnixMs) -> None:
        """Delete sessions not used since, or begun before, those moments."""
        self._db.execute(PURGE, (idle_since, begun_before))


def _session_of(row: tuple[Any, ...]) -> Session:
    session_id, created_at, seen_at, proved_at, address, agent = row[users.COLUMN_COUNT :]
    return Session(
        session_id=SessionId(session_id),
        user=user_of(row[: users.COLUMN_COUNT]),
        created_at=UnixMs(created_at),
        seen_at=UnixMs(seen_at),
        proved_at=UnixMs(proved_at),
        address=address,
        agent=agent,
        csrf="",
    )
