"""KeyStore on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.audit import Event, user_actor
from mintscope.core.accounts.keys.api_key import (
    KEYS_PER_DAY_MAX,
    KEYS_PER_USER_MAX,
    KEYS_SHOWN_MAX,
    Holder,
    KeyId,
    KeyLine,
    NewKey,
)
from mintscope.core.accounts.keys.api_keys import TooManyKeys
from mintscope.core.accounts.keys.scope import in_order
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import COLUMNS, add_key, line_of
from mintscope.edges.storage.sqlite.accounts.rows.emails import tell_owner
from mintscope.edges.storage.sqlite.accounts.rows.events import note
from mintscope.edges.storage.sqlite.accounts.rows.sessions import expect_session

FIND: Final = f"""
SELECT {COLUMNS}, username FROM api_key JOIN user ON user.id = api_key.user
 WHERE key_hash = ? AND removed_at IS NULL
"""  # noqa: S608  a constant

# Whoever makes keys and ends them all day must not make pages slow for everybody.
OF_USER: Final = f"""
SELECT {COLUMNS} FROM api_key WHERE user = ?1
 ORDER BY revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) DESC, id DESC LIMIT ?3
"""  # noqa: S608  a constant

NOTE_USE: Final = """
UPDATE api_key SET last_used_at = ?2 WHERE id = ?1 AND coalesce(last_used_at, 0) < ?2
"""

COUNT_ACTIVE: Final = """
SELECT count(*) FROM api_key
 WHERE user = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)
"""

COUNT_MADE: Final = """
SELECT count(*) FROM api_key WHERE user = ?1 AND application IS NULL AND created_at > ?2
"""

REVOKE: Final = """
UPDATE api_key SET revoked_at = ?3
 WHERE id = ?1 AND user = ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3)
"""

SHORTEN: Final = """
UPDATE api_key SET expires_at = min(coalesce(expires_at, ?3), ?3)
 WHERE id = ?1 AND user = ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?4)
   AND replaced_by IS NULL
"""

REPLACE: Final = "UPDATE api_key SET replaced_by = ?2 WHERE id = ?1"


class SqliteApiKeyStore:
    """Implements KeyStore of `accounts.keys`."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def find(self, key_hash: CredentialHash) -> Holder | None:
        """Return the key of that hash, in whatever state, unless its user was removed."""
        row = self._file.read(lambda db: db.execute(FIND, (key_hash,)).fetchone())
        return None if row is None else Holder(line_of(row[:-1]), str(row[-1]))

    async def note_uses(self, used_at: Mapping[KeyId, UnixMs]) -> None:
        """Write down when keys were used, where that is later than what is written."""
        uses = list(used_at.items())
        await self._file.write(lambda db: db.executemany(NOTE_USE, uses).fetchall())

    async def of_user(self, user_id: UserId, now: UnixMs) -> Sequence[KeyLine]:
        """Return the user's keys, active first, newest first; KEYS_SHOWN_MAX at most."""
        asked = (user_id, now, KEYS_SHOWN_MAX)
        rows = self._file.read(lambda db: db.execute(OF_USER, asked).fetchall())
        return [line_of(row) for row in rows]

    async def add(self, session: Session, key: NewKey, at: UnixMs) -> KeyLine:
        """Keep a key of the session's person, and write to the mailbox."""

        def add(db: apsw.Connection) -> KeyLine:
            expect_session(db, session)
            _expect_room(db, session.user.user_id, at)
            line = add_key(db, session.user.user_id, key, at, signup_id=None)
            _tell(db, session, line, "created", at)
            return line

        return await self._file.write(add)

    async def revoke(self, session: Session, key_id: KeyId, at: UnixMs) -> bool:
        """End an active key of the session's person; False if there is none."""

        def revoke(db: apsw.Connection) -> bool:
            expect_session(db, session)
            db.execute(REVOKE, (key_id, session.user.user_id, at))
            is_done = db.changes() == 1
            if is_done:
                _note(db, session, "revoked", key_id, at)
            return is_done

        return await self._file.write(revoke)

    async def replace(
        self, session: Session, old: KeyLine, key: NewKey, *, ends_at: UnixMs, at: UnixMs
    ) -> KeyLine | None:
        """Keep *key* in the place of *old*, which ends at *ends_at* if not before."""
        user_id = session.user.user_id

        def replace(db: apsw.Connection) -> KeyLine | None:
            expect_session(db, session)
            db.execute(SHORTEN, (old.key_id, user_id, ends_at, at))
            if db.changes() == 0:
                return None
            _expect_room(db, user_id, at)
            line = add_key(db, user_id, key, at, signup_id=None)
            db.execute(REPLACE, (old.key_id, line.key_id))
            _tell(db, session, line, "rotated", at)
            return line

        return await self._file.write(replace)


def _expect_room(db: apsw.Connection, user_id: UserId, at: UnixMs) -> None:
    active = int(db.execute(COUNT_ACTIVE, (user_id, at)).get)
    made = int(db.execute(COUNT_MADE, (user_id, at - DAY_MS)).get)
    if active >= KEYS_PER_USER_MAX or made >= KEYS_PER_DAY_MAX:
        raise TooManyKeys


def _tell(db: apsw.Connection, session: Session, line: KeyLine, action: str, at: UnixMs) -> None:
    """Note that there is a new key, and write to its owner, who may not be who made it.

    Its name stays out of the letter: a mailbox that nobody has verified may be a stranger's, who
    is not to be sent texts of others in our name.
    """
    _note(db, session, action, line.key_id, at, hint=line.hint)
    facts = {"hint": line.hint, "scopes": ", ".join(in_order(line.scopes))}
    tell_owner(db, session.user, EmailKind.NEW_KEY, facts, at)


def _note(
    db: apsw.Connection, session: Session, action: str, key_id: KeyId, at: UnixMs, **detail: str
) -> None:
    note(
        db,
        Event(
            at=at,
            actor=user_actor(session.user.user_id),
            action=action,
            subject=f"key:{key_id}",
            detail=detail,
        ),
    )
