"""ApiKeyRows and UserKeyRows on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId
from mintscope.core.accounts.keys.api_key import Holder, KeyChanges, KeyId, KeyLine, NewKey
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts.columns import (
    insert,
    moment,
    scopes_of,
    scopes_text,
    update,
)

COLUMNS: Final = (
    "api_key.id, api_key.user, name, hint, scopes, api_key.created_at, expires_at, revoked_at,"
    " last_used_at, replaced_by"
)
IS_ACTIVE: Final = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)"
FIND: Final = f"""
SELECT {COLUMNS}, username FROM api_key JOIN user ON user.id = api_key.user
 WHERE key_hash = ? AND removed_at IS NULL
"""  # noqa: S608  a constant
GET: Final = f"SELECT {COLUMNS} FROM api_key WHERE id = ?"  # noqa: S608  a constant
OF_APPLICATION: Final = f"""
SELECT {COLUMNS} FROM api_key WHERE application = ? ORDER BY id DESC
"""  # noqa: S608  a constant
NOTE_USE: Final = """
UPDATE api_key SET last_used_at = ?2 WHERE id = ?1 AND coalesce(last_used_at, 0) < ?2
"""
SHOWN: Final = f"""
SELECT {COLUMNS} FROM api_key WHERE user = ?1 ORDER BY {IS_ACTIVE} DESC, id DESC LIMIT ?3
"""  # noqa: S608  a constant
COUNT_ACTIVE: Final = f"SELECT count(*) FROM api_key WHERE user = ?1 AND {IS_ACTIVE}"  # noqa: S608
COUNT_MADE: Final = """
SELECT count(*) FROM api_key WHERE user = ? AND application IS NULL AND created_at > ?
"""
REVOKE_ACTIVE: Final = f"""
UPDATE api_key SET revoked_at = ?2 WHERE user = ?1 AND {IS_ACTIVE}
"""  # noqa: S608  a constant
MOVE: Final = "UPDATE api_key SET user = ?2 WHERE user = ?1"


class SqliteApiKeyRows:
    """Implements ApiKeyRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def find(self, key_hash: CredentialHash) -> Holder | None:
        """Return the key of that hash, in whatever state, unless its user was removed."""
        row = self._db.execute(FIND, (key_hash,)).fetchone()
        return None if row is None else Holder(_line_of(row[:-1]), row[-1])

    def get(self, key_id: KeyId) -> KeyLine | None:
        """Return one key."""
        return next(iter(_lines(self._db, GET, key_id)), None)

    def of_application(self, signup_id: SignupId) -> Sequence[KeyLine]:
        """Return the keys that the secret of an application was exchanged for, newest first."""
        return _lines(self._db, OF_APPLICATION, signup_id)

    def insert(
        self, user_id: UserId, key: NewKey, at: UnixMs, *, signup_id: SignupId | None
    ) -> KeyLine:
        """Add a key; *signup_id* is the application whose secret it was exchanged for."""
        columns = {
            "user": user_id,
            "application": signup_id,
            "key_hash": key.key_hash,
            "hint": key.hint,
            "name": key.name,
            "scopes": scopes_text(key.scopes),
            "created_at": at,
            "expires_at": key.expires_at,
        }
        line = self.get(KeyId(insert(self._db, "api_key", columns)))
        assert line is not None, "it was added just now"
        return line

    def update(self, key_id: KeyId, **changes: Unpack[KeyChanges]) -> None:
        """Change columns of a key."""
        update(self._db, "api_key", key_id, changes)

    def note_uses(self, used_at: Mapping[KeyId, UnixMs]) -> None:
        """Set when keys were last used, where that is later than before."""
        self._db.executemany(NOTE_USE, used_at.items()).fetchall()


class SqliteUserKeyRows:
    """Implements UserKeyRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def shown(self, user_id: UserId, now: UnixMs, limit: int) -> Sequence[KeyLine]:
        """Return up to *limit* keys, those active at *now* first, newest first."""
        return _lines(self._db, SHOWN, user_id, now, limit)

    def count_active(self, user_id: UserId, now: UnixMs) -> int:
        """Return how many keys are active at *now*."""
        return int(self._db.execute(COUNT_ACTIVE, (user_id, now)).get)

    def count_made(self, user_id: UserId, since: UnixMs) -> int:
        """Return how many keys were made after *since*, except those of applications."""
        return int(self._db.execute(COUNT_MADE, (user_id, since)).get)

    def revoke_active(self, user_id: UserId, at: UnixMs) -> int:
        """Set `revoked_at` of every key active at *at*; return how many there were."""
        self._db.execute(REVOKE_ACTIVE, (user_id, at))
        return self._db.changes()

    def move(self, giver: UserId, taker: UserId) -> None:
        """Give every key of *giver* to *taker*."""
        self._db.execute(MOVE, (giver, taker))


def _lines(db: apsw.Connection, statement: str, *values: object) -> list[KeyLine]:
    return [_line_of(row) for row in db.execute(statement, values)]


def _line_of(row: tuple[Any, ...]) -> KeyLine:
    key_id, user_id, name, hint, scopes, created_at, *times, replaced_by = row
    expires_at, revoked_at, last_used_at = map(moment, times)
    return KeyLine(
        key_id=KeyId(key_id),
        user_id=UserId(user_id),
        name=name,
        hint=hint,
        scopes=scopes_of(scopes),
        created_at=UnixMs(created_at),
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
        replaced_by=None if replaced_by is None else KeyId(replaced_by),
    )
