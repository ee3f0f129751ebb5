"""The page of credits: of who is signed in, or of a credit token that stays in the browser."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any, Final

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, iso_time, month_end
from mintscope.core.accounts.holdings.account_credits import AccountCredits, Holdings, MoveDenied
from mintscope.core.accounts.user import UserId
from mintscope.core.credits.ledger import STATEMENT_LINES, CreditLedger, Statement
from mintscope.edges.web.figures.day_bars import DAYS, day_bars, day_text
from mintscope.edges.web.pages.page import NO_ERRORS, Page, PageResponse, Redirect, TextFile
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post

PAGE: Final = "/credits"
UNKNOWN: Final = "This is no credit token that was issued here. Nothing was moved."
EMPTY: Final = "There are no credits on this credit token. Nothing was moved."
NOTHING: Final = Statement(balance=0, spent=0, entries=[])
KINDS: Final = {
    "payment": "Bought",
    "top_up": "Bought",
    "grant": "Granted by the operator",
    "rotate": "Moved",
    "reversal": "Given back",
    "freeze": "Frozen: a payment vanished from the chain",
    "thaw": "Free again",
    "deposit": "Moved in from a credit token",
    "withdrawal": "Moved to a credit token",
    "claim": "Came with an agent",
    "spend": "Used by requests",
}


class StatementPages:
    """The pages under `/credits`."""

    def __init__(self, credits_: AccountCredits, ledger: CreditLedger, *, origin: str) -> None:
        self._credits = credits_
        self._ledger = ledger
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PAGE, self.show)
        yield post(f"{PAGE}/deposit", self.deposit, Access.SIGNED_IN)
        yield get(f"{PAGE}/statement.csv", self.download, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the account of who is signed in; else ask for a credit token, in the browser."""
        if request.session is None or request.query_params.text("of") == "token":
            return self._of_token()
        user_id = request.session.user.user_id
        statement = await self._statement(user_id)
        holdings = await self._credits.holdings(user_id)
        return Page("sales/credits.html", _facts(statement, holdings, request.now))

    async def deposit(self, request: PageRequest) -> PageResponse:
        """Move all credits of a credit token into the account; the form alone carries it."""
        token = await self._ledger.find(request.form.line("deposited"))
        if token is None:
            return self._of_token({"deposited": UNKNOWN})
        moved = await self._credits.deposit(request.signed_in.user.user_id, token, None, None)
        if isinstance(moved, MoveDenied):
            return self._of_token({"deposited": EMPTY})
        return Redirect(PAGE, notice="credits-deposited")

    async def download(self, request: PageRequest) -> PageResponse:
        """Return the same as a table for other programs."""
        statement = await self._statement(request.signed_in.user.user_id)
        return TextFile("mintscope-credits.csv", "text/csv", _table(statement))

    async def _statement(self, user_id: UserId) -> Statement:
        account = await self._credits.find(user_id)
        return NOTHING if account is None else await self._ledger.statement(account)

    def _of_token(self, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        facts = {"kinds": KINDS, "origin": self._origin}
        return Page("sales/credits_of_token.html", facts, errors)


def _facts(statement: Statement, holdings: Holdings, now: UnixMs) -> dict[str, Any]:
    today = now // DAY_MS
    used = {each.day: each.credits for each in statement.days if each.day > today - DAYS}
    spent = [holdings.spent.get(key.key_id, 0) for key in holdings.keys]
    return {
        "balance": statement.balance,
        "used": sum(used.values()),
        "used_today": used.get(today, 0),
        "month": sum(spent),
        "month_ends_at": month_end(holdings.month),
        "bars": day_bars(used, today),
        "first_day": day_text(today - DAYS + 1),
        "keys": list(zip(holdings.keys, spent, strict=True)),
        "entries": [(KINDS.get(each.kind, each.kind), each) for each in statement.entries],
        "entries_max": STATEMENT_LINES,
    }


def _table(statement: Statement) -> str:
    """Return the statement as CSV, newest first; what requests used is a line a day."""
    lines: list[Sequence[object]] = [
        (each.at, iso_time(each.at), each.kind, each.delta, each.balance)
        for each in statement.entries
    ]
    for day in statement.days:
        at = UnixMs(day.day * DAY_MS)
        lines.append((at, iso_time(at), "spend", -day.credits, ""))
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("at", "kind", "credits", "balance"))
    table.writerows(line[1:] for line in sorted(lines, key=lambda line: -int(str(line[0]))))
    return text.getvalue()
