"""Pages for credits and prices."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from solders.pubkey import Pubkey

from mintscope.accounts.wallets.credits import AccountCredits, CreditSummary, Deposited
from mintscope.credits.ledger import STATEMENT_LINES, CreditLedger, Statement
from mintscope.kit.audit import UserId
from mintscope.kit.errors import PriceUnavailable
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_MS, iso_time, month_end
from mintscope.payments.checkout import Checkout, NotProposed, Proposal, propose
from mintscope.payments.facilitator import Wanted
from mintscope.payments.merchant import AcceptedToken, Merchant, Order, bundle_order
from mintscope.payments.ports import Settled
from mintscope.payments.pricing import BUNDLES, REQUEST_USD, Bundle, PriceList
from mintscope.payments.protocol.envelope import SCHEME, Refused, Resource, Terms, open_envelope
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.protocol.verify import transferred
from mintscope.site.figures import DAYS, csv_text, day_bars, day_text
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect, TextFile
from mintscope.site.reference import DescribedEndpoint, Reference
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post
from mintscope.site.sales.messages import tokens_text

PAGE: Final = "/credits"
UNKNOWN: Final = "This service did not issue this credit token. Nothing was moved."
EMPTY: Final = "There are no credits on this credit token. Nothing was moved."
UNVERIFIED: Final = "Verify your e-mail address first, under Settings > Account."
LEVEL: Final = re.compile("[0-9]{1,12}")
NO_LEVEL: Final = "Expected a whole number of credits in digits, or nothing for no alert."
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
    "claim": "Moved in with a claimed agent",
    "spend": "Used by requests",
}


class StatementPages:
    """The page at `/credits`, its forms, and the statement as a file."""

    def __init__(self, credits_: AccountCredits, ledger: CreditLedger, *, origin: str) -> None:
        self._credits = credits_
        self._ledger = ledger
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the page `/credits`, its forms, and the statement as a file."""
        yield get(PAGE, self.show)
        yield post(f"{PAGE}/deposit", self.deposit, Access.SIGNED_IN)
        spending = f"{PAGE}/spend-alert"
        level = ("level",)
        yield post(spending, self.set_spend_alert, Access.SIGNED_IN, keeps=level, keeps_on=PAGE)
        yield get(f"{PAGE}/statement.csv", self.download, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the signed-in user's account, or ask for a credit token in the browser."""
        if request.session is None or request.query_params.text("of") == "token":
            return self._of_token()
        return await self._own(request)

    async def _own(
        self,
        request: PageRequest,
        level: str | None = None,
        errors: Mapping[str, str] = NO_ERRORS,
    ) -> Page:
        user_id = request.user_id
        statement = await self._statement(user_id)
        summary = await self._credits.summary(user_id)
        if level is None:
            level = "" if summary.spend_level is None else str(summary.spend_level)
        facts = _facts(statement, summary, request.now)
        return Page("sales/credits.html", facts, errors, values={"level": level})

    async def set_spend_alert(self, request: PageRequest) -> PageResponse:
        """Set the daily spending that triggers an e-mail; an empty text turns the e-mail off."""
        text = request.form.line("level")
        if request.signed_in.user.verified_at is None:
            return await self._own(request, text, {"level": UNVERIFIED})
        if text and (LEVEL.fullmatch(text) is None or int(text) == 0):
            return await self._own(request, text, {"level": NO_LEVEL})
        level = int(text) if text else None
        await self._credits.set_spend_level(request.user_id, level)
        return Redirect(PAGE, notice="spend-alert-set")

    async def deposit(self, request: PageRequest) -> PageResponse:
        """Move all credits of the credit token in the form into the account of the user."""
        token = await self._ledger.find(request.form.line("deposited"))
        if token is None:
            return self._of_token({"deposited": UNKNOWN})
        moved = await self._credits.deposit(request.user_id, token, None, None)
        if not isinstance(moved, Deposited):
            return self._of_token({"deposited": EMPTY})
        return Redirect(PAGE, notice="credits-deposited")

    async def download(self, request: PageRequest) -> PageResponse:
        """Return the account's credit statement as a CSV file."""
        statement = await self._statement(request.user_id)
        return TextFile("mintscope-credits.csv", "text/csv", _table(statement))

    async def _statement(self, user_id: UserId) -> Statement:
        account = await self._credits.find(user_id)
        return NOTHING if account is None else await self._ledger.statement(account)

    def _of_token(self, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        facts = {"kinds": KINDS, "origin": self._origin}
        return Page("sales/credits_of_token.html", facts, errors)


def _facts(statement: Statement, summary: CreditSummary, now: UnixMs) -> dict[str, Any]:
    today = now // DAY_MS
    used = {each.day: each.credits for each in statement.days if each.day > today - DAYS}
    spent = [summary.spent.get(key.key_id, 0) for key in summary.keys]
    return {
        "balance": statement.balance,
        "used": sum(used.values()),
        "used_today": used.get(today, 0),
        "month": sum(spent),
        "month_ends_at": month_end(summary.month),
        "bars": day_bars(used, today),
        "first_day": day_text(today - DAYS + 1),
        "keys": list(zip(summary.keys, spent, strict=True)),
        "entries": [(KINDS.get(each.kind, each.kind), each) for each in statement.entries],
        "entries_max": STATEMENT_LINES,
    }


def _table(statement: Statement) -> str:
    """Return the statement as CSV, newest first, with one line per day for requests."""
    lines: list[Sequence[object]] = [
        (each.at, iso_time(each.at), each.kind, each.delta, each.balance)
        for each in statement.entries
    ]
    for day in statement.days:
        at = UnixMs(day.day * DAY_MS)
        lines.append((at, iso_time(at), "spend", -day.credits, ""))
    # The first column, the time in milliseconds, is only for sorting: the file does not have it.
    newest_first = sorted(lines, key=lambda line: -int(str(line[0])))
    return csv_text(("at", "kind", "credits", "balance"), (line[1:] for line in newest_first))


class PricedToken(NamedTuple):
    """An accepted token; *price_list* is None while the token has no reliable price."""

    token: AcceptedToken
    price_list: PriceList | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSales:
    """Sells bundles of credits.

    resource       returns the resource that a payment for a bundle names, the same as in the API
    expect_open    raises ServiceUnavailable if sales are closed
    """

    checkout: Checkout
    merchant: Merchant
    resource: Callable[[Bundle], Resource]
    expect_open: Callable[[], Awaitable[None]]

    async def priced(self) -> Sequence[PricedToken]:
        """Return every accepted token, with the payment token first."""
        return [PricedToken(each, await _price_list(each)) for each in self.merchant.payment_tokens]

    async def propose(
        self, bundle: Bundle, payer: Pubkey, key: str, asset: Mint, *, address: str
    ) -> Proposal | NotProposed:
        """Build the payment of *bundle* in *asset* that the wallet *payer* can sign.

        If the payment would not succeed, or cannot be simulated, return the reason.

        key        redelivery key, created in the browser: with it the response can be requested
                   again
        address    IP address of the client
        Raises     PriceUnavailable, and ServiceUnavailable if sales are closed
        """
        await self.expect_open()
        order = self._order(bundle, key)
        return await propose(self.merchant, order, payer, asset, address=address)

    async def pay(
        self,
        bundle: Bundle,
        transaction: bytes,
        *,
        key: str,
        address: str,
        wanted: Callable[[], Awaitable[Wanted]],
    ) -> Settled:
        """Settle the signed payment, and return the result; a repeated call returns it for a day.

        A new credit token is returned again only until it is first used.

        key        redelivery key, created in the browser
        address    IP address of the client
        wanted     returns the purchase to deliver
        Raises     CheckoutRefused, PriceUnavailable, ServiceUnavailable, Contradiction;
                   InvalidToken if the credit token was rotated or the account removed; the errors
                   of *wanted*
        """
        terms, amount = self._paid(transaction)
        presented = Presented(
            transaction=transaction,
            scheme=SCHEME,
            network=terms.network,
            asset=terms.asset,
            pay_to=terms.pay_to,
            amount=amount,
            identifier=None,
        )
        order = self._order(bundle, key)
        charge = await self.checkout.authorize_payment(order, presented, key=key, address=address)
        return await charge.pay(wanted)

    def _order(self, bundle: Bundle, key: str) -> Order:
        return replace(bundle_order(self.resource(bundle), bundle), key=key)

    def _paid(self, transaction: bytes) -> tuple[Terms, int]:
        """Return the terms of the token that *transaction* pays, and the atoms that it transfers.

        The atoms are 0 if the transaction is no valid payment.
        """
        envelope = open_envelope(transaction)
        terms = self.merchant.facilitator.terms
        if isinstance(envelope, Refused):
            return terms, 0
        for each in self.merchant.payment_tokens:
            if each.terms.treasury in envelope.accounts:
                terms = each.terms
        return terms, transferred(envelope) or 0


async def _price_list(token: AcceptedToken) -> PriceList | None:
    try:
        return await token.price_cache.price_list()
    except PriceUnavailable:
        return None


FREE: Final = "free"
# The area whose free endpoints are listed one by one.
MARKET_AREA: Final = "Market data"


@dataclass(eq=False, repr=False)
class PricingPages:
    """The page at `/pricing`.

    sales            sells bundles; None if nothing is for sale
    read_reference   returns the API reference; None if this process serves no API
    """

    sales: CreditSales | None
    read_reference: Callable[[], Reference] | None

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the page of prices."""
        yield get("/pricing", self.show)

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show the current prices of credits and requests."""
        priced = [] if self.sales is None else await self.sales.priced()
        quoted = [each.quote.observed_at for _, each in priced if each is not None]
        facts: dict[str, Any] = {
            "bundles": [_line(bundle, priced) for bundle in BUNDLES],
            "request_usd": f"{REQUEST_USD.normalize():f}",
            "request_amounts": _amounts(priced, lambda price_list: price_list.request),
            "quoted_at": min(quoted, default=None),
            "symbols": [token.symbol for token, _ in priced],
            "unpriced": [token.symbol for token, price_list in priced if price_list is None],
            "is_sold": self.sales is not None,
        }
        return Page("sales/pricing.html", facts | self._costs())

    def _costs(self) -> dict[str, Any]:
        """Return the template values for the costs of API calls.

        The free endpoints of the areas in `others` are not listed one by one.
        """
        if self.read_reference is None:
            return {"costs": [], "others": [], "other_count": 0}
        areas = self.read_reference().areas
        charged = [each for area in areas for each in area.endpoints if each.cost != FREE]
        free = {area.name: [each for each in area.endpoints if each.cost == FREE] for area in areas}
        of_market: list[DescribedEndpoint] = free.pop(MARKET_AREA, [])
        return {
            "costs": charged + of_market,
            "others": [name for name, endpoints in free.items() if endpoints],
            "other_count": sum(map(len, free.values())),
        }


def _line(bundle: Bundle, priced: Sequence[PricedToken]) -> dict[str, Any]:
    """Return the values of one row of the table of prices, for *bundle*."""
    return {
        "credits": bundle.credits,
        "discount_percent": bundle.discount_percent,
        "usd": usd_text(bundle),
        "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
        "amounts": _amounts(priced, lambda price_list: price_list.price(bundle).price),
    }


def _amounts(
    priced: Sequence[PricedToken], atoms: Callable[[PriceList], int]
) -> list[tuple[str, str | None]]:
    """Return each token's symbol and amount; the amount is None if the token has no price."""
    return [
        (
            token.symbol,
            None if price_list is None else tokens_text(atoms(price_list), price_list.decimals),
        )
        for token, price_list in priced
    ]


def usd_text(bundle: Bundle) -> str:
    """Return the exact price of *bundle* in USD, with at least two decimals."""
    text = f"{bundle.usd.normalize():f}"
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"
