"""The payments of one customer in SQL.

Every statement names the user and finds the account and the wallets itself: a caller cannot ask for
payments of an account that is not the user's.
"""

from collections.abc import Sequence
from typing import Final

from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.sql.database import Database
from mintscope.payments.history import Place, WalletSum
from mintscope.payments.search import KeptPayment
from mintscope.payments.store.purchases import COLUMNS, END, JOINS, kept_payment

ACCOUNT: Final = "(SELECT id FROM credit_account WHERE owner = ?1)"
WALLETS: Final = '(SELECT wallet FROM linked_wallet WHERE "user" = ?1)'
OLDER: Final = "(begun_at < ?2 OR (begun_at = ?2 AND signature < ?3))"
ORDER: Final = "ORDER BY begun_at DESC, signature DESC LIMIT ?4"

# The newest of each kind hold the newest of all, and each kind has an index.
OF_CUSTOMER: Final = f"""
WITH found (id) AS (
    SELECT id FROM (SELECT id FROM payment WHERE account IN {ACCOUNT} AND {OLDER} {ORDER}) AS bought
     UNION
    SELECT id FROM (SELECT id FROM payment WHERE holder IN {ACCOUNT} AND {OLDER} {ORDER}) AS held
     UNION
    SELECT id FROM (SELECT id FROM payment WHERE payer IN {WALLETS} AND {OLDER} {ORDER}) AS paid)
SELECT {COLUMNS} FROM found JOIN payment AS p ON p.id = found.id {JOINS}
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?4
"""  # noqa: S608  constants
OF_WALLET: Final = f"""
SELECT {COLUMNS} FROM payment AS p {JOINS}
 WHERE p.payer = ?5 AND p.payer IN {WALLETS}
   AND (p.begun_at < ?2 OR (p.begun_at = ?2 AND p.signature < ?3))
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?4
"""  # noqa: S608  constants
ONE_OF_CUSTOMER: Final = f"""
SELECT {COLUMNS} FROM payment AS p {JOINS}
 WHERE p.signature = ?2
   AND (p.account IN {ACCOUNT} OR p.holder IN {ACCOUNT} OR p.payer IN {WALLETS})
"""  # noqa: S608  constants
SUMS_OF_WALLETS: Final = f"""
SELECT payer, asset, credits, count(*), CAST(sum(paid) AS bigint), count(worth),
       CAST(coalesce(sum(worth), 0) AS bigint), max(begun_at)
  FROM payment
 WHERE state = 'issued' AND payer IN {WALLETS}
 GROUP BY payer, asset, credits ORDER BY payer, asset, credits
"""  # noqa: S608  constants


def of_customer(
    db: Database, user_id: UserId, before: Place | None, limit: int
) -> Sequence[KeptPayment]:
    """Return up to *limit* payments of a user after *before*, newest first.

    They are those into the user's account, those whose credits it has, and those of linked wallets.
    """
    at, signature = before or (END, "")
    return [kept_payment(row) for row in db.execute(OF_CUSTOMER, (user_id, at, signature, limit))]


def of_wallet(
    db: Database, user_id: UserId, wallet: Wallet, before: Place | None, limit: int
) -> Sequence[KeptPayment]:
    """Return up to *limit* payments of a linked wallet after *before*, newest first.

    There are none if *wallet* is not linked to the user.
    """
    at, signature = before or (END, "")
    values = (user_id, at, signature, limit, wallet)
    return [kept_payment(row) for row in db.execute(OF_WALLET, values)]


def one_of_customer(db: Database, user_id: UserId, signature: Signature) -> KeptPayment | None:
    """Return one payment of a user; None if there is none, or it is of another user."""
    row = db.execute(ONE_OF_CUSTOMER, (user_id, signature)).fetchone()
    return None if row is None else kept_payment(row)


def sums_of_wallets(db: Database, user_id: UserId) -> Sequence[WalletSum]:
    """Return the sums that the linked wallets of a user paid, by wallet, asset and bundle."""
    return [
        WalletSum(
            wallet=Wallet(row[0]),
            asset=None if row[1] is None else Mint(row[1]),
            credits=row[2],
            payments=row[3],
            paid=row[4],
            valued=row[5],
            worth=row[6],
            last_at=UnixMs(row[7]),
        )
        for row in db.execute(SUMS_OF_WALLETS, (user_id,))
    ]
