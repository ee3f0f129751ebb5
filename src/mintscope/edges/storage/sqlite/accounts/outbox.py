"""Outbox on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import Draft, EmailId, EmailKind
from mintscope.core.accounts.mail.outbox import LEASE_MS
from mintscope.core.accounts.proof import ProofId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile

COLUMNS: Final = """
letter.id, letter.kind, letter.recipient, letter.written_at, letter.facts, letter.attempts,
letter.proof, (SELECT nonce FROM proof WHERE proof.id = letter.proof)
"""

WAITING: Final = "sent_at IS NULL AND given_up_at IS NULL"
IS_DUE: Final = f"SELECT EXISTS (SELECT 1 FROM letter WHERE due_at <= ? AND {WAITING})"  # noqa: S608
COUNT_WAITING: Final = f"SELECT count(*) FROM letter WHERE {WAITING}"  # noqa: S608  a constant

# A link that was used, or has expired, would only puzzle whoever gets it.
GIVE_UP_LATE: Final = f"""
UPDATE letter SET given_up_at = ?1, reason = 'its link is not good any more'
 WHERE due_at <= ?1 AND {WAITING}
   AND EXISTS (SELECT 1 FROM proof WHERE proof.id = letter.proof
                AND (used_at IS NOT NULL OR expires_at <= ?1))
"""  # noqa: S608  a constant

IS_OLD: Final = f"SELECT EXISTS (SELECT 1 FROM letter WHERE written_at <= ? AND {WAITING})"  # noqa: S608

GIVE_UP_OLD: Final = f"""
UPDATE letter SET given_up_at = ?1, reason = ?3 WHERE written_at <= ?2 AND {WAITING}
"""  # noqa: S608  a constant

LEASE: Final = f"""
UPDATE letter SET due_at = ?2
 WHERE id IN (SELECT id FROM letter WHERE due_at <= ?1 AND {WAITING} ORDER BY due_at, id LIMIT ?3)
RETURNING {COLUMNS}
"""  # noqa: S608  a constant

SENT: Final = """
UPDATE letter SET sent_at = ?2, attempts = attempts + 1, reason = NULL
 WHERE id = ?1 AND sent_at IS NULL
"""

FAILED: Final = """
UPDATE letter SET attempts = attempts + 1, reason = ?2, due_at = coalesce(?3, due_at),
                  given_up_at = CASE WHEN ?3 IS NULL THEN ?4 END
 WHERE id = ?1 AND sent_at IS NULL AND given_up_at IS NULL
"""

RECENT: Final = f"SELECT {COLUMNS} FROM letter ORDER BY id DESC LIMIT ?"  # noqa: S608  a constant


class SqliteOutbox:
    """Implements Outbox of `accounts.outbox`."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def lease(self, now: UnixMs, *, limit: int) -> Sequence[Draft]:
        """Return letters that are due, oldest first; nobody else gets them for a minute."""
        if not self._file.read(lambda db: db.execute(IS_DUE, (now,)).get):
            return []  # asked twice a second: the write lock is left alone

        def lease(db: apsw.Connection) -> list[Draft]:
            db.execute(GIVE_UP_LATE, (now,))
            rows = db.execute(LEASE, (now, now + LEASE_MS, limit)).fetchall()
            return sorted(map(draft_of, rows), key=lambda draft: draft.letter_id)

        return await self._file.write(lease)

    async def sent(self, letter_id: EmailId, now: UnixMs) -> None:
        """Note that the letter was accepted by the mail server."""
        await self._file.write(lambda db: db.execute(SENT, (letter_id, now)).fetchall())

    async def failed(
        self, letter_id: EmailId, now: UnixMs, *, reason: str, retry_at: UnixMs | None
    ) -> None:
        """Note why it was not, and when to try again; None: never."""
        columns = (letter_id, reason, retry_at, now)
        await self._file.write(lambda db: db.execute(FAILED, columns).fetchall())

    async def give_up(self, now: UnixMs, *, written_before: UnixMs, reason: str) -> int:
        """Give up what was written then or before and was not sent; return how many."""
        if not self._file.read(lambda db: db.execute(IS_OLD, (written_before,)).get):
            return 0

        def give_up(db: apsw.Connection) -> int:
            db.execute(GIVE_UP_OLD, (now, written_before, reason))
            return db.changes()

        return await self._file.write(give_up)

    async def recent(self, *, limit: int) -> Sequence[Draft]:
        """Return the newest letters, sent or not, for the mailbox page of a demo."""
        rows = self._file.read(lambda db: db.execute(RECENT, (limit,)).fetchall())
        return [draft_of(row) for row in rows]

    async def count_waiting(self) -> int:
        """Return how many letters were neither sent nor given up."""
        return int(self._file.read(lambda db: db.execute(COUNT_WAITING).get))


def draft_of(row: tuple[Any, ...]) -> Draft:
    """Return the letter that a row of COLUMNS holds."""
    letter_id, kind, recipient, written_at, facts, attempts, proof_id, nonce = row
    return Draft(
        letter_id=EmailId(letter_id),
        kind=EmailKind(kind),
        recipient=EmailAddress(recipient),
        written_at=UnixMs(written_at),
        facts=msgspec.json.decode(facts, type=dict[str, str]),
        proof_id=None if proof_id is None else ProofId(proof_id),
        nonce=nonce,
        attempts=attempts,
    )
