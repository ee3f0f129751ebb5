"""Where the credits of payments go: handed out, taken back, given again, moved by a rotation."""

from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.core.credits.rotation import Purchased, RotationDenied, decide
from mintscope.core.payments.payment import NewToken, PaidReport, Payment, State, TopUp
from mintscope.core.payments.store import Inconsistent
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.money.credit_statements import ADD, LOCKED_BALANCE, OPEN_ACCOUNT

PURCHASED: Final = "SELECT id, holder, entry, frozen, begun_at FROM payment WHERE message_hash = ?"
HAND_OUT: Final = """
UPDATE payment SET account = coalesce(account, ?2), holder = ?2, entry = ?3 WHERE id = ?1
"""
FREEZE: Final = "UPDATE payment SET frozen = ?2 WHERE id = ?1"

ENTER: Final = ADD + "RETURNING id"

# Where the credits of an account went, rotation by rotation, since a moment.  A top-up of a
# token that was rotated before means that token: a thief may have rotated it.  What was bought for
# an agent goes to the person who has claimed it.
SUCCESSOR: Final = """
WITH RECURSIVE successors (id, rotations) AS (
    SELECT CAST(?1 AS bigint), 0 UNION ALL
    SELECT next.id, rotations + 1
      FROM successors JOIN credit_account AS a ON a.id = successors.id
      JOIN credit_account AS next ON next.id = a.successor
       AND (next.issued_at >= ?2 OR a.owner IS NOT NULL))
SELECT id FROM successors ORDER BY rotations DESC LIMIT 1
"""

PURCHASE: Final = """
SELECT payer, holder, begun_at, rotated_at,
       (SELECT balance FROM credit_account WHERE id = holder) <> credits
  FROM payment WHERE signature = ? AND state = 'issued' AND holder IS NOT NULL
"""
MOVE_HOLDER: Final = """
UPDATE payment SET holder = ?2, rotated_at = ?3 WHERE holder = ?1 AND payer = coalesce(?4, payer)
"""
SUCCESSION: Final = "SELECT balance, successor FROM credit_account WHERE id = ? /* FOR UPDATE */"
MOVED_TO: Final = """
SELECT delta FROM credit_entry
 WHERE kind = 'rotate' AND kind <> 'spend'  -- said, for the index that has no spends
   AND account = (SELECT id FROM credit_account WHERE token_hash = ?)
 ORDER BY id LIMIT 1
"""
SUCCEED: Final = "UPDATE credit_account SET successor = ?2 WHERE id = ?1"
OPENED_BY: Final = """
UPDATE credit_account SET wallet = ?3,
       root = (SELECT coalesce(root, id) FROM credit_account WHERE id = ?2)
 WHERE id = ?1
"""
# A user cannot lose an account.  A purchase for one that was deleted meanwhile is the payer's.
IS_OWNED: Final = """
SELECT a.owner IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM "user" AS u JOIN credit_entry AS e ON e.at >= u.removed_at
      JOIN payment AS p ON p.entry = e.id
     WHERE u.id = a.owner AND p.signature = ?2)
  FROM credit_account AS a WHERE a.id = ?1
"""
MOVED_ON: Final = "UPDATE credit_account SET wallet = NULL WHERE id = ?"

# How many credits of an account the purchases of a wallet brought and are left. The oldest are
# spent first, so what is left is the newest. A purchase whose credits were moved brought nothing
# to this account any more. Spends are not in the index that makes this fast.
PROVEN: Final = """
WITH received (id, wallet, credits) AS (
    SELECT e.id, CASE e.kind WHEN 'rotate' THEN a.wallet ELSE p.payer END,
           CASE WHEN p.id IS NULL THEN e.delta
                WHEN p.holder = a.id THEN e.delta - p.frozen ELSE 0 END
      FROM credit_account AS a
      JOIN credit_entry AS e ON e.account = a.id
      LEFT JOIN payment AS p ON p.entry = e.id
     WHERE a.id = ?1 AND e.kind <> 'spend'
       AND e.kind IN ('payment', 'top_up', 'grant', 'rotate') AND e.delta > 0),
left_of (wallet, credits, at_most) AS (
    SELECT wallet, credits,
           (SELECT balance FROM credit_account WHERE id = ?1) - coalesce(sum(credits) OVER (
               ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0)
      FROM received)
SELECT coalesce(sum(CASE WHEN at_most < 0 THEN 0
                         WHEN credits < at_most THEN credits ELSE at_most END), 0)
  FROM left_of WHERE wallet = ?2
"""


BOUGHT_BY: Final = """
SELECT DISTINCT a.id, a.balance
  FROM payment AS p JOIN credit_account AS a ON a.id = p.holder
 WHERE p.payer = ? AND p.holder IS NOT NULL AND p.state = 'issued'
   AND a.owner IS NULL AND a.balance > 0
 ORDER BY a.balance DESC, a.id LIMIT 20
"""


class PurchasedCredits:
    """The credits of payments over one connection, for one thread."""

    def __init__(self, db: Database) -> None:
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
            left = min(
                payment.purchase.credits, int(self._db.execute(LOCKED_BALANCE, (holder,)).get)
            )
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

    def find_credits(self, wallet: Wallet) -> CreditAccount | None:
        """Return the account with most credits of which all that are left are of *wallet*."""
        for account, balance in self._db.execute(BOUGHT_BY, (wallet,)):
            if int(self._db.execute(PROVEN, (account, wallet)).get) == balance:
                return CreditAccount(account)
        return None

    def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new account, and their purchases with them.

        Credits moved to the same token before, by any process, are returned again.
        """
        if (moved := self._moved_to(token_hash)) is not None:
            return moved
        balance, successor = self._db.execute(SUCCESSION, (holder,)).get
        if successor is not None:
            return RotationDenied.ROTATED
        if not balance:
            return RotationDenied.EMPTY
        opened = self._move(holder, (token_hash, hint, "", now), credit_count=balance, wallet=None)
        self._db.execute(SUCCEED, (holder, opened))
        return int(balance)

    def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, now: UnixMs
    ) -> int | RotationDenied:
        """Move what the payer of *purchase* proves to a new account; once, as `rotate` does."""
        if (moved := self._moved_to(token_hash)) is not None:
            return moved
        purchased = self.find_purchase(purchase)
        if purchased is None:
            return RotationDenied.EMPTY
        holder = purchased.holder
        wallet = purchased.payer
        if self._db.execute(IS_OWNED, (holder, purchase)).get:
            return RotationDenied.EMPTY
        self._db.execute(LOCKED_BALANCE, (holder,))
        proven = int(self._db.execute(PROVEN, (holder, wallet)).get)
        if not proven:
            return RotationDenied.EMPTY
        denied = decide(purchased, now=now)
        if denied is not None:
            return denied
        self._move(holder, (token_hash, hint, "", now), credit_count=proven, wallet=wallet)
        self._db.execute(MOVED_ON, (holder,))
        return proven

    def _moved_to(self, token_hash: CredentialHash) -> int | None:
        row = self._db.execute(MOVED_TO, (token_hash,)).fetchone()
        return None if row is None else int(row[0])

    def _move(
        self,
        holder: CreditAccount,
        opening: tuple[CredentialHash, str, str, UnixMs],
        *,
        credit_count: int,
        wallet: Wallet | None,
    ) -> int:
        """Move credits of *holder* to the account of *opening*, with the purchases of *wallet*.

        wallet   None: with all purchases
        """
        now = opening[-1]
        opened = int(self._db.execute(OPEN_ACCOUNT, opening).get)
        self._enter(holder, "rotate", -credit_count, now)
        self._enter(opened, "rotate", credit_count, now)
        self._db.execute(MOVE_HOLDER, (holder, opened, now, wallet))
        self._db.execute(OPENED_BY, (opened, holder, wallet))
        return opened

    def _hand_out(
        self, row_id: int, purchase: NewToken | TopUp, begun_at: UnixMs, now: UnixMs
    ) -> None:
        if isinstance(purchase, NewToken):
            opened = (purchase.token_hash, purchase.hint, "", now)
            kind = "payment"
            account = self._db.execute(OPEN_ACCOUNT, opened).get
        else:  # the token may have been rotated meanwhile
            kind = "top_up"
            account = self._db.execute(SUCCESSOR, (purchase.account, begun_at)).get
        entry = self._enter(account, kind, purchase.credits, now)
        self._db.execute(HAND_OUT, (row_id, account, entry))

    def _enter(self, account: int, kind: str, delta: int, now: UnixMs) -> int:
        entry = self._db.execute(ENTER, (account, kind, delta, now)).get
        if entry is None:
            raise Inconsistent(f"expected account {account} of a {kind}; there is none")
        return int(entry)
