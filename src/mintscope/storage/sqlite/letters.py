"""Letters as rows: written in the transaction of what they tell of."""

from collections.abc import Mapping
from typing import Final

import apsw
import msgspec

from mintscope.accounts.address import Email
from mintscope.accounts.letter import LetterId, LetterKind
from mintscope.accounts.proof import ProofId
from mintscope.primitives import UnixMs

WRITE: Final = """
INSERT INTO letter (kind, recipient, facts, proof, written_at, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING id
"""


def write_letter(  # noqa: PLR0913, PLR0917 - a row
    db: apsw.Connection,
    kind: LetterKind,
    recipient: Email,
    facts: Mapping[str, str],
    proof: ProofId | None,
    at: UnixMs,
) -> LetterId:
    """Put a letter into the outbox; it is sent once the transaction it is written in commits.

    facts   what its text tells: `letter.compose` says which ones each kind has
    """
    told = msgspec.json.encode(dict(facts)).decode()
    return LetterId(db.execute(WRITE, (kind, recipient, told, proof, at)).get)
