"""ApplicationRows and ApplicationLists on SQLite."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Unpack

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationChanges,
    ApplicationState,
    Form,
    KeptApplication,
    NewApplication,
    SignupId,
    UserType,
)
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts.columns import (
    insert,
    moment,
    scopes_of,
    scopes_text,
    update,
)

SELECT: Final = """
SELECT a.id, a.email, a.telegram, a.twitter, a.user_type, a.motivation, a.state, a.applied_at,
       a.confirmed_at, a.decided_at, a.decided_by, a.scopes, a.note, a.issued_at,
       (SELECT removed_at IS NOT NULL FROM user WHERE user.id = a.user),
       a.secret_hash, a.secret_nonce, a.signup_redeem, a.user, a.key_nonce, a.exchange_redeem
  FROM application AS a
"""
COLUMN_COUNT: Final = 15  # of what is shown
GET: Final = f"{SELECT} WHERE a.id = ?"
FIND: Final = f"{SELECT} WHERE a.email = ?"
IN_STATE: Final = f"{SELECT} WHERE state = ? AND id > coalesce(?, 0) ORDER BY id LIMIT ?"
NEWEST: Final = f"{SELECT} WHERE id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?"
COUNTS: Final = "SELECT state, count(*) FROM application GROUP BY state"
OF_USER: Final = "SELECT id FROM application WHERE user = ?"
DELETE: Final = "DELETE FROM application WHERE id = ?"


class SqliteApplicationRows:
    """Implements ApplicationRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def get(self, signup_id: SignupId) -> KeptApplication | None:
        """Return one application."""
        row = self._db.execute(GET, (signup_id,)).fetchone()
        return None if row is None else _kept_of(row)

    def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of that address, with one query."""
        row = self._db.execute(FIND, (email,)).fetchone()
        return None if row is None else _kept_of(row)

    def of_user(self, user_id: UserId) -> Sequence[SignupId]:
        """Return the applications whose key belongs to that user."""
        rows: list[Any] = self._db.execute(OF_USER, (user_id,)).fetchall()
        return [SignupId(signup_id) for (signup_id,) in rows]

    def insert(self, new: NewApplication) -> SignupId:
        """Add an application that awaits confirmation; its address must be free."""
        columns = asdict(new.form) | {
            "secret_hash": new.secret_hash,
            "secret_nonce": new.secret_nonce,
            "signup_redeem": new.signup_redeem,
            "state": ApplicationState.AWAITING_CONFIRMATION,
            "applied_at": new.at,
        }
        return SignupId(insert(self._db, "application", columns))

    def update(self, signup_id: SignupId, **changes: Unpack[ApplicationChanges]) -> None:
        """Change columns of an application."""
        columns: dict[str, object] = {**changes}
        if "scopes" in changes:
            columns["scopes"] = scopes_text(changes["scopes"])
        update(self._db, "application", signup_id, columns)

    def delete(self, signup_id: SignupId) -> None:
        """Delete an application."""
        self._db.execute(DELETE, (signup_id,))


class SqliteApplicationLists:
    """Implements ApplicationLists."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def in_state(
        self, state: ApplicationState, after: SignupId | None, limit: int
    ) -> Sequence[Application]:
        """Return up to *limit* applications in *state*, oldest first, newer than *after*."""
        rows = self._db.execute(IN_STATE, (state, after, limit))
        return [_application_of(row[:COLUMN_COUNT]) for row in rows]

    def newest(self, before: SignupId | None, limit: int) -> Sequence[Application]:
        """Return up to *limit* applications, newest first, older than *before*."""
        rows = self._db.execute(NEWEST, (before, limit))
        return [_application_of(row[:COLUMN_COUNT]) for row in rows]

    def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many applications each state has; states without any are left out."""
        return {ApplicationState(state): count for state, count in self._db.execute(COUNTS)}


def _kept_of(row: tuple[Any, ...]) -> KeptApplication:
    secret_hash, secret_nonce, signup_redeem, owner, key_nonce, exchange_redeem = row[COLUMN_COUNT:]
    return KeptApplication(
        application=_application_of(row[:COLUMN_COUNT]),
        secret_hash=CredentialHash(secret_hash),
        secret_nonce=secret_nonce,
        signup_redeem=None if signup_redeem is None else CredentialHash(signup_redeem),
        owner=None if owner is None else UserId(owner),
        key_nonce=key_nonce,
        exchange_redeem=None if exchange_redeem is None else CredentialHash(exchange_redeem),
    )


def _application_of(row: tuple[Any, ...]) -> Application:
    signup_id, email, telegram, twitter, user_type, motivation, state, applied_at = row[:8]
    confirmed_at, decided_at, decided_by, scopes, note, issued_at, user_removed = row[8:]
    return Application(
        signup_id=SignupId(signup_id),
        form=Form(
            email=EmailAddress(email),
            telegram=telegram,
            twitter=twitter,
            user_type=UserType(user_type),
            motivation=motivation,
        ),
        state=ApplicationState(state),
        applied_at=UnixMs(applied_at),
        confirmed_at=moment(confirmed_at),
        decided_at=moment(decided_at),
        decided_by=decided_by,
        scopes=scopes_of(scopes),
        note=note,
        issued_at=moment(issued_at),
        user_removed=bool(user_removed),
    )
