"""API keys as rows."""

from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId
from mintscope.core.accounts.keys.api_key import KeyId, KeyLine, NewKey
from mintscope.core.accounts.keys.scope import Scope, in_order
from mintscope.core.accounts.user import UserId

COLUMNS: Final = (
    "api_key.id, api_key.user, name, hint, scopes, api_key.created_at, expires_at, revoked_at,"
    " last_used_at, replaced_by"
)

ADD: Final = f"""
INSERT INTO api_key (user, application, key_hash, hint, name, scopes, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}
"""  # noqa: S608  a constant

REVOKE_ALL: Final = """
UPDATE api_key SET revoked_at = ?2
 WHERE user = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)
"""


def add_key(
    db: apsw.Connection, user_id: UserId, key: NewKey, at: UnixMs, *, signup_id: SignupId | None
) -> KeyLine:
    """Keep a key of *user_id*; *signup_id* is the application whose secret it was exchanged for.

    Inside a transaction; the audit row and the letter are the caller's.
    """
    columns = (key.key_hash, key.hint, key.name, scopes_text(key.scopes), at, key.expires_at)
    row = db.execute(ADD, (user_id, signup_id, *columns)).fetchone()
    assert row is not None, "an insertion returns its row"
    return line_of(row)


def revoke_keys(db: apsw.Connection, user_id: UserId, at: UnixMs) -> int:
    """Revoke every active key of *user_id*, inside a transaction; return how many there were."""
    db.execute(REVOKE_ALL, (user_id, at))
    return db.changes()


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Return *scopes* as they are stored: a JSON list in the order of lists of scopes."""
    return msgspec.json.encode(in_order(scopes)).decode()


def scopes_of(text: str) -> frozenset[Scope]:
    """Return the scopes that *text* holds."""
    return frozenset(msgspec.json.decode(text, type=list[Scope]))


def line_of(row: tuple[Any, ...]) -> KeyLine:
    """Return what a row of COLUMNS tells."""
    key_id, user_id, name, hint, scopes, created_at, *times, replaced_by = row
    expires_at, revoked_at, last_used_at = (
        None if time is None else UnixMs(time) for time in times
    )
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
