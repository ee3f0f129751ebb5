"""Where the credits of payments go: handed out, taken back, given again, moved by a rotation."""

from typing import Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import Signature, UnixMs, Wallet
from mintscope.core.credits.ledger import CreditAccount
from mintscope.core.credits.rotation import Purchased
from mintscope.core.payments.payment import NewToken, PaidReport, Payment, State, TopUp
from mintscope.core.payments.store import Inconsistent
from mintscope.edges.storage.sqlite.money.credit_book import ADD, BALANCE, OPEN_ACCOUNT

PURCHASED: Final = "SELECT id, holder, entry, frozen, begun_at FROM payment WHERE message_hash = ?"
HAND_OUT: Final = """
UPDATE payment SET account = coalesce(account, ?2), holder = ?2, entry = ?3 WHERE id = ?1
"""
FREEZE: Final = "UPDATE payment SET frozen = ?2 WHERE id = ?1"

ENTER: Final = ADD + "RETURNING id"

# Where the credits of an account went, rotation by rotation, since a moment.  A top-up of a
# token that was rotated before means that token: a thief may have rotated it.
SUCCESSOR: Final = """
WITH RECURSIVE successors (id, rotations) AS (
    SELECT ?1, 0 UNION ALL
    SELECT next.id, rotations + 1
      FROM successors JOIN credit_account AS a ON a.id = successors.id
      JOIN credit_account AS next ON next.id = a.successor AND next.issued_at >= ?2)
SELECT id FROM successors ORDER BY rotations DESC LIMIT 1
"""

PURCHASE: Final = """
SELECT payer, holder, begun_at, rotated_at,
       (SELECT balance FROM credit_account WHERE id = holder) <> credits
  FROM payment WHERE signature = ? AND state = 'issued' AND holder IS NOT NULL
"""
MOVE_HOLDER: Final = "UPDATE payment SET holder = ?2, rotated_at = ?3 WHERE holder = ?1"
# A second rotation of an old token moves nothing, and changes no successor.
SUCCEED: Final = "UPDATE credit_account SET successor = ?2 WHERE id = ?1 AND successor IS NULL"


class PurchasedCredits:
    """The credits of payments over one connection, for one thread."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def move(self, payment: Payment, now: UnixMs) -> None:
        """Hand the credits of *payment* out, or take them back, as its new state demands."""
        if isinstance(payment.purchase, PaidReport):
            return
        row_id, holder, entry, frozen, begun_at = self._db.execute(
            PURCHASED, (payment.message_hash,)
        ).get
        if payment.state is State.ISSUED and entry is None:
            self._hand_out(row_id, payment.purchase, begun_at, now)
        elif payment.state is State.ISSUED and frozen:
            self._enter(holder, "thaw", frozen, now)
            self._db.execute(FREEZE, (row_id, 0))
        elif payment.state is State.FROZEN and entry is not None:
            left = min(payment.purchase.credits, int(self._db.execute(BALANCE, (holder,)).get))
            if left:
                self._enter(holder, "freeze", -left, now)
                self._db.execute(FREEZE, (row_id, left))

    def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return where the credits are that the transaction paid for."""
        row = self._db.execute(PURCHASE, (signature,)).fetchone()
        if row is None:
            return None
        payer, holder, bought_at, rotated_at, is_used = row
        return Purchased(
            payer=Wallet(payer),
            holder=CreditAccount(holder),
            bought_at=UnixMs(bought_at),
            rotated_at=None if rotated_at is None else UnixMs(rotated_at),
            is_used=bool(is_used),
        )

    def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, now: UnixMs
    ) -> int:
        """Move all credits of *holder* to a new account, and their purchases with them."""
        balance = int(self._db.execute(BALANCE, (holder,)).get)
        opened = self._db.execute(OPEN_ACCOUNT, (token_hash, hint, "", now)).get
        if balance:
            self._enter(holder, "rotate", -balance, now)
            self._enter(opened, "rotate", balance, now)
        self._db.execute(MOVE_HOLDER, (holder, opened, now))
        self._db.execute(SUCCEED, (holder, opened))
        return balance

    def _hand_out(
        self, row_id: int, purchase: NewToken | TopUp, begun_at: UnixMs, now: UnixMs
    ) -> None:
        if isinstance(purchase, NewToken):
            opened = (purchase.token_hash, purchase.hint, "", now)
            kind, account = "payment", self._db.execute(OPEN_ACCOUNT, opened).get
        else:  # the token may have been rotated meanwhile
            kind, account = "top_up", self._db.execute(SUCCESSOR, (purchase.account, begun_at)).get
        entry = self._enter(account, kind, purchase.credits, now)
        self._db.execute(HAND_OUT, (row_id, account, entry))

    def _enter(self, account: int, kind: str, delta: int, now: UnixMs) -> int:
        entry = self._db.execute(ENTER, (account, kind, delta, now)).get
        if entry is None:
            raise Inconsistent(f"expected account {account} of a {kind}; there is none")
        return int(entry)
