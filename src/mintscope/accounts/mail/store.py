"""SQL tables of e-mails, and of the links and codes in them; the table of e-mails is `letter`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from typing_extensions import Unpack

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.mail.email import (
    UNVERIFIED_MAX,
    Draft,
    EmailChanges,
    EmailId,
    EmailKind,
)
from mintscope.accounts.session import EVER, EmailProof, NewProof, ProofChanges, ProofId, Purpose
from mintscope.accounts.store import Columns, Table
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import delete_part
from mintscope.kit.time import DAY_MS

RESETS_MAX: Final = 20  # reset e-mails in a day to an address that has a valid link
# A link counts as valid for RESETS_MAX if at least this time remains until it expires.
GOOD_MS: Final = Purpose.RESET_PASSWORD.lifetime_ms // 2
PROOF: Final = Columns(EmailProof, "proof", proof_id="proof.id")
USE_UP: Final = """
UPDATE proof SET used_at = ?3
 WHERE purpose = ?1 AND subject = ?2 AND used_at IS NULL AND made_at >= ?4
"""
# The purpose is a literal, so that the index of undo links is used.
HOLDS: Final = """
SELECT count(*) FROM proof
 WHERE purpose = 'undo_email' AND email = ? AND subject <> ? AND used_at IS NULL AND expires_at > ?
"""
OLD: Final = "SELECT id FROM letter WHERE coalesce(sent_at, given_up_at) < ? ORDER BY id LIMIT ?"
PURGE: Final = "DELETE FROM letter WHERE id = ?"
# A proof is stored at least as long as its e-mail, whose link and code are derived from it.
OLD_PROOFS: Final = """
SELECT id FROM proof WHERE (used_at < ?1 OR expires_at < ?1)
   AND NOT EXISTS (SELECT 1 FROM letter WHERE proof = proof.id)
 ORDER BY id LIMIT ?2
"""
# Finds proofs for addresses without an account, to which no e-mail was written.
OF_STRANGERS: Final = """
SELECT id FROM proof WHERE purpose = 'reset_password' AND subject = 0 AND expires_at < ?
 ORDER BY id LIMIT ?
"""
PURGE_PROOF: Final = "DELETE FROM proof WHERE id = ?"
# The condition of the index for due e-mails, word for word.
IS_WAITING: Final = "sent_at IS NULL AND given_up_at IS NULL"
DUE: Final = f"due_at <= ? AND {IS_WAITING} ORDER BY due_at, letter.id LIMIT ?"
COUNT_WAITING: Final = f"SELECT count(*) FROM letter WHERE {IS_WAITING}"  # noqa: S608  a constant


class SqlProofRows(Table[ProofId, EmailProof]):
    """Reads and writes the links and codes that e-mails contain, inside one transaction."""

    NAME = "proof"
    COLUMNS = PROOF
    SOURCE = "proof WHERE"

    def update(self, proof_id: ProofId, /, **changes: Unpack[ProofChanges]) -> None:
        """Set the columns of the row of a link or code that *changes* names."""
        self._update(proof_id, changes)

    def newest(self, purpose: Purpose, subject: int) -> EmailProof | None:
        """Return the newest link for *purpose* about *subject*, valid or not, or None."""
        condition = "purpose = ? AND subject = ? ORDER BY id DESC LIMIT 1"
        return self._first(condition, purpose, subject)

    def insert(self, new: NewProof) -> ProofId:
        """Add a link or code to send by e-mail."""
        return self._add(asdict(new) | {"expires_at": new.expires_at})

    def use_up(self, purpose: Purpose, subject: int, at: UnixMs, *, since: UnixMs = EVER) -> None:
        """Invalidate unused links and codes for *purpose* about *subject*.

        since   only those that were made at this time or later
        """
        self._db.execute(USE_UP, (purpose, subject, at, since))

    def forget(self, purpose: Purpose, subject: int) -> None:
        """Delete every link and code for *purpose* about the application or user *subject*."""
        self._db.execute("DELETE FROM proof WHERE purpose = ? AND subject = ?", (purpose, subject))

    def holds(self, email: EmailAddress, subject: int, at: UnixMs) -> bool:
        """Return whether an undo link can restore *email* to an account other than *subject*."""
        return bool(self._db.execute(HOLDS, (email, subject, at)).get)


class SqlEmailRows(Table[EmailId, Draft]):
    """Reads and writes e-mails, inside one transaction."""

    NAME = "letter"
    COLUMNS = Columns(Draft, "letter", email_id="letter.id", proof=PROOF)
    SOURCE = "letter LEFT JOIN proof ON proof.id = letter.proof WHERE"

    def insert(
        self,
        kind: EmailKind,
        recipient: EmailAddress,
        facts: Mapping[str, str],
        proof: ProofId | None,
        at: UnixMs,
    ) -> EmailId:
        """Add an e-mail, due at *at*; *facts* are described at Draft."""
        new_row = {"kind": kind, "recipient": recipient, "facts": dict(facts), "proof": proof}
        return self._add({**new_row, "written_at": at, "due_at": self._shared(at)})

    def update(self, email_id: EmailId, /, **changes: Unpack[EmailChanges]) -> None:
        """Set the columns of an e-mail that *changes* names."""
        # All processes compare due times, so they are times of the shared clock.
        if "due_at" in changes:
            changes["due_at"] = self._shared(changes["due_at"])
        self._update(email_id, changes)

    def written_to(
        self, recipient: EmailAddress, kind: EmailKind, since: UnixMs
    ) -> Sequence[Draft]:
        """Return the e-mails of *kind* written to *recipient* after *since*."""
        return self._all("recipient = ? AND kind = ? AND written_at > ?", recipient, kind, since)

    def tell_owner(
        self, owner: User, kind: EmailKind, facts: Mapping[str, str], at: UnixMs
    ) -> None:
        """Write an e-mail to *owner* about a change in the account.

        If the address is not verified, at most UNVERIFIED_MAX e-mails of a kind are written in a
        day.
        """
        if self.may_write(owner, kind, at):
            self.insert(kind, owner.email, facts, None, at)

    def may_write(self, owner: User, kind: EmailKind, at: UnixMs) -> bool:
        """Return whether an e-mail of *kind* may be written to *owner*.

        An unverified address gets at most UNVERIFIED_MAX e-mails of one kind in 24 hours.
        """
        if owner.verified_at is not None:
            return True
        return len(self.written_to(owner.email, kind, UnixMs(at - DAY_MS))) < UNVERIFIED_MAX

    def may_write_reset(self, recipient: EmailAddress, at: UnixMs) -> bool:
        """Return whether the limit allows another link for a new password to *recipient*.

        The limit applies only if an earlier link stays valid for GOOD_MS or longer, so that
        strangers cannot lock out the owner.
        """
        written = self.written_to(recipient, EmailKind.RESET_PASSWORD, UnixMs(at - DAY_MS))
        has_good_link = any(
            draft.given_up_at is None
            and draft.proof is not None
            and draft.proof.is_good(Purpose.RESET_PASSWORD, UnixMs(at + GOOD_MS))
            for draft in written
        )
        return len(written) < RESETS_MAX or not has_good_link

    def waiting_with(self, purpose: Purpose, subject: int) -> Sequence[Draft]:
        """Return unsent e-mails with a link or code for *purpose*, about the row *subject*.

        subject   ID of the application or user
        """
        condition = f"proof.purpose = ? AND proof.subject = ? AND {IS_WAITING}"
        return self._all(condition, purpose, subject)

    def purge(self, before: UnixMs, now: UnixMs, limit: int) -> bool:
        """Delete e-mails sent or given up before *before*, and links used or expired before then.

        A link is kept while its e-mail is stored.  Links for addresses without an account are
        deleted if they have expired by *now*.  At most *limit* rows of each kind are deleted.
        Return whether more may be left.
        """
        return any(
            [
                # In a list, so that all three run: a generator would stop at the first True.
                delete_part(self._db, OLD, PURGE, before, limit),
                delete_part(self._db, OLD_PROOFS, PURGE_PROOF, before, limit),
                delete_part(self._db, OF_STRANGERS, PURGE_PROOF, now, limit),
            ]
        )

    def due(self, now: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* due e-mails, the longest due first."""
        return self._all(DUE, self._shared(now), limit)

    def claim(self, now: UnixMs, limit: int) -> Sequence[Draft]:
        """Lock and return up to *limit* due e-mails that no other transaction has locked."""
        statement = f"{DUE} /* FOR UPDATE OF {self.NAME} SKIP LOCKED */"
        return self._all(statement, self._shared(now), limit)

    def written_before(self, at: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* waiting e-mails written at *at* or earlier, in any order."""
        return self._all(f"written_at <= ? AND {IS_WAITING} LIMIT ?", at, limit)

    def newest(self, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails, sent or not, newest first."""
        # SOURCE ends with WHERE, so a condition must follow.
        return self._all("TRUE ORDER BY letter.id DESC LIMIT ?", limit)

    def count_waiting(self) -> int:
        """Return the number of e-mails that were neither sent nor given up yet."""
        return int(self._db.execute(COUNT_WAITING).get)
