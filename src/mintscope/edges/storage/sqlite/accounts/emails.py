"""EmailRows and OutboxRows on SQLite; the table is called `letter`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import Draft, EmailChanges, EmailId, EmailKind
from mintscope.core.accounts.proof import ProofId, Purpose
from mintscope.edges.storage.sqlite.accounts import proofs
from mintscope.edges.storage.sqlite.accounts.columns import insert, moment, update
from mintscope.edges.storage.sqlite.accounts.proofs import proof_of

COLUMNS: Final = (
    "letter.id, kind, recipient, written_at, facts, attempts, sent_at, given_up_at, reason,"
    f" {proofs.COLUMNS}"
)
COLUMN_COUNT: Final = 9
IS_WAITING: Final = "sent_at IS NULL AND given_up_at IS NULL"
SELECT: Final = f"SELECT {COLUMNS} FROM letter LEFT JOIN proof ON proof.id = letter.proof"  # noqa: S608
GET: Final = f"{SELECT} WHERE letter.id = ?"
WRITTEN_TO: Final = f"{SELECT} WHERE recipient = ? AND kind = ? AND written_at > ?"
WAITING_WITH: Final = f"{SELECT} WHERE proof.purpose = ? AND proof.subject = ? AND {IS_WAITING}"
DUE: Final = f"{SELECT} WHERE due_at <= ? AND {IS_WAITING} ORDER BY due_at, letter.id LIMIT ?"
WRITTEN_BEFORE: Final = f"{SELECT} WHERE written_at <= ? AND {IS_WAITING} LIMIT ?"
NEWEST: Final = f"{SELECT} ORDER BY letter.id DESC LIMIT ?"
COUNT_WAITING: Final = f"SELECT count(*) FROM letter WHERE {IS_WAITING}"  # noqa: S608  a constant
PURGE: Final = "DELETE FROM letter WHERE coalesce(sent_at, given_up_at) < ?"


class SqliteEmailRows:
    """Implements EmailRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def get(self, email_id: EmailId) -> Draft | None:
        """Return one e-mail."""
        return next(iter(_drafts(self._db, GET, email_id)), None)

    def insert(
        self,
        kind: EmailKind,
        recipient: EmailAddress,
        facts: Mapping[str, str],
        proof: ProofId | None,
        at: UnixMs,
    ) -> EmailId:
        """Add an e-mail that is due at once."""
        columns = {
            "kind": kind,
            "recipient": recipient,
            "facts": msgspec.json.encode(dict(facts)).decode(),
            "proof": proof,
            "written_at": at,
            "due_at": at,
        }
        return EmailId(insert(self._db, "letter", columns))

    def update(self, email_id: EmailId, **changes: Unpack[EmailChanges]) -> None:
        """Change columns of an e-mail."""
        update(self._db, "letter", email_id, changes)

    def written_to(
        self, recipient: EmailAddress, kind: EmailKind, since: UnixMs
    ) -> Sequence[Draft]:
        """Return the e-mails of *kind* written to *recipient* after *since*."""
        return _drafts(self._db, WRITTEN_TO, recipient, kind, since)

    def waiting_with(self, purpose: Purpose, subject: int) -> Sequence[Draft]:
        """Return the e-mails that wait with a proof about *subject*."""
        return _drafts(self._db, WAITING_WITH, purpose, subject)

    def purge(self, before: UnixMs) -> None:
        """Delete e-mails sent or given up before then."""
        self._db.execute(PURGE, (before,))


class SqliteOutboxRows:
    """Implements OutboxRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def due(self, now: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails that wait and are due, longest due first."""
        return _drafts(self._db, DUE, now, limit)

    def written_before(self, at: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails that wait and were written at *at* or before."""
        return _drafts(self._db, WRITTEN_BEFORE, at, limit)

    def newest(self, limit: int) -> Sequence[Draft]:
        """Return the newest e-mails, sent or not."""
        return _drafts(self._db, NEWEST, limit)

    def count_waiting(self) -> int:
        """Return how many e-mails were neither sent nor given up."""
        return int(self._db.execute(COUNT_WAITING).get)


def _drafts(db: apsw.Connection, statement: str, *values: object) -> list[Draft]:
    return [_draft_of(row) for row in db.execute(statement, values)]


def _draft_of(row: tuple[Any, ...]) -> Draft:
    email_id, kind, recipient, written_at, facts, attempts, *done, reason = row[:COLUMN_COUNT]
    proof, (sent_at, given_up_at) = row[COLUMN_COUNT:], map(moment, done)
    return Draft(
        email_id=EmailId(email_id),
        kind=EmailKind(kind),
        recipient=EmailAddress(recipient),
        written_at=UnixMs(written_at),
        facts=msgspec.json.decode(facts, type=dict[str, str]),
        proof=None if proof[0] is None else proof_of(proof),
        attempts=attempts,
        sent_at=sent_at,
        given_up_at=given_up_at,
        reason=reason,
    )
