"""SessionStore on SQLite."""

from collections.abc import Sequence
from typing import Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.people.session import (
    SESSIONS_PER_USER_MAX,
    NewSession,
    Session,
    SessionEnded,
    SessionId,
)
from mintscope.core.accounts.people.store import Person
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.sessions import COLUMNS, session_of

# Somebody may have set another password while this one was being hashed.
OPEN: Final = """
INSERT INTO session (cookie_hash, user, created_at, seen_at, proved_at, address, agent)
SELECT ?3, id, ?6, ?6, ?6, ?4, ?5 FROM user
 WHERE id = ?1 AND password_hash = ?2 AND removed_at IS NULL
"""

FIND: Final = f"""
SELECT {COLUMNS} FROM session JOIN user ON user.id = session.user
 WHERE cookie_hash = ? AND removed_at IS NULL
"""  # noqa: S608  a constant

OF_USER: Final = f"""
SELECT {COLUMNS} FROM session JOIN user ON user.id = session.user
 WHERE session.user = ? AND removed_at IS NULL ORDER BY seen_at DESC, session.id DESC
"""  # noqa: S608  a constant

NOTE_USE: Final = "UPDATE session SET seen_at = max(seen_at, ?2) WHERE id = ?1"

PROVE: Final = """
UPDATE session SET proved_at = ?4
 WHERE id = ?1 AND user = ?2
   AND (SELECT password_hash FROM user WHERE id = ?2 AND removed_at IS NULL) = ?3
"""

END: Final = "DELETE FROM session WHERE user = ? AND id = ?"
END_OLDEST: Final = """
DELETE FROM session WHERE user = ?1 AND id <= (
    SELECT id FROM session WHERE user = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
"""
END_OTHERS: Final = "DELETE FROM session WHERE user = ? AND id <> ?"


class SqliteSessionStore:
    """Implements SessionStore of `accounts.people_store`."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def open(self, person: Person, session: NewSession, at: UnixMs) -> bool:
        """Keep a session; False if the password is not any more what *person* says."""
        return await self._file.write(lambda db: open_session(db, person, session, at))

    async def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session, expired or not; without the text of its forms."""
        row = self._file.read(lambda db: db.execute(FIND, (cookie_hash,)).fetchone())
        return None if row is None else session_of(row)

    async def note_use(self, session_id: SessionId, at: UnixMs) -> None:
        """Note that it was used."""
        await self._change(NOTE_USE, session_id, at)

    async def prove(self, session: Session, person: Person, at: UnixMs) -> None:
        """Note that the password *person* has was entered."""
        user_id = session.user.user_id
        if not await self._change(PROVE, session.session_id, user_id, person.password_hash, at):
            raise SessionEnded

    async def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, expired or not, newest use first."""
        rows = self._file.read(lambda db: db.execute(OF_USER, (user_id,)).fetchall())
        return [session_of(row) for row in rows]

    async def end(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user; False if there is none."""
        return await self._change(END, user_id, session_id) == 1

    async def end_others(self, session: Session) -> int:
        """End all sessions of the user but this; return how many."""
        return await self._change(END_OTHERS, session.user.user_id, session.session_id)

    async def _change(self, statement: str, *columns: object) -> int:
        """Execute *statement* in a transaction; return how many rows it changed."""

        def change(db: apsw.Connection) -> int:
            db.execute(statement, columns)
            return db.changes()

        return await self._file.write(change)


def open_session(db: apsw.Connection, person: Person, session: NewSession, at: UnixMs) -> bool:
    """Keep a session, inside a transaction; False if the password is another by now.

    Beyond SESSIONS_PER_USER_MAX the oldest ends: pages read all of them.
    """
    who = (person.user.user_id, person.password_hash)
    db.execute(OPEN, (*who, session.cookie_hash, session.address, session.agent, at))
    is_kept = db.changes() == 1
    if is_kept:
        db.execute(END_OLDEST, (person.user.user_id, SESSIONS_PER_USER_MAX))
    return is_kept
