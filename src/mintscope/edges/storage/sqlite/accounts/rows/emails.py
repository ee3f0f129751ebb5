"""Letters as rows: written in the transaction of what they tell of."""

from collections.abc import Mapping
from typing import Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailId, EmailKind
from mintscope.core.accounts.proof import ProofId, Purpose
from mintscope.core.accounts.user import User

WRITE: Final = """
INSERT INTO letter (kind, recipient, facts, proof, written_at, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING id
"""

UNVERIFIED_MAX: Final = 5  # letters of a kind in a day, to a mailbox that may be a stranger's

IS_ENOUGH: Final = """
SELECT EXISTS (SELECT 1 FROM user WHERE id = ?1 AND verified_at IS NULL)
   AND (SELECT count(*) FROM letter WHERE recipient = ?2 AND kind = ?3 AND written_at > ?4) >= ?5
"""

RESETS_MAX: Final = 20  # in a day, to a mailbox that has a good link already
GOOD_MS: Final = Purpose.RESET_PASSWORD.lifetime_ms // 2  # what must be left of that link's time

HAS_RESETS: Final = """
SELECT (SELECT count(*) FROM letter WHERE recipient = ?1 AND kind = ?2 AND written_at > ?3) >= ?4
   AND EXISTS (SELECT 1 FROM letter JOIN proof ON proof.id = letter.proof
                WHERE recipient = ?1 AND kind = ?2 AND written_at > ?3
                  AND given_up_at IS NULL AND used_at IS NULL AND expires_at > ?5)
"""


def write_letter(  # noqa: PLR0913, PLR0917 - a row
    db: apsw.Connection,
    kind: EmailKind,
    recipient: EmailAddress,
    facts: Mapping[str, str],
    proof: ProofId | None,
    at: UnixMs,
) -> EmailId:
    """Put a letter into the outbox; it is sent once the transaction it is written in commits.

    facts   what its text tells: `letter.compose` says which ones each kind has
    """
    told = msgspec.json.encode(dict(facts)).decode()
    return EmailId(db.execute(WRITE, (kind, recipient, told, proof, at)).get)


def tell_owner(
    db: apsw.Connection, owner: User, kind: EmailKind, facts: Mapping[str, str], at: UnixMs
) -> None:
    """Write to a person of what was done in the account, if it may be; inside a transaction."""
    if may_write(db, owner, kind, at):
        write_letter(db, kind, owner.email, facts, None, at)


def may_write(db: apsw.Connection, owner: User, kind: EmailKind, at: UnixMs) -> bool:
    """Say whether a person may be written to, who asked for it in the account.

    A few times a day only while the mailbox is not verified: whoever signed up with a stranger's
    address must not be able to flood the stranger.
    """
    asked = (owner.user_id, owner.email, kind, at - DAY_MS, UNVERIFIED_MAX)
    return not db.execute(IS_ENOUGH, asked).get


def may_write_reset(db: apsw.Connection, recipient: EmailAddress, at: UnixMs) -> bool:
    """Say whether a link to set a new password may be written to *recipient*.

    Many strangers may ask for it, so there is an end; but then the owner has a link of theirs that
    is good: nobody is locked out, however many ask.
    """
    asked = (recipient, EmailKind.RESET_PASSWORD, at - DAY_MS, RESETS_MAX, at + GOOD_MS)
    return not db.execute(HAS_RESETS, asked).get
