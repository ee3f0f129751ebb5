"""SignupStore on SQLite: applications as they come in and are confirmed."""

from collections.abc import Callable
from typing import Any, Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    LAPSE_MS,
    UNDECIDED,
    Form,
    KeptApplication,
    SignupId,
    UserType,
)
from mintscope.core.accounts.audit import APPLICANT, MAILBOX, SERVICE, Actor, Event
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.proof import Proof, ProofId, Purpose
from mintscope.core.accounts.signups.signups import Earlier, NewApplication
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.applications import (
    delete,
    find,
    find_by_email,
    subject_of,
)
from mintscope.edges.storage.sqlite.accounts.rows.emails import write_letter
from mintscope.edges.storage.sqlite.accounts.rows.events import note
from mintscope.edges.storage.sqlite.accounts.rows.proofs import (
    end_proofs,
    find_proof,
    guess_proof,
    open_proof,
    use_proof,
)

# The unique index decides who was first.
ADD: Final = """
INSERT INTO application (email, telegram, twitter, user_type, motivation, secret_hash,
                         secret_nonce, signup_redeem, state, applied_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'awaiting_confirmation', ?)
ON CONFLICT (email) DO NOTHING RETURNING id
"""

EARLIER: Final = """
SELECT id, email, telegram, twitter, user_type, motivation, secret_nonce, signup_redeem, applied_at
  FROM application WHERE email = ?
"""

LAPSED: Final = """
SELECT id FROM application WHERE state = 'awaiting_confirmation' AND applied_at <= ?
"""
LAPSED_OF: Final = f"{LAPSED} AND email = ?"

CONFIRM: Final = """
UPDATE application
   SET confirmed_at = ?2,
       state = iif(state = 'awaiting_confirmation', 'awaiting_approval', state)
 WHERE id = ?1 AND confirmed_at IS NULL
"""

# Of an application approved before its mailbox was proven, there may be an agent already.
CONFIRM_AGENT: Final = """
UPDATE user SET verified_at = ?2
 WHERE kind = 'agent' AND verified_at IS NULL
   AND id = (SELECT user FROM application WHERE id = ?1)
"""


class SqliteSignupStore:
    """Implements accounts.signup.SignupStore."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def add(self, new: NewApplication) -> SignupId | Earlier:
        """Keep *new* and its letter, unless the address has an application."""
        return await self._file.write(lambda db: _add(db, new))

    async def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of *email*."""
        return self._file.read(lambda db: find_by_email(db, email))

    async def find_confirmation(self, proof_id: ProofId) -> Proof | None:
        """Return the proof of a mailbox, used or not."""
        return self._file.read(lambda db: find_proof(db, proof_id))

    async def guess(
        self, signup_id: SignupId, is_right: Callable[[Proof], bool], now: UnixMs
    ) -> bool:
        """Count a guess at the code and confirm the mailbox if it is right."""
        return await self._file.write(lambda db: _guess(db, signup_id, is_right, now))

    async def confirm(self, proof_id: ProofId, now: UnixMs) -> bool:
        """Use up the proof and confirm the mailbox."""
        return await self._file.write(lambda db: _confirm_by_link(db, proof_id, now))

    async def disown(self, proof_id: ProofId, now: UnixMs) -> bool:
        """Delete the application of a good proof, if nobody has decided about it."""
        return await self._file.write(lambda db: _disown(db, proof_id, now))

    async def forget_lapsed(self, now: UnixMs) -> int:
        """Delete what was not confirmed in time; return how many."""
        return await self._file.write(lambda db: _forget_lapsed(db, now))


def _add(db: apsw.Connection, new: NewApplication) -> SignupId | Earlier:
    form = new.form
    _forget_lapsed(db, new.at, form.email)
    handles = (form.email, form.telegram, form.twitter, form.user_type, form.motivation)
    drawn = (new.secret_hash, new.secret_nonce, new.redeem, new.at)
    signup_id: SignupId | None = db.execute(ADD, (*handles, *drawn)).get
    if signup_id is None:
        return _earlier_of(db.execute(EARLIER, (form.email,)).get)
    proof = open_proof(
        db, Purpose.CONFIRM_APPLICATION, signup_id, form.email, new.proof_nonce, new.at
    )
    write_letter(db, EmailKind.CONFIRM_APPLICATION, form.email, {}, proof, new.at)
    _note(db, signup_id, "applied", APPLICANT, new.at)
    return signup_id


def _earlier_of(row: tuple[Any, ...]) -> Earlier:
    signup_id, email, telegram, twitter, user_type, motivation, nonce, redeem, at = row
    return Earlier(
        signup_id=SignupId(signup_id),
        form=Form(
            email=EmailAddress(email),
            telegram=telegram,
            twitter=twitter,
            user_type=UserType(user_type),
            motivation=motivation,
        ),
        secret_nonce=nonce,
        redeem=None if redeem is None else CredentialHash(redeem),
        at=UnixMs(at),
    )


def _guess(
    db: apsw.Connection, signup_id: SignupId, is_right: Callable[[Proof], bool], now: UnixMs
) -> bool:
    proof = guess_proof(db, Purpose.CONFIRM_APPLICATION, signup_id, now)
    if proof is None or not is_right(proof):
        return False  # and the guess is counted
    use_proof(db, proof.proof_id, Purpose.CONFIRM_APPLICATION, now)
    _confirm(db, signup_id, APPLICANT, now)
    return True


def _confirm_by_link(db: apsw.Connection, proof_id: ProofId, now: UnixMs) -> bool:
    if not use_proof(db, proof_id, Purpose.CONFIRM_APPLICATION, now):
        return False
    proof = find_proof(db, proof_id)
    assert proof is not None
    _confirm(db, SignupId(proof.subject), MAILBOX, now)
    return True


def _confirm(db: apsw.Connection, signup_id: SignupId, actor: Actor, now: UnixMs) -> None:
    db.execute(CONFIRM, (signup_id, now))
    if db.changes():
        db.execute(CONFIRM_AGENT, (signup_id, now))
        end_proofs(db, Purpose.CONFIRM_APPLICATION, signup_id, now)
        _note(db, signup_id, "confirmed", actor, now)


def _disown(db: apsw.Connection, proof_id: ProofId, now: UnixMs) -> bool:
    proof = find_proof(db, proof_id)
    application = None if proof is None else find(db, SignupId(proof.subject))
    if application is None or application.state not in UNDECIDED:
        return False
    if not use_proof(db, proof_id, Purpose.CONFIRM_APPLICATION, now):
        return False
    delete(db, application.signup_id, now)
    _note(db, application.signup_id, "disowned", MAILBOX, now)
    return True


def _forget_lapsed(db: apsw.Connection, now: UnixMs, email: EmailAddress | None = None) -> int:
    """Delete what lapsed, of *email* or of everybody."""
    before = now - LAPSE_MS
    rows = (
        db.execute(LAPSED, (before,)) if email is None else db.execute(LAPSED_OF, (before, email))
    )
    lapsed = [SignupId(int(signup_id)) for (signup_id,) in rows]
    for signup_id in lapsed:
        delete(db, signup_id, now)
        _note(db, signup_id, "lapsed", SERVICE, now)
    return len(lapsed)


def _note(db: apsw.Connection, signup_id: SignupId, action: str, actor: Actor, now: UnixMs) -> None:
    note(db, Event(at=now, actor=actor, action=action, subject=subject_of(signup_id)))
