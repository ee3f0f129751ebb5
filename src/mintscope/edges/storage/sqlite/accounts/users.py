"""UserRows on SQLite."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Unpack

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.user import KeptUser, NewUser, User, UserChanges, UserId, UserKind
from mintscope.edges.storage.sqlite.accounts.columns import insert, moment, update

COLUMNS: Final = "user.id, kind, username, email, verified_at, administrator, user.created_at"
COLUMN_COUNT: Final = 7
SELECT: Final = f"SELECT {COLUMNS}, password_hash FROM user WHERE removed_at IS NULL"  # noqa: S608
GET: Final = f"{SELECT} AND id = ?"
# The kind stands in the text, so that the index of its kind serves.
OF_EMAIL: Final = {
    kind: f"{SELECT} AND kind = '{kind}' AND email = ? ORDER BY id DESC" for kind in UserKind
}
NEWEST: Final = f"{SELECT} AND id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?"
ADMINISTRATORS: Final = "SELECT id FROM user WHERE administrator = 1 AND removed_at IS NULL"


class SqliteUserRows:
    """Implements UserRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def get(self, user_id: UserId) -> KeptUser | None:
        """Return one user."""
        row = self._db.execute(GET, (user_id,)).fetchone()
        return None if row is None else _kept_of(row)

    def of_email(self, email: EmailAddress, kind: UserKind) -> Sequence[KeptUser]:
        """Return the users of *kind* with that address, newest first."""
        return [_kept_of(row) for row in self._db.execute(OF_EMAIL[kind], (email,))]

    def newest(self, before: UserId | None, limit: int) -> Sequence[User]:
        """Return up to *limit* users, newest first, that are older than *before*."""
        return [user_of(row[:-1]) for row in self._db.execute(NEWEST, (before, limit))]

    def administrators(self) -> Sequence[UserId]:
        """Return every administrator."""
        return [UserId(user_id) for (user_id,) in self._db.execute(ADMINISTRATORS)]

    def insert(self, new: NewUser) -> UserId:
        """Add a user."""
        return UserId(insert(self._db, "user", asdict(new)))

    def update(self, user_id: UserId, **changes: Unpack[UserChanges]) -> None:
        """Change columns of a user."""
        update(self._db, "user", user_id, changes)


def user_of(row: Sequence[Any]) -> User:
    """Return the user that a row of COLUMNS holds."""
    user_id, kind, username, email, verified_at, administrator, created_at = row
    return User(
        user_id=UserId(user_id),
        kind=UserKind(kind),
        username=username,
        email=EmailAddress(email),
        verified_at=moment(verified_at),
        is_administrator=bool(administrator),
        created_at=UnixMs(created_at),
    )


def _kept_of(row: tuple[Any, ...]) -> KeptUser:
    return KeptUser(user_of(row[:-1]), row[-1])
