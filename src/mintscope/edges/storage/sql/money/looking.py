"""Credit accounts for operators, over a connection of either engine."""

from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.core.credits.ledger import AccountLine, KindLine
from mintscope.edges.storage.sql.money.closing import LAST_CLOSED, NOTHING
from mintscope.edges.storage.sql.money.credit_statements import (
    ALL_ADD_UP,
    ENDING,
    PAGE,
    SPENT,
    SPENT_SINCE,
    SUMMARY,
)
from mintscope.edges.storage.sql.money.minutes import Executes


def page_of(db: Executes, after: int, limit: int) -> list[AccountLine]:
    """Return up to *limit* accounts that follow the account *after*, oldest first."""
    return [AccountLine(*row) for row in db.execute(PAGE, (after, limit))]


def ending_in(db: Executes, ending: str, after: int, limit: int) -> list[AccountLine]:
    """Return up to *limit* accounts after *after* whose credit token ends in *ending*."""
    return [AccountLine(*row) for row in db.execute(ENDING, (after, limit, ending))]


def summary_of(db: Executes, account: CreditAccount) -> list[KindLine]:
    """Return the sums of the entries of *account* by kind, spends last."""
    lines = [KindLine(*row) for row in db.execute(SUMMARY, (account,))]
    spent = int(db.execute(SPENT, (account,)).get)
    if spent:
        first_at, last_at = db.execute(SPENT_SINCE, (account,)).get
        lines.append(KindLine("spend", -spent, UnixMs(first_at), UnixMs(last_at)))
    return lines


def contradictions(db: Executes) -> list[CreditAccount]:
    """Return the accounts whose balance contradicts their entries since the last close."""
    closed = db.execute(LAST_CLOSED, ()).get or NOTHING
    bounds = {"after": closed[1], "closed": closed[0]}
    return [CreditAccount(account) for (account,) in db.execute(ALL_ADD_UP, bounds)]
