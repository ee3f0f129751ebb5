"""Proofs as rows: opened with the letter that carries them, used once.

The functions that write must be called inside a transaction.
"""

from typing import Any, Final

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import GUESSES_MAX, Proof, ProofId, Purpose

COLUMNS: Final = "id, purpose, subject, email, nonce, made_at, expires_at, used_at"

OPEN: Final = """
INSERT INTO proof (purpose, subject, email, nonce, made_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)
RETURNING id
"""

FIND: Final = f"SELECT {COLUMNS} FROM proof WHERE id = ?"  # noqa: S608  a constant

USE: Final = """
UPDATE proof SET used_at = ?3
 WHERE id = ?1 AND purpose = ?2 AND used_at IS NULL AND expires_at > ?3
"""

END: Final = """
UPDATE proof SET used_at = ?3 WHERE purpose = ?1 AND subject = ?2 AND used_at IS NULL
"""

GUESS: Final = f"""
UPDATE proof SET guesses = guesses + 1
 WHERE id = (SELECT max(id) FROM proof
              WHERE purpose = ?1 AND subject = ?2 AND used_at IS NULL AND expires_at > ?3)
   AND guesses < ?4
RETURNING {COLUMNS}
"""  # noqa: S608  a constant


def open_proof(  # noqa: PLR0913, PLR0917 - a row
    db: apsw.Connection,
    purpose: Purpose,
    subject: int,
    email: EmailAddress,
    nonce: bytes,
    at: UnixMs,
) -> ProofId:
    """Keep a new proof about *subject*, to be sent to *email*."""
    expires_at = at + purpose.lifetime_ms
    return ProofId(db.execute(OPEN, (purpose, subject, email, nonce, at, expires_at)).get)


def find_proof(db: apsw.Connection, proof_id: ProofId) -> Proof | None:
    """Return the proof, good or not."""
    row = db.execute(FIND, (proof_id,)).fetchone()
    return None if row is None else proof_of(row)


def use_proof(db: apsw.Connection, proof_id: ProofId, purpose: Purpose, at: UnixMs) -> bool:
    """Use the proof up; False if it was used before, has expired, or is good for something else.

    Whether whoever asks knows its link is for the caller to say: `AccountSecrets.is_link_of`.
    """
    db.execute(USE, (proof_id, purpose, at))
    return db.changes() == 1


def guess_proof(db: apsw.Connection, purpose: Purpose, subject: int, at: UnixMs) -> Proof | None:
    """Count a guess at the newest proof about *subject*; None if there is none or too many were.

    Whether the guess is right is for the caller to say: `AccountSecrets.is_code_of`.
    """
    row = db.execute(GUESS, (purpose, subject, at, GUESSES_MAX)).fetchone()
    return None if row is None else proof_of(row)


def end_proofs(db: apsw.Connection, purpose: Purpose, subject: int, at: UnixMs) -> None:
    """Use up every proof about *subject*."""
    db.execute(END, (purpose, subject, at))


def proof_of(row: tuple[Any, ...]) -> Proof:
    """Return the proof that a row of COLUMNS holds."""
    proof_id, purpose, subject, email, nonce, made_at, expires_at, used_at = row
    return Proof(
        proof_id=ProofId(proof_id),
        purpose=Purpose(purpose),
        subject=subject,
        email=EmailAddress(email),
        nonce=nonce,
        made_at=UnixMs(made_at),
        expires_at=UnixMs(expires_at),
        used_at=None if used_at is None else UnixMs(used_at),
    )
