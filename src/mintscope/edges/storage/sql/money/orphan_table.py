"""The table of orphans: payments of ours on chain that have no row."""

from collections.abc import Sequence
from typing import Final

import msgspec

from mintscope.base.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.core.accounts.audit import Actor
from mintscope.core.payments.books.orphans import Acknowledgement, Orphan
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.storage.database import Database, marks

NOTE: Final = """
INSERT INTO orphan (signature, payer, amount, asset, bought, found_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
SETTLED: Final = """
SELECT signature FROM orphan WHERE acknowledged_at IS NOT NULL AND signature IN ({marks})
"""
OPEN: Final = """
SELECT signature, payer, amount, asset, bought, found_at FROM orphan
 WHERE acknowledged_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
 ORDER BY found_at, signature
"""
FIND: Final = """
SELECT acknowledged_at IS NOT NULL,
       EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
  FROM orphan WHERE signature = ?
"""
ACKNOWLEDGE: Final = "UPDATE orphan SET acknowledged_at = ?2, note = ?3 WHERE signature = ?1"
TELL: Final = """
INSERT INTO account_event (at, actor, action, subject, detail)
VALUES (?, ?, 'acknowledged', ?, ?)
"""


class OrphanTable:
    """The orphans over one connection; what writes is called inside `transaction(db)`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, orphans: Sequence[Orphan]) -> list[Signature]:
        """Keep *orphans*; return those that are settled."""
        for each in orphans:
            found = (each.payer, each.amount, each.asset, each.bought, each.found_at)
            row = (each.signature, *found)
            self._db.execute(NOTE, row)
        names = [each.signature for each in orphans]
        settled = self._db.execute(SETTLED.format(marks=marks(names)), names)
        return [Signature(str(found)) for (found,) in settled]

    def open(self) -> list[Orphan]:
        """Return those that are neither settled nor issued."""
        return [
            Orphan(
                signature=Signature(str(signature)),
                payer=None if payer is None else Wallet(str(payer)),
                amount=None if amount is None else int(amount),
                asset=None if asset is None else Mint(str(asset)),
                bought=None if bought is None else Resource(str(bought)),
                found_at=UnixMs(int(found_at)),
            )
            for signature, payer, amount, asset, bought, found_at in self._db.execute(OPEN)
        ]

    def acknowledge(
        self, signature: Signature, note: str, by: Actor, now: UnixMs
    ) -> Acknowledgement:
        """Settle an orphan for good."""
        found = self._db.execute(FIND, (signature,)).fetchone()
        if found is None:
            return Acknowledgement.UNKNOWN
        is_settled, has_row = found
        if is_settled:
            return Acknowledgement.DONE_BEFORE
        if has_row:
            return Acknowledgement.HAS_ROW
        self._db.execute(ACKNOWLEDGE, (signature, now, note))
        detail = msgspec.json.encode({"note": note}).decode()
        self._db.execute(TELL, (now, by, f"payment:{signature}", detail))
        return Acknowledgement.DONE
