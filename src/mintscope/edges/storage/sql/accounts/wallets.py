"""WalletRows."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.core.accounts.holdings.wallets import LinkedWallet, WalletPayment
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.database import Database
from mintscope.edges.storage.sql.accounts.table import NO_END

OF_USER: Final = 'SELECT wallet, linked_at FROM linked_wallet WHERE "user" = ? ORDER BY id'
LINK: Final = 'INSERT INTO linked_wallet ("user", wallet, linked_at) VALUES (?, ?, ?)'
UNLINK: Final = 'DELETE FROM linked_wallet WHERE "user" = ? AND wallet = ?'
TAKE_OVER: Final = """
INSERT INTO linked_wallet ("user", wallet, linked_at)
SELECT CAST(?2 AS bigint), wallet, linked_at FROM linked_wallet WHERE "user" = ?1
    ON CONFLICT DO NOTHING
"""
FORGET: Final = 'DELETE FROM linked_wallet WHERE "user" = ?'
PAYMENTS: Final = f"""
SELECT signature, payer, resource, amount, paid, credits, state, reason, begun_at, resolved_at,
       asset
  FROM payment
 WHERE payer IN (SELECT wallet FROM linked_wallet WHERE "user" = ?1)
   AND (begun_at < coalesce(?2, {NO_END}) OR (begun_at = ?2 AND signature < ?3))
 ORDER BY begun_at DESC, signature DESC LIMIT ?4
"""  # noqa: S608  a constant


class SqlWalletRows:
    """Implements WalletRows."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order in which they were linked."""
        found = self._db.execute(OF_USER, (user_id,))
        return [LinkedWallet(Wallet(wallet), UnixMs(at)) for wallet, at in found]

    def link(self, user_id: UserId, wallet: Wallet, at: UnixMs) -> None:
        """Link a wallet that is not linked to this user yet."""
        self._db.execute(LINK, (user_id, wallet, at))

    def unlink(self, user_id: UserId, wallet: Wallet) -> bool:
        """Unlink a wallet; say whether it was linked."""
        self._db.execute(UNLINK, (user_id, wallet))
        return self._db.changes() == 1

    def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of the linked wallets, newest first, behind *before*."""
        begun_at, signature = (None, None) if before is None else before
        found = self._db.execute(PAYMENTS, (user_id, begun_at, signature, limit))
        return [
            WalletPayment(
                signature=Signature(row[0]),
                wallet=Wallet(row[1]),
                resource=row[2],
                amount=row[3],
                paid=row[4],
                credit_count=row[5],
                state=row[6],
                reason=row[7],
                begun_at=UnixMs(row[8]),
                settled_at=None if row[9] is None else UnixMs(row[9]),
                asset=None if row[10] is None else Mint(row[10]),
            )
            for row in found
        ]

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Link the wallets of *giver* to *taker* instead."""
        self._db.execute(TAKE_OVER, (giver, taker))
        self._db.execute(FORGET, (giver,))
