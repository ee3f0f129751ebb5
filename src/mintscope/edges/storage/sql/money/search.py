"""Searches of payments for support: every statement uses an index and returns few rows."""

from collections.abc import Sequence
from typing import Any, Final

from mintscope.base.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.user import UserId
from mintscope.core.payments.books.history import Place, Takings
from mintscope.core.payments.books.search import (
    Holder,
    Kept,
    KeptOrphan,
    KeptPayment,
    Wanted,
)
from mintscope.core.payments.payment import State
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.storage.database import Database, marks

COLUMNS: Final = """
SELECT p.signature, p.payer, p.resource, p.amount, p.paid, p.asset, p.credits,
       coalesce(p.hint, a.hint, ''), p.state, p.reason, p.final, p.frozen, p.begun_at,
       p.resolved_at, h.hint, h.owner, h.balance
"""
JOINS: Final = """
  LEFT JOIN credit_account AS a ON a.id = p.account
  LEFT JOIN credit_account AS h ON h.id = p.holder
"""
END: Final = 2**63 - 1
# The payments of an account are those that paid into it, and those whose credits it has now.
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
{columns} FROM found JOIN payment AS p ON p.id = found.id {joins}
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?
"""
NEWEST: Final = """
{columns} FROM payment AS p {joins}
 WHERE {condition} AND (p.begun_at < ?1 OR (p.begun_at = ?1 AND p.signature < ?2))
 ORDER BY p.begun_at DESC, p.signature DESC LIMIT ?3
"""
TAKINGS: Final = f"""
SELECT begun_at / {DAY_MS}, asset, credits, count(*), CAST(sum(paid) AS bigint) FROM payment
 WHERE begun_at >= ? AND state = 'issued'
 GROUP BY 1, 2, 3 ORDER BY 1 DESC, 3 DESC, 2
"""  # noqa: S608  a constant
ORPHANS: Final = """
SELECT signature, payer, amount, asset, bought, found_at, acknowledged_at, note FROM orphan
 WHERE (signature IN ({signatures}) OR payer IN ({payers}))
   AND NOT EXISTS (SELECT 1 FROM payment WHERE payment.signature = orphan.signature)
 ORDER BY found_at DESC, signature LIMIT ?
"""
# Rows that are never deleted are counted by their highest number, without reading them.
COUNTS: Final = """
SELECT (SELECT coalesce(max(id), 0) FROM payment), (SELECT count(*) FROM orphan),
       (SELECT coalesce(max(id), 0) FROM credit_account)
"""


def search(db: Database, wanted: Wanted) -> Kept:
    """Return the results of the search *wanted*, as of one moment."""
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
    found = [_payment(row) for row in payments]
    values = (*wanted.signatures, *wanted.payers, wanted.limit)
    orphans = db.execute(ORPHANS.format(**places), values)
    kept = [_orphan(row) for row in orphans]
    payment_count, orphan_count, token_count = db.execute(COUNTS).get
    return Kept(
        payments=found,
        orphans=kept,
        payment_count=payment_count,
        orphan_count=orphan_count,
        token_count=token_count,
    )


def newest(
    db: Database, state: State | None, before: Place | None, limit: int
) -> Sequence[KeptPayment]:
    """Return up to *limit* payments in a *state*, or all, newest first, behind *before*."""
    condition = "TRUE"
    if state is State.ISSUED:
        condition = "p.state = 'issued'"
    elif state is not None:  # as the index of what is not issued has it
        condition = f"p.state = '{state.value}' AND p.state <> 'issued'"
    statement = NEWEST.format(columns=COLUMNS, joins=JOINS, condition=condition)
    at, signature = before or (END, "")
    return [_payment(row) for row in db.execute(statement, (at, signature, limit))]


def takings(db: Database, since: UnixMs) -> Sequence[Takings]:
    """Return what issued payments that were begun since then have brought, newest first."""
    return [
        Takings(
            day=day,
            asset=None if asset is None else Mint(asset),
            credits=credit_count,
            payments=payments,
            paid=paid,
        )
        for day, asset, credit_count, payments, paid in db.execute(TAKINGS, (since,))
    ]


def _payment(row: Sequence[Any]) -> KeptPayment:
    hint, owner, balance = row[14:]
    return KeptPayment(
        signature=Signature(row[0]),
        payer=Wallet(row[1]),
        resource=Resource(row[2]),
        amount=row[3],
        paid=row[4],
        asset=None if row[5] is None else Mint(row[5]),
        credit_count=row[6],
        hint=row[7],
        state=State(row[8]),
        reason=None if row[9] is None else RefusalReason(row[9]),
        final=bool(row[10]),
        frozen=row[11],
        begun_at=UnixMs(row[12]),
        resolved_at=None if row[13] is None else UnixMs(row[13]),
        holder=None
        if balance is None
        else Holder(hint=hint, owner=None if owner is None else UserId(owner), balance=balance),
    )


def _orphan(row: Sequence[Any]) -> KeptOrphan:
    signature, payer, amount, asset, bought, found_at, acknowledged_at, note = row
    return KeptOrphan(
        signature=Signature(signature),
        payer=None if payer is None else Wallet(payer),
        amount=amount,
        asset=None if asset is None else Mint(asset),
        bought=None if bought is None else Resource(bought),
        found_at=UnixMs(found_at),
        acknowledged_at=None if acknowledged_at is None else UnixMs(acknowledged_at),
        note=note,
    )
