"""Purchases, budgets and searches of payments in SQL."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mintscope.credits.rotation import Purchased, RotationDenied, decide
from mintscope.credits.statements import ADD, LOCKED_BALANCE, OPEN_ACCOUNT
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.sql.database import Database, marks
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments import ports
from mintscope.payments.payment import NewToken, PaidReport, Payment, Place, State, TopUp
from mintscope.payments.protocol.envelope import RefusalReason, Refused
from mintscope.payments.search import Kept, KeptOrphan, KeptPayment, Wanted

PURCHASED: Final = "SELECT id, holder, entry, frozen FROM payment WHERE message_hash = ?"
HAND_OUT: Final = """
UPDATE payment SET account = coalesce(account, ?2), holder = ?2, entry = ?3 WHERE id = ?1
"""
FREEZE: Final = "UPDATE payment SET frozen = ?2 WHERE id = ?1"

ENTER: Final = ADD + "RETURNING id"

# Follows the credits of an account through its rotations, all of which are newer than the payment:
# a thief may have rotated the token, so a top-up of a rotated token is not begun.
# A purchase for an agent goes to the person who has claimed the agent.
SUCCESSOR: Final = """
WITH RECURSIVE successors (id, rotations) AS (
    SELECT CAST(?1 AS bigint), 0 UNION ALL
    SELECT a.successor, rotations + 1
      FROM successors JOIN credit_account AS a ON a.id = successors.id
     WHERE a.successor IS NOT NULL)
SELECT id FROM successors ORDER BY rotations DESC LIMIT 1
"""
IS_ROTATED: Final = """
SELECT EXISTS (
    SELECT 1 FROM credit_account WHERE id = ? AND successor IS NOT NULL AND owner IS NULL)
"""
IS_REMOVED: Final = """
SELECT EXISTS (
    SELECT 1 FROM credit_account AS a JOIN "user" AS u ON u.id = a.owner
     WHERE a.id = ? AND u.removed_at IS NOT NULL)
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
# Credits of a user's account cannot be claimed.  If the user was deleted before a purchase was
# issued, the purchase belongs to its payer.
IS_OWNED: Final = """
SELECT a.owner IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM "user" AS u JOIN credit_entry AS e ON e.at >= u.removed_at
      JOIN payment AS p ON p.entry = e.id
     WHERE u.id = a.owner AND p.signature = ?2)
  FROM credit_account AS a WHERE a.id = ?1
"""
MOVED_ON: Final = "UPDATE credit_account SET wallet = NULL WHERE id = ? AND wallet = ?"

# The unspent credits of an account that come from purchases of a wallet.  The oldest credits are
# spent first, so the newest are left.  A purchase whose credits were moved away does not count.
# The index that makes this fast contains no spends.
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


# `holder IS NOT NULL` follows from the join, but without it the index is not used.
BOUGHT_BY: Final = """
SELECT DISTINCT a.id, a.balance
  FROM payment AS p JOIN credit_account AS a ON a.id = p.holder
 WHERE p.payer = ? AND p.holder IS NOT NULL AND p.state = 'issued'
   AND a.owner IS NULL AND a.balance > 0
 ORDER BY a.balance DESC, a.id LIMIT 20
"""


class PurchasedCredits:
    """Delivers, freezes and moves the credits of payments; for one connection and one thread."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def move(self, payment: Payment, now: UnixMs) -> None:
        """Deliver, freeze or release the credits of *payment*, as its new state requires."""
        if isinstance(payment.purchase, PaidReport):
            return
        row_id, holder, entry, frozen = self._db.execute(PURCHASED, (payment.message_hash,)).get
        if payment.state is State.ISSUED and entry is None:
            self._hand_out(row_id, payment.purchase, now)
        elif payment.state is State.ISSUED and frozen:
            self._enter(holder, "thaw", frozen, now)
            self._db.execute(FREEZE, (row_id, 0))
        elif payment.state is State.FROZEN and entry is not None:
            # Spent credits cannot be taken back.
            left = min(
                payment.purchase.credits, int(self._db.execute(LOCKED_BALANCE, (holder,)).get)
            )
            if left:
                self._enter(holder, "freeze", -left, now)
                self._db.execute(FREEZE, (row_id, left))

    def is_rotated(self, account: CreditAccount) -> bool:
        """Return whether the credits of *account* were moved to a new credit token.

        For the account of a user the result is False.
        """
        return bool(self._db.execute(IS_ROTATED, (account,)).get)

    def is_removed(self, account: CreditAccount) -> bool:
        """Return whether credits for *account* would go to the account of a deleted user.

        If the credits of *account* were moved, the account that has them now counts.
        """
        last = self._db.execute(SUCCESSOR, (account,)).get
        return bool(self._db.execute(IS_REMOVED, (last,)).get)

    def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return the issued credit purchase of transaction *signature*, or None if not found."""
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
        """Return the account with the most credits of which *wallet* has bought all.

        Only 20 accounts with purchases by *wallet* are checked: those with the most credits.
        Return None if there is no such account.
        """
        for account, balance in self._db.execute(BOUGHT_BY, (wallet,)):
            if int(self._db.execute(PROVEN, (account, wallet)).get) == balance:
                return CreditAccount(account)
        return None

    def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder*, and their purchases, to a new account.

        Return the number of credits.  If credits were moved to the token of *token_hash* before,
        move nothing, and return the number of those credits.  If the credits cannot be moved,
        return the reason.

        token_hash, hint    the hash and the hint of the credit token of the new account
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
        """Move the unspent credits that the payer of *purchase* bought to a new credit token.

        They are moved from the account that now has the credits of *purchase*.  Return the number
        of credits, or the reason why none can be moved.  If credits were moved to this token
        before, move nothing, and return the number of those credits.

        token_hash   the hash of the new token
        hint         the last eight characters of the new token
        """
        if (moved := self._moved_to(token_hash)) is not None:
            return moved
        purchased = self.find_purchase(purchase)
        if purchased is None:
            return RotationDenied.EMPTY
        holder = purchased.holder
        wallet = purchased.payer
        if self._db.execute(IS_OWNED, (holder, purchase)).get:
            return RotationDenied.EMPTY
        # Locks the account: its balance must not change between PROVEN and the move.
        self._db.execute(LOCKED_BALANCE, (holder,))
        proven = int(self._db.execute(PROVEN, (holder, wallet)).get)
        if not proven:
            return RotationDenied.EMPTY
        denied = decide(purchased, now=now)
        if denied is not None:
            return denied
        self._move(holder, (token_hash, hint, "", now), credit_count=proven, wallet=wallet)
        self._db.execute(MOVED_ON, (holder, wallet))
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
        """Move *credit_count* credits of *holder* to a new account; return the id of that account.

        opening    credential hash, hint, note and time of the new account
        wallet     the payer whose purchases move with the credits; None: all purchases move
        """
        now = opening[-1]
        opened = int(self._db.execute(OPEN_ACCOUNT, opening).get)
        self._enter(holder, "rotate", -credit_count, now)
        self._enter(opened, "rotate", credit_count, now)
        self._db.execute(MOVE_HOLDER, (holder, opened, now, wallet))
        self._db.execute(OPENED_BY, (opened, holder, wallet))
        return opened

    def _hand_out(self, row_id: int, purchase: NewToken | TopUp, now: UnixMs) -> None:
        if isinstance(purchase, NewToken):
            opened = (purchase.token_hash, purchase.hint, "", now)
            kind = "payment"
            account = self._db.execute(OPEN_ACCOUNT, opened).get
        else:  # the token may have been rotated after the payment began
            kind = "top_up"
            account = self._db.execute(SUCCESSOR, (purchase.account,)).get
        entry = self._enter(account, kind, purchase.credits, now)
        self._db.execute(HAND_OUT, (row_id, account, entry))

    def _enter(self, account: int, kind: str, delta: int, now: UnixMs) -> int:
        entry = self._db.execute(ENTER, (account, kind, delta, now)).get
        if entry is None:
            raise ports.Inconsistent(f"expected account {account} of a {kind}; there is none")
        return int(entry)


COLUMNS: Final = """
       p.signature, p.payer, p.resource, p.amount, p.paid, p.asset, p.credits,
       coalesce(p.hint, a.hint, ''), p.state, p.reason, p.final, p.frozen, p.begun_at,
       p.resolved_at, h.hint, h.owner, h.balance, p.worth
"""
JOINS: Final = """
  LEFT JOIN credit_account AS a ON a.id = p.account
  LEFT JOIN credit_account AS h ON h.id = p.holder
"""
LATEST: Final[Place] = (UnixMs(2**63 - 1), Signature(""))  # after every payment
# The payments of an account are those that paid into it, and those whose credits it now holds.
PAYMENTS: Final = """
WITH account (id) AS (
    SELECT id FROM credit_account WHERE id IN ({accounts}) UNION
    SELECT id FROM credit_account WHERE hint = ? AND hint <> ''),
found (id) AS (
    SELECT id FROM payment WHERE signature IN ({signatures}) UNION
    SELECT id FROM payment WHERE account IN (SELECT id FROM account) UNION
    SELECT id FROM payment WHERE holder IN (SELECT id FROM account) UNION
    SELECT id FROM (SELECT id FROM payment WHERE payer IN ({payers})
                     ORDER BY begun_at DESC, signature DESC LIMIT ?) AS newest)
SELECT {columns} FROM found JOIN payment AS p ON p.id = found.id {joins}
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?
"""
NEWEST: Final = """
SELECT {columns} FROM payment AS p {joins}
 WHERE {condition} AND (p.begun_at < ?1 OR (p.begun_at = ?1 AND p.signature < ?2))
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?3
"""
TAKINGS: Final = f"""
SELECT begun_at / {DAY_MS}, asset, credits, count(*), CAST(sum(paid) AS bigint), count(worth),
       CAST(coalesce(sum(worth), 0) AS bigint)
  FROM payment
 WHERE begun_at >= ? AND state = 'issued'
 GROUP BY 1, 2, 3 ORDER BY 1 DESC, 3 DESC, 2
"""  # noqa: S608  a constant
ORPHANS: Final = """
SELECT signature, payer, amount, asset, bought, found_at, acknowledged_at, note FROM orphan
 WHERE (signature IN ({signatures}) OR payer IN ({payers}))
   AND NOT EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
 ORDER BY found_at DESC, signature LIMIT ?
"""
# Two of these tables never lose a row, so their highest id is their number of rows.  On PostgreSQL
# it may be slightly higher, because an insert that is rolled back leaves a gap.
COUNTS: Final = """
SELECT (SELECT coalesce(max(id), 0) FROM payment), (SELECT count(*) FROM orphan),
       (SELECT coalesce(max(id), 0) FROM credit_account)
"""


def search(db: Database, wanted: Wanted) -> Kept:
    """Return the payments and orphans that match *wanted*; call this in a read transaction."""
    places = {
        "accounts": marks(wanted.accounts),
        "signatures": marks(wanted.signatures),
        "payers": marks(wanted.payers),
        "columns": COLUMNS,
        "joins": JOINS,
    }
    payments = db.execute(
        PAYMENTS.format(**places),
        (
            *wanted.accounts,
            wanted.hint or "",
            *wanted.signatures,
            *wanted.payers,
            wanted.limit,
            wanted.limit,
        ),
    )
    found = [kept_payment(row) for row in payments]
    values = (*wanted.signatures, *wanted.payers, wanted.limit)
    orphans = [KeptOrphan(*row) for row in db.execute(ORPHANS.format(**places), values)]
    payment_count, orphan_count, token_count = db.execute(COUNTS).get
    return Kept(
        payments=found,
        orphans=orphans,
        payment_count=payment_count,
        orphan_count=orphan_count,
        token_count=token_count,
    )


def newest(state: State | None) -> str:
    """Return the SQL statement that finds the newest payments in *state* (None: any).

    Its parameters are a time, a signature and the limit.  It finds payments that began before the
    time, and those that began at the time and have a lower signature.
    """
    condition = "TRUE"
    if state is State.ISSUED:
        condition = "p.state = 'issued'"
    elif state is not None:  # repeats the condition of the index, without which it is not used
        condition = f"p.state = '{state.value}' AND p.state <> 'issued'"
    return NEWEST.format(columns=COLUMNS, joins=JOINS, condition=condition)


def kept_payment(row: Sequence[Any]) -> KeptPayment:
    """Return the payment in *row*, which has the columns COLUMNS."""
    *values, hint, owner, balance, worth = row
    holder = None if balance is None else {"hint": hint, "owner": owner, "balance": balance}
    fields = zip(KeptPayment.__struct_fields__, (*values, holder, worth), strict=True)
    return msgspec.convert(dict(fields), KeptPayment, strict=False)  # 0 and 1 are booleans


SALES_ARE_CLOSED: Final = "SELECT EXISTS (SELECT 1 FROM sales_stop)"

KEY_IS_TAKEN: Final = """
SELECT EXISTS (SELECT 1 FROM payment WHERE key_hash = ? AND state <> 'failed')
"""

QUOTE_IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM payment WHERE quote = ?)"

# The sum of the payer's payments that the simulation may not have seen.  A payment without a
# stored token counts for every token.  Each of the two parts has its own index; a pending payment
# is not resolved, so none counts twice.
RESERVED: Final = """
SELECT (SELECT coalesce(sum(amount), 0) FROM payment
         WHERE state = 'pending' AND payer = ?1 AND coalesce(asset, ?3) = ?3)
     + (SELECT coalesce(sum(amount), 0) FROM payment
         WHERE resolved > ?2 AND payer = ?1 AND coalesce(asset, ?3) = ?3)
"""

_CONDUCT: Final = """
SELECT reverted.n, pending.n,
       (SELECT count(*) FROM (SELECT 1 FROM payment
         WHERE state = 'issued' AND resolved_at > ?1 AND {who} = ?2 LIMIT {limit}) AS sold),
       reverted.fees + pending.fees,
       (SELECT count(*) FROM (SELECT 1 FROM payment
         WHERE state = 'issued' AND resolved_at > ?3 AND {who} = ?2 LIMIT {today}) AS sold_today),
       {reverted_today}
  FROM (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE reason = 'transaction_failed' AND resolved_at > ?1 AND {who} = ?2) AS reverted,
       (SELECT count(*) AS n, coalesce(sum(fee_lamports), 0) AS fees FROM payment
         WHERE state = 'pending' AND {who} = ?2) AS pending
"""
SOLD_MAX: Final = 10_000  # purchases within an hour are counted up to this number
SOLD_TODAY_MAX: Final = 1_000  # purchases within a day are counted up to this number
_LIMITS: Final = {"limit": SOLD_MAX, "today": SOLD_TODAY_MAX}
# The limit is one above SOLD_TODAY_MAX, so that reverted payments can outnumber the purchases.
_REVERTED_TODAY: Final = f"""
(SELECT count(*) FROM (SELECT 1 FROM payment AS lost
  WHERE lost.reason = 'transaction_failed' AND lost.payer = {{payer}}
    AND lost.resolved_at > {{since}} LIMIT {SOLD_TODAY_MAX + 1}) AS lost_today)
"""  # noqa: S608  constants
CONDUCT_OF_PAYER: Final = _CONDUCT.format(
    who="payer", reverted_today=_REVERTED_TODAY.format(payer="?2", since="?3"), **_LIMITS
)
CONDUCT_OF_ADDRESS: Final = _CONDUCT.format(who="address", reverted_today="0", **_LIMITS)

# The fees at risk of all payers, and the part of them from payers that bought too little.
_SALES_OF: Final = """
FROM payment AS sale
 WHERE sale.state = 'issued' AND sale.payer = at_risk.payer AND sale.resolved_at > ?2
"""
FEES_AT_RISK: Final = f"""
SELECT coalesce(sum(burned), 0), coalesce(sum(CASE WHEN is_covered THEN 0 ELSE burned END), 0),
       coalesce(sum(waiting), 0), coalesce(sum(CASE WHEN is_covered THEN 0 ELSE waiting END), 0),
       (SELECT lamports FROM fee_fund)
  FROM (SELECT fees AS burned, 0 AS waiting,
               {_REVERTED_TODAY.format(payer="at_risk.payer", since="?2")}
               <= (SELECT count(*)
                      FROM (SELECT 1 {_SALES_OF} LIMIT {SOLD_TODAY_MAX}) AS sold_today)
                    AS is_covered
          FROM (SELECT payer, sum(fee_lamports) AS fees FROM payment
                 WHERE reason = 'transaction_failed' AND resolved_at > ?1
                 GROUP BY payer) AS at_risk
         UNION ALL
        SELECT 0, fees, EXISTS (SELECT 1 {_SALES_OF})
          FROM (SELECT payer, sum(fee_lamports) AS fees FROM payment
                 WHERE state = 'pending' GROUP BY payer) AS at_risk) AS risks
"""  # noqa: S608  constants

# No fee is reserved if the balance is too low, or not known yet.
TAKE_FEE: Final = "UPDATE fee_fund SET lamports = lamports - ?1 WHERE lamports >= ?2"
GIVE_FEE_BACK: Final = "UPDATE fee_fund SET lamports = lamports + ?"
FUND_IS_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM fee_fund)"


HAS_BOUGHT: Final = "SELECT EXISTS (SELECT 1 FROM payment WHERE state = 'issued' AND payer = ?)"
HAS_BOUGHT_FROM: Final = (
    "SELECT EXISTS (SELECT 1 FROM payment WHERE state = 'issued' AND address = ?)"
)


class Budgets:
    """Checks payments against the limits in `Budget`, over one connection, for one thread."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find_objection(self, pending: ports.PendingPayment) -> ports.Objection | None:
        """Return the reason why a payment may not be stored as pending now; None if it may."""
        payment = pending.payment
        if self._db.execute(SALES_ARE_CLOSED).get:
            return ports.SALES_CLOSED
        if self.is_key_taken(payment.key_hash):
            return ports.KEY_TAKEN
        if self._db.execute(QUOTE_IS_USED, (pending.quote,)).get:
            return Refused(RefusalReason.QUOTE_USED)
        account = (payment.payer, pending.mark, payment.asset)
        if self._db.execute(RESERVED, account).get > pending.balance_after:
            return Refused(RefusalReason.FUNDS)
        payer = self._conduct(CONDUCT_OF_PAYER, payment.payer, payment.begun_at)
        excess = self._find_excess(pending, payer)
        if excess is not None:
            return Refused(excess)
        at_risk = self.fees_at_risk(payment.begun_at)
        is_allowed = at_risk.allow(pending.budget, payer, fee_lamports=payment.fee_lamports)
        return None if is_allowed else ports.SALES_CLOSED

    def fees_at_risk(self, now: UnixMs) -> ports.FeesAtRisk:
        """Return the network fees of payments that reverted in the last hour, or are pending."""
        return ports.FeesAtRisk(*self._db.execute(FEES_AT_RISK, (now - HOUR_MS, now - DAY_MS)).get)

    def is_key_taken(self, key_hash: CredentialHash) -> bool:
        """Return whether the redelivery key belongs to a payment that has not failed."""
        return bool(self._db.execute(KEY_IS_TAKEN, (key_hash,)).get)

    def has_bought(self, payer: Wallet) -> bool:
        """Return whether *payer* ever made a payment whose purchase was delivered."""
        return bool(self._db.execute(HAS_BOUGHT, (payer,)).get)

    def has_bought_from(self, address: str) -> bool:
        """Return whether a client at *address* ever made a payment whose purchase was delivered."""
        return bool(self._db.execute(HAS_BOUGHT_FROM, (address,)).get)

    def take_fee(self, pending: ports.PendingPayment) -> bool:
        """Reserve the fee from the fee payer's balance; return False if the balance is too low.

        If the balance is not known yet, reserve nothing and return True.
        """
        needs = (pending.payment.fee_lamports, pending.budget.fund_lamports_min)
        self._db.execute(TAKE_FEE, needs)
        return self._db.changes() == 1 or not self._db.execute(FUND_IS_KNOWN).get

    def give_fee_back(self, payment: Payment) -> None:
        """Release the reserved network fee of a payment that never landed."""
        self._db.execute(GIVE_FEE_BACK, (payment.fee_lamports,))

    def _find_excess(
        self, pending: ports.PendingPayment, payer: ports.Conduct
    ) -> RefusalReason | None:
        payment = pending.payment
        budget = pending.budget
        fee_lamports = payment.fee_lamports
        excess = payer.find_excess(budget, fee_lamports=fee_lamports, is_address=False)
        if excess is not None:
            return excess
        address = self._conduct(CONDUCT_OF_ADDRESS, payment.address, payment.begun_at)
        return address.find_excess(budget, fee_lamports=fee_lamports, is_address=True)

    def _conduct(self, of: str, who: str, now: UnixMs) -> ports.Conduct:
        return ports.Conduct(*self._db.execute(of, (now - HOUR_MS, who, now - DAY_MS)).get)
