"""An application as columns, and back; what several verbs do to it."""

from typing import Any, Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    Form,
    KeptApplication,
    SignupId,
    UserType,
)
from mintscope.core.accounts.audit import Actor, Event
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import Purpose
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import scopes_of
from mintscope.edges.storage.sqlite.accounts.rows.events import note

COLUMNS: Final = """
a.id, a.email, a.telegram, a.twitter, a.user_type, a.motivation, a.state, a.applied_at,
a.confirmed_at, a.decided_at, a.decided_by, a.scopes, a.note, a.issued_at,
(SELECT removed_at IS NOT NULL FROM user WHERE user.id = a.user), a.secret_hash
"""

FIND: Final = f"SELECT {COLUMNS} FROM application AS a WHERE a.id = ?"  # noqa: S608  a constant
FIND_BY_EMAIL: Final = f"SELECT {COLUMNS} FROM application AS a WHERE a.email = ?"  # noqa: S608

# A letter on its way says what will not be true any more.
STOP_LETTERS: Final = """
UPDATE letter SET given_up_at = ?3, reason = 'its application was deleted'
 WHERE proof IN (SELECT id FROM proof WHERE purpose = ?1 AND subject = ?2)
   AND sent_at IS NULL AND given_up_at IS NULL
"""
DELETE_PROOFS: Final = "DELETE FROM proof WHERE purpose = ? AND subject = ?"
DELETE: Final = "DELETE FROM application WHERE id = ?"

# A key that was rotated lives on in the one that replaced it.
REVOKE_KEYS: Final = """
WITH RECURSIVE issued (id) AS (
    SELECT id FROM api_key WHERE application = ?1
     UNION
    SELECT k.replaced_by FROM api_key AS k JOIN issued ON k.id = issued.id
     WHERE k.replaced_by IS NOT NULL)
UPDATE api_key SET revoked_at = ?2
 WHERE id IN (SELECT id FROM issued) AND revoked_at IS NULL
RETURNING id
"""


def subject_of(signup_id: SignupId) -> str:
    """Return how the audit log names an application."""
    return f"application:{signup_id}"


def kept_of(row: tuple[Any, ...]) -> KeptApplication:
    """Return the application that a row of COLUMNS holds."""
    signup_id, email, telegram, twitter, user_type, motivation, state, applied_at = row[:8]
    confirmed_at, decided_at, decided_by, scopes, note_, issued_at, removed, digest = row[8:]
    application = Application(
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
        confirmed_at=_moment(confirmed_at),
        decided_at=_moment(decided_at),
        decided_by=decided_by,
        scopes=scopes_of(scopes),
        note=note_,
        issued_at=_moment(issued_at),
        user_removed=bool(removed),
    )
    return KeptApplication(application, CredentialHash(digest))


def find(db: apsw.Connection, signup_id: SignupId) -> Application | None:
    """Return an application."""
    row = db.execute(FIND, (signup_id,)).fetchone()
    return None if row is None else kept_of(row).application


def find_by_email(db: apsw.Connection, email: EmailAddress) -> KeptApplication | None:
    """Return the application of *email*: one query, whatever comes of it."""
    row = db.execute(FIND_BY_EMAIL, (email,)).fetchone()
    return None if row is None else kept_of(row)


def delete(db: apsw.Connection, signup_id: SignupId, at: UnixMs) -> None:
    """Delete an application and its proofs; letters that would carry them are not sent."""
    db.execute(STOP_LETTERS, (Purpose.CONFIRM_APPLICATION, signup_id, at))
    db.execute(DELETE_PROOFS, (Purpose.CONFIRM_APPLICATION, signup_id))
    db.execute(DELETE, (signup_id,))


def revoke_issued(db: apsw.Connection, signup_id: SignupId, *, actor: Actor, at: UnixMs) -> None:
    """End the key that was issued for an application, and those that rotations made of it."""
    for (key_id,) in db.execute(REVOKE_KEYS, (signup_id, at)).fetchall():
        why = {"because": subject_of(signup_id)}
        note(db, Event(at=at, actor=actor, action="revoked", subject=f"key:{key_id}", detail=why))


def _moment(at: int | None) -> UnixMs | None:
    return None if at is None else UnixMs(at)
