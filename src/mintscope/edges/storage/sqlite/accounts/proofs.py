"""ProofRows on SQLite."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Unpack

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import NewProof, Proof, ProofChanges, ProofId, Purpose
from mintscope.edges.storage.sqlite.accounts.columns import insert, moment, update

COLUMNS: Final = (
    "proof.id, proof.purpose, proof.subject, proof.email, proof.nonce, proof.made_at,"
    " proof.expires_at, proof.used_at, proof.guesses"
)
GET: Final = f"SELECT {COLUMNS} FROM proof WHERE id = ?"  # noqa: S608  a constant
NEWEST: Final = f"""
SELECT {COLUMNS} FROM proof WHERE purpose = ? AND subject = ? ORDER BY id DESC LIMIT 1
"""  # noqa: S608  a constant
USE_UP: Final = """
UPDATE proof SET used_at = ?3 WHERE purpose = ?1 AND subject = ?2 AND used_at IS NULL
"""
DELETE: Final = "DELETE FROM proof WHERE purpose = ? AND subject = ?"
# The text of an e-mail that is still there is made of its proof.
PURGE: Final = """
DELETE FROM proof WHERE min(coalesce(used_at, expires_at), expires_at) < ?
   AND NOT EXISTS (SELECT 1 FROM letter WHERE letter.proof = proof.id)
"""


class SqliteProofRows:
    """Implements ProofRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def get(self, proof_id: ProofId) -> Proof | None:
        """Return one proof, good or not."""
        row = self._db.execute(GET, (proof_id,)).fetchone()
        return None if row is None else proof_of(row)

    def newest(self, purpose: Purpose, subject: int) -> Proof | None:
        """Return the newest proof about *subject*, good or not."""
        row = self._db.execute(NEWEST, (purpose, subject)).fetchone()
        return None if row is None else proof_of(row)

    def insert(self, new: NewProof) -> ProofId:
        """Add a proof."""
        columns = asdict(new) | {"expires_at": new.expires_at}
        return ProofId(insert(self._db, "proof", columns))

    def update(self, proof_id: ProofId, **changes: Unpack[ProofChanges]) -> None:
        """Change columns of a proof."""
        update(self._db, "proof", proof_id, changes)

    def use_up(self, purpose: Purpose, subject: int, at: UnixMs) -> None:
        """Set `used_at` of every proof about *subject* that has none."""
        self._db.execute(USE_UP, (purpose, subject, at))

    def delete(self, purpose: Purpose, subject: int) -> None:
        """Delete every proof about *subject*."""
        self._db.execute(DELETE, (purpose, subject))

    def purge(self, before: UnixMs) -> None:
        """Delete proofs used or expired before then, except those of e-mails that are kept."""
        self._db.execute(PURGE, (before,))


def proof_of(row: Sequence[Any]) -> Proof:
    """Return the proof that a row of COLUMNS holds."""
    proof_id, purpose, subject, email, nonce, made_at, expires_at, used_at, guesses = row
    return Proof(
        proof_id=ProofId(proof_id),
        purpose=Purpose(purpose),
        subject=subject,
        email=EmailAddress(email),
        nonce=nonce,
        made_at=UnixMs(made_at),
        expires_at=UnixMs(expires_at),
        used_at=moment(used_at),
        guesses=guesses,
    )
