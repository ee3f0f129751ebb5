"""API keys, and the client addresses that used them, in SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from typing_extensions import Unpack

from mintscope.accounts.keys.key import (
    ADDRESSES_MAX,
    ANYWHERE,
    Holder,
    KeyAddress,
    KeyChanges,
    KeyLine,
    NewKey,
)
from mintscope.accounts.signups.application import SignupId
from mintscope.accounts.store import Columns, Table
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database

LINE: Final = Columns(KeyLine, "api_key", key_id="api_key.id", user_id='api_key."user"')
HOLDER: Final = Columns(Holder, "user", key=LINE)
# ?2 is the time at which the key must be active.
IS_ACTIVE: Final = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)"
FIND: Final = f"""
SELECT {HOLDER.text} FROM api_key JOIN "user" ON "user".id = api_key."user"
 WHERE key_hash = ? AND removed_at IS NULL
"""  # noqa: S608  a constant
NOTE_USE: Final = """
UPDATE api_key SET last_used_at = ?2 WHERE id = ?1 AND coalesce(last_used_at, 0) < ?2
"""
COUNT_ACTIVE: Final = f"""
SELECT count(*) FROM api_key WHERE "user" = ?1 AND {IS_ACTIVE}
"""  # noqa: S608  a constant
COUNT_MADE: Final = """
SELECT count(*) FROM api_key WHERE "user" = ? AND application IS NULL AND created_at > ?
"""
FORGET_NETWORKS: Final = f"""
UPDATE api_key SET networks = '{ANYWHERE}' WHERE "user" = ?
"""  # noqa: S608  a constant
REVOKE_ACTIVE: Final = f"""
UPDATE api_key SET revoked_at = ?2 WHERE "user" = ?1 AND {IS_ACTIVE}
"""  # noqa: S608  a constant

# A key that rotates itself keeps its end, so the lifetime began with an earlier key of its chain.
# `coalesce(first_key, id)` is the expression of the index api_key_chain.
BEGUN_AT: Final = """
SELECT created_at FROM api_key AS k
 WHERE coalesce(first_key, id) = (SELECT coalesce(first_key, id) FROM api_key WHERE id = ?1)
   AND id <= ?1
   AND NOT EXISTS (SELECT 1 FROM account_event
                    WHERE subject = 'key:' || k.id AND action = 'rotated'
                      AND substr(actor, 1, 4) = 'key:')
 ORDER BY id DESC LIMIT 1
"""

# The owner may have deleted the account, and with it the addresses, since the use.
NOTE_ADDRESS: Final = """
INSERT INTO key_address (api_key, address, last_used_at)
SELECT k.id, CAST(?2 AS text), CAST(?3 AS bigint)
  FROM api_key AS k JOIN "user" AS u ON u.id = k."user"
 WHERE k.id = ?1 AND u.removed_at IS NULL
    ON CONFLICT (api_key, address) DO UPDATE SET last_used_at = excluded.last_used_at
     WHERE key_address.last_used_at < excluded.last_used_at
"""
FORGET_OLD: Final = f"""
DELETE FROM key_address WHERE api_key = ?1 AND address NOT IN (
    SELECT address FROM key_address WHERE api_key = ?1
     ORDER BY last_used_at DESC, address LIMIT {ADDRESSES_MAX})
"""  # noqa: S608  a constant
OF_KEY: Final = """
SELECT address, last_used_at FROM key_address WHERE api_key = ? ORDER BY last_used_at DESC, address
"""
FORGET_OF_USER: Final = """
DELETE FROM key_address WHERE api_key IN (SELECT id FROM api_key WHERE "user" = ?)
"""


class SqlApiKeyRows(Table[KeyId, KeyLine]):
    """Reads and writes API keys, inside one transaction."""

    NAME = "api_key"
    COLUMNS = LINE
    SOURCE = "api_key WHERE"

    def update(self, key_id: KeyId, /, **changes: Unpack[KeyChanges]) -> None:
        """Set the columns of an API key that *changes* names."""
        self._update(key_id, changes)

    def find(self, key_hash: CredentialHash) -> Holder | None:
        """Return the holder of a key, valid or not, by the key's hash.

        Return None if there is no such key, or its user was removed.
        """
        row = self._db.execute(FIND, (key_hash,)).fetchone()
        return None if row is None else HOLDER.read(row)

    def of_application(self, signup_id: SignupId) -> Sequence[KeyLine]:
        """Return the keys issued in exchange for the secret of an application, newest first."""
        return self._all("application = ? ORDER BY id DESC", signup_id)

    def insert(
        self, user_id: UserId, key: NewKey, at: UnixMs, *, signup_id: SignupId | None
    ) -> KeyLine:
        """Add a key; *signup_id* is the application whose secret was exchanged for it, if any."""
        columns = {"user": user_id, "application": signup_id, "created_at": at}
        line = self.get(self._add(columns | asdict(key)))
        assert line is not None, "it was added just now"
        return line

    def lifetime_ms(self, line: KeyLine) -> int | None:
        """Return the lifetime that the owner gave to a key, in milliseconds; None: no expiry.

        If a key rotates itself, the new key expires when the old key would have expired.  Therefore
        the lifetime of the new key is counted from the creation of the key before such rotations.
        """
        if line.expires_at is None:
            return None
        return line.expires_at - int(self._db.execute(BEGUN_AT, (line.key_id,)).get)

    def note_uses(self, used_at: Mapping[KeyId, UnixMs]) -> None:
        """Store the time of the last use of each key, unless a later time is stored."""
        self._db.executemany(NOTE_USE, list(used_at.items()))

    def shown(self, user_id: UserId, now: UnixMs, limit: int) -> Sequence[KeyLine]:
        """Return up to *limit* keys of the user: active keys first, and newer before older ones."""
        order = f"{IS_ACTIVE} DESC, id DESC"
        return self._all(f'"user" = ?1 ORDER BY {order} LIMIT ?3', user_id, now, limit)

    def count_active(self, user_id: UserId, now: UnixMs) -> int:
        """Return the number of the user's keys that are active at *now*."""
        return int(self._db.execute(COUNT_ACTIVE, (user_id, now)).get)

    def count_made(self, user_id: UserId, since: UnixMs) -> int:
        """Return the number of keys that a user created after *since*.

        Keys that were issued for an application are not counted.
        """
        return int(self._db.execute(COUNT_MADE, (user_id, since)).get)

    def revoke_active(self, user_id: UserId, at: UnixMs) -> int:
        """Revoke every key of the user that is active at *at*; return their number."""
        self._db.execute(REVOKE_ACTIVE, (user_id, at))
        return self._db.changes()

    def forget_networks(self, user_id: UserId) -> None:
        """Delete the networks of all keys of a user; all these keys must have ended.

        An active key without networks would be accepted from anywhere.
        """
        self._db.execute(FORGET_NETWORKS, (user_id,))


class SqlKeyAddressRows:
    """Reads and writes the newest client addresses that used each key, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of_key(self, key_id: KeyId) -> Sequence[KeyAddress]:
        """Return the client addresses that used a key, the most recent first."""
        return [KeyAddress(*row) for row in self._db.execute(OF_KEY, (key_id,))]

    def note(self, key_id: KeyId, used_at: Mapping[str, UnixMs]) -> None:
        """Store the newest time at which each client address used a key.

        Only the newest ADDRESSES_MAX addresses of the key are kept.
        """
        uses = [(key_id, address, at) for address, at in used_at.items()]
        self._db.executemany(NOTE_ADDRESS, uses)
        self._db.execute(FORGET_OLD, (key_id,))

    def forget(self, user_id: UserId) -> None:
        """Delete the client addresses of every key of a user."""
        self._db.execute(FORGET_OF_USER, (user_id,))
