"""Credits and wallets of users in SQL."""

from collections.abc import Mapping, Sequence
from typing import Final

from mintscope.accounts.store import NO_END, Columns
from mintscope.accounts.wallets.wallets import (
    CreditMove,
    LinkedWallet,
    MoveKind,
    Overspent,
    UsedLine,
    WalletPayment,
)
from mintscope.credits import statements
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.sql.database import Database, delete_part
from mintscope.kit.time import Month
from mintscope.payments.store.purchases import ENTER, MOVE_HOLDER, SUCCEED

FIND: Final = "SELECT id FROM credit_account WHERE owner = ?"
OPEN: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at, owner) VALUES (?, '', ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
OPEN_ROOTED: Final = """
INSERT INTO credit_account (token_hash, hint, note, issued_at, root)
SELECT ?1, ?2, '', ?3, coalesce(root, id) FROM credit_account WHERE id = ?4
RETURNING id
"""
# Subqueries read the sums of each key of the user; for a join, PostgreSQL would begin with the keys
# of all users.
SPENT: Final = """
WITH spent AS MATERIALIZED (
    SELECT id, (SELECT CAST(sum((SELECT credits FROM key_month
                                  WHERE api_key = each_.id AND month = :month)) AS bigint)
                  FROM api_key AS each_
                 WHERE coalesce(each_.first_key, each_.id) = coalesce(k.first_key, k.id)) AS credits
      FROM api_key AS k WHERE "user" = :user)
SELECT id, credits FROM spent WHERE credits IS NOT NULL
"""
UNDER_WAY: Final = """
SELECT EXISTS (SELECT 1 FROM payment AS p JOIN credit_account AS a ON a.id = p.account
                WHERE p.state = 'pending' AND a.owner = ?)
"""
# The rows are locked in the order of id, as debits lock them, to avoid deadlocks.
HOLD: Final = """
SELECT id, balance FROM credit_account WHERE id IN (?, ?) ORDER BY id /* FOR UPDATE */
"""
NOTE_MOVE: Final = """
INSERT INTO credit_move ("user", kind, key_hash, off_entry, onto_entry) VALUES (?, ?, ?, ?, ?)
"""
MOVE: Final = Columns(
    CreditMove,
    "m",
    user_id='m."user"',
    off="off_.account",
    onto="onto_.account",
    credit_count="onto_.delta",
    at="onto_.at",
)
FIND_MOVE: Final = f"""
SELECT {MOVE.text} FROM credit_move AS m
  JOIN credit_entry AS off_ ON off_.id = m.off_entry
  JOIN credit_entry AS onto_ ON onto_.id = m.onto_entry
 WHERE m.key_hash = ?
"""  # noqa: S608  a constant


SPEND_LEVEL: Final = 'SELECT credits FROM spend_alert WHERE "user" = ?'
NO_SPEND_LEVEL: Final = 'DELETE FROM spend_alert WHERE "user" = ?'
SET_SPEND_LEVEL: Final = """
INSERT INTO spend_alert ("user", credits, told_day) VALUES (?, ?, ?)
    ON CONFLICT ("user") DO UPDATE SET credits = excluded.credits, is_due = 1
"""
# The transaction that adds up spends marks the spend alerts to compare; only these are read.
NOTE_SPENT: Final = """
UPDATE spend_alert SET is_due = 1
 WHERE "user" IN (
       SELECT (SELECT owner FROM credit_account WHERE id = account)
         FROM (SELECT DISTINCT account FROM credit_entry
                WHERE id > ? AND id <= ? AND kind = 'spend') AS spent)
"""
# The rows stay locked while the sums are read; a later transaction that adds up spends marks the
# spend alerts again.
TAKE_DUE: Final = """
UPDATE spend_alert SET is_due = 0
 WHERE "user" IN (SELECT "user" FROM spend_alert WHERE is_due = 1 ORDER BY "user" LIMIT ?)
RETURNING "user", credits, told_day
"""
DAYS_OVER: Final = """
SELECT day, credits FROM credit_day
 WHERE account = (SELECT id FROM credit_account WHERE owner = ?) AND day >= ? AND credits >= ?
 ORDER BY day
"""
NOTE_OVERSPENT: Final = 'UPDATE spend_alert SET told_day = ? WHERE "user" = ?'


class SqlCreditRows:
    """Reads and writes credit accounts, their usage and spend alerts, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find(self, user_id: UserId) -> CreditAccount | None:
        """Return the credit account of a user; None if it was not created yet."""
        account = self._db.execute(FIND, (user_id,)).get
        return None if account is None else CreditAccount(account)

    def open(self, user_id: UserId, at: UnixMs) -> CreditAccount:
        """Return the credit account of a user; create it if there is none."""
        found = self.find(user_id)
        if found is None:
            opening = (no_hash(user_id), f"user:{user_id}", at, user_id)
            self._db.execute(OPEN, opening)
            found = self.find(user_id)
            assert found is not None
        return found

    def open_token(
        self, token_hash: CredentialHash, hint: str, root: CreditAccount, at: UnixMs
    ) -> CreditAccount:
        """Create the account of a credit token whose credits come from the account *root*.

        The new row names the account from which the credits first came: the one that the row of
        *root* names or, if it names none, *root* itself.
        """
        return CreditAccount(self._db.execute(OPEN_ROOTED, (token_hash, hint, at, root)).get)

    def balance(self, account: CreditAccount) -> int:
        """Return the credits that the account has."""
        return int(self._db.execute(statements.BALANCE, (account,)).get)

    def spent(self, user_id: UserId, month: Month) -> Mapping[KeyId, int]:
        """Return the credits spent in *month* by each key of the user.

        The spending of a key includes that of all keys that are connected with it by rotations.
        Keys without spending are omitted.
        """
        asked = {"user": user_id, "month": month}
        return {KeyId(key): spent for key, spent in self._db.execute(SPENT, asked)}

    def is_paid_for(self, user_id: UserId) -> bool:
        """Return whether a payment for credits of the user is in progress."""
        return bool(self._db.execute(UNDER_WAY, (user_id,)).get)

    def fold_days(self, before: UnixMs, entries_max: int) -> bool:
        """Add up to *entries_max* journal entries older than *before* to each kind of total.

        The totals are the credits spent by account and day, the credits received by account, and
        the usage of users by account, day, key and endpoint.  Return whether more entries may be
        left.
        """
        is_more = False
        for start, fold, fold_until in (
            (statements.FOLD_FROM, statements.FOLD, statements.FOLDED),
            (statements.RECEIVED_FROM, statements.FOLD_RECEIVED, statements.RECEIVED_TO),
            (statements.USAGE_FROM, statements.FOLD_USAGE, statements.USAGE_TO),
        ):
            after = int(self._db.execute(start).get)
            last = self._db.execute(statements.FOLD_TO, (after, entries_max, before)).get
            if last is not None:
                self._db.execute(fold, (after, last))
                self._db.execute(fold_until, (last,))
                if fold is statements.FOLD:
                    self._db.execute(NOTE_SPENT, (after, last))
                is_more = is_more or int(last) - after >= entries_max
        return is_more

    def usage(self, user_id: UserId, since: int, limit: int) -> Sequence[UsedLine]:
        """Return up to *limit* lines of usage from the day *since* on, newest first."""
        account = self.find(user_id)
        if account is None:
            return []
        seen = None
        # Read again if the mark, up to which entries are added up, moved meanwhile.
        while (mark := int(self._db.execute(statements.USAGE_MARK).get)) != seen:
            seen = mark
            found = list(self._db.execute(statements.USAGE, (account, since, limit, mark)))
        return [
            UsedLine(day, KeyId(key) if key else None, endpoint, requests, spent)
            for day, key, endpoint, requests, spent in found
        ]

    def forget_usage(self, before: int, limit: int) -> bool:
        """Delete up to *limit* lines of usage on old days; return whether more may be left.

        before   only lines of earlier days, in UTC days since 1970-01-01
        """
        return delete_part(self._db, statements.OLD_USAGE, statements.FORGET_USAGE, before, limit)

    def spend_level(self, user_id: UserId) -> int | None:
        """Return the number of credits spent in a day that causes an e-mail; None: no e-mail."""
        row = self._db.execute(SPEND_LEVEL, (user_id,)).fetchone()
        return None if row is None else int(row[0])

    def set_spend_level(self, user_id: UserId, level: int | None, told_day: int) -> None:
        """Set the credits spent in a day that cause an e-mail to the user; None: no e-mail.

        told_day   only later days are reported; ignored if the user already has a level
        """
        if level is None:
            self._db.execute(NO_SPEND_LEVEL, (user_id,))
        else:
            self._db.execute(SET_SPEND_LEVEL, (user_id, level, told_day))

    def take_overspent(self, since: int, limit: int) -> tuple[Sequence[Overspent], bool]:
        """Find the days on which accounts spent at least the level of their spend alert.

        At most *limit* alerts are compared.  Return the days without an e-mail about them, and
        whether more alerts may have to be compared.  An alert is compared again when further spends
        of its account are added up, or when its level is set.

        since   the first day to compare, counted from 1970-01-01
        """
        # This lock is taken first, as in `fold_days`, so that there is no deadlock.
        self._db.execute(statements.FOLD_FROM)
        due = sorted(tuple(row) for row in self._db.execute(TAKE_DUE, (limit,)))
        found = [
            Overspent(UserId(user), day, spent, level)
            for user, level, told_day in due
            for day, spent in self._db.execute(DAYS_OVER, (user, max(since, told_day + 1), level))
        ]
        return found, len(due) == limit

    def note_overspent(self, user_id: UserId, day: int) -> None:
        """Record that the user was notified of the spending on *day*."""
        self._db.execute(NOTE_OVERSPENT, (day, user_id))


class SqlMoveRows:
    """Moves credits from one account to another, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find(self, key_hash: CredentialHash) -> CreditMove | None:
        """Return the move whose Idempotency-Key has the hash *key_hash*; None if there is none."""
        row = self._db.execute(FIND_MOVE, (key_hash,)).fetchone()
        return None if row is None else MOVE.read(row)

    def hold(self, off: CreditAccount, onto: CreditAccount) -> int:
        """Lock both balances for this transaction; return the balance of *off*."""
        held = self._db.execute(HOLD, (off, onto))
        return next(int(balance) for account, balance in held if account == off)

    def move(self, move: CreditMove) -> None:
        """Move the credits from one account to the other, and store *move*.

        If no credits are left in `move.off`, the payments that name it as the holder of their
        credits name `move.onto` instead, except after a withdrawal.
        """
        off = self._db.execute(ENTER, (move.off, "rotate", -move.credit_count, move.at)).get
        onto = self._db.execute(ENTER, (move.onto, "rotate", move.credit_count, move.at)).get
        self._db.execute(NOTE_MOVE, (move.user_id, move.kind, move.key_hash, off, onto))
        if (
            move.kind is not MoveKind.WITHDRAWAL
            and not self._db.execute(statements.BALANCE, (move.off,)).get
        ):
            self._db.execute(MOVE_HOLDER, (move.off, move.onto, move.at, None))

    def succeed(self, off: CreditAccount, onto: CreditAccount) -> None:
        """Make account *onto* receive the credits of all later purchases for account *off*."""
        self._db.execute(SUCCEED, (off, onto))


def no_hash(user_id: UserId) -> CredentialHash:
    """Return the value of the hash column for a user's credit account, which has no credential."""
    # 32 bytes, as the table requires of a hash.
    return CredentialHash(b"account of user".ljust(24, b"\0") + user_id.to_bytes(8))


OF_USER: Final = 'SELECT wallet, linked_at FROM linked_wallet WHERE "user" = ? ORDER BY id'
LINK: Final = 'INSERT INTO linked_wallet ("user", wallet, linked_at) VALUES (?, ?, ?)'
UNLINK: Final = 'DELETE FROM linked_wallet WHERE "user" = ? AND wallet = ?'
TAKE_OVER: Final = """
INSERT INTO linked_wallet ("user", wallet, linked_at)
SELECT CAST(?2 AS bigint), wallet, CAST(?3 AS bigint) FROM linked_wallet WHERE "user" = ?1
    ON CONFLICT DO NOTHING
"""
FORGET: Final = 'DELETE FROM linked_wallet WHERE "user" = ?'
# ?2 and ?3 are NULL for the first page, or the place of the last payment of the page before.
PAYMENTS: Final = f"""
SELECT signature, payer, resource, amount, paid, credits, state, reason, begun_at, resolved_at,
       asset
  FROM payment
 WHERE payer IN (SELECT wallet FROM linked_wallet WHERE "user" = ?1)
   AND (begun_at < coalesce(?2, {NO_END}) OR (begun_at = ?2 AND signature < ?3))
 ORDER BY begun_at DESC, signature DESC LIMIT ?4
"""  # noqa: S608  a constant


class SqlWalletRows:
    """Reads and writes the wallets that are linked to users, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order of linking."""
        found = self._db.execute(OF_USER, (user_id,))
        return [LinkedWallet(Wallet(wallet), UnixMs(at)) for wallet, at in found]

    def link(self, user_id: UserId, wallet: Wallet, at: UnixMs) -> None:
        """Link a wallet that is not linked to this user yet."""
        self._db.execute(LINK, (user_id, wallet, at))

    def unlink(self, user_id: UserId, wallet: Wallet) -> bool:
        """Unlink a wallet; return whether it was linked."""
        self._db.execute(UNLINK, (user_id, wallet))
        return self._db.changes() == 1

    def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of linked wallets, newest first.

        before   only payments older than the one with this time and signature; None: all
        """
        begun_at, signature = (None, None) if before is None else before
        found = self._db.execute(PAYMENTS, (user_id, begun_at, signature, limit))
        return [WalletPayment(*row) for row in found]

    def hand_over(self, giver: UserId, taker: UserId, at: UnixMs) -> None:
        """Link the wallets of *giver* to *taker* instead, with the time *at* of the new link."""
        self._db.execute(TAKE_OVER, (giver, taker, at))
        self._db.execute(FORGET, (giver,))
