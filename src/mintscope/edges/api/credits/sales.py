"""The handlers under /v1/credits that sell credits, and show where they went."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode, InvalidBundle, MissingToken, PriceUnavailable
from mintscope.base.time import DAY_S
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.merchant import AcceptedToken, Merchant
from mintscope.core.checkout.order import bundle_order
from mintscope.core.credits.ledger import CreditLedger, Statement
from mintscope.core.payments.answer import Contradiction
from mintscope.core.payments.demand import Credits, Wanted
from mintscope.core.payments.outcome import Settled
from mintscope.core.payments.payment import PaidReport, TopUp
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle, PriceList, parse_bundle
from mintscope.edges.api.description.operation import (
    ANY_BUNDLE,
    PAYMENT,
    PUBLIC_ROUTE,
    SPENDER,
    SPENDERS,
    Operation,
)
from mintscope.edges.api.gate import Caller, Gate
from mintscope.edges.api.offers import bundle_resource
from mintscope.edges.api.refusals import NO_SALES
from mintscope.edges.api.wire import (
    Balance,
    BundleLine,
    Bundles,
    Currency,
    DayLine,
    History,
    HistoryLine,
    PricedIn,
    Purchase,
    PurchaseQuery,
    success,
)
from mintscope.edges.api.x402 import ResourceServer
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

BUYERS: Final = (("x402",), ("x402", "creditToken"), ("x402", "apiKey"))
ON_ANOTHER: Final = (
    "The payment has arrived and its credits are where the credential that was sent with it spends"
    " them; expected that one in the Authorization header."
)
QUERY_FIELDS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRoutes:
    """Bundles, their purchase, and the history of credits.

    merchant    None where nothing is for sale
    """

    gate: Gate
    ledger: CreditLedger
    merchant: Merchant | None
    resource_server: ResourceServer
    clock: Clock

    @Operation(
        "GET", "/v1/credits/bundles", Bundles, refusals=(ErrorCode.PRICE_UNAVAILABLE, *PUBLIC_ROUTE)
    )
    async def list_bundles(self, request: Request) -> Response:
        """Credits for sale, and their prices now.

        Returns the bundles of credits for sale, with their prices of this minute in USD and in
        atoms of the payment token. Costs nothing.
        """
        await self.gate.admit(request)
        if self.merchant is None:
            raise PriceUnavailable(NO_SALES)
        first, *others = [
            (_currency(token), [_line(price_list, bundle) for bundle in BUNDLES])
            for token, price_list in await self.merchant.priced()
        ]
        currency, lines = first
        bundles = Bundles(bundles=lines, currency=currency)
        if others:
            bundles.also = [
                PricedIn(currency=currency, bundles=lines) for currency, lines in others
            ]
        return success(request, bundles, at=self.clock.now())

    @Operation(
        "POST",
        "/v1/credits/purchase",
        Purchase,
        refusals=(ErrorCode.INVALID_BUNDLE, *SPENDER, *PAYMENT, *PUBLIC_ROUTE),
        status=201,
        proofs=BUYERS,
        is_charged=True,
        price=ANY_BUNDLE,
        query=PurchaseQuery,
        scope=Scope.TRADE_WRITE,
    )
    async def buy_credits(self, request: Request) -> Response:
        """Buy credits: on a new credit token, or for the credential that is sent along.

        Sells a bundle of credits for a payment on Solana (x402), without an account: the answer is
        a new credit token, or the credits are added to the credit token or the account of the API
        key in Authorization. Ask once without payment for the terms, then send the same request
        with PAYMENT-SIGNATURE. Send an Idempotency-Key with both: if the answer is lost, the same
        payment with the same key returns it again for a day.
        """
        caller = await self.gate.admit(request)
        bundle = _bundle(request)

        async def wanted() -> Wanted:
            account = None
            if caller.bearer is not None:
                account = await self.gate.filled(caller, is_paid=request.has_payment())
            request.expect_client()
            if account is None:
                return Credits(bundle.credits)
            return TopUp(credits=bundle.credits, account=account)

        order = bundle_order(bundle_resource(bundle), bundle)
        settled = await self.resource_server.sell_credits(request, order, wanted)
        purchase = await self._handed_out(settled, caller)
        return success(request, purchase, at=self.clock.now(), status=201)

    async def _handed_out(self, settled: Settled, caller: Caller) -> Purchase:
        """Return what *settled* has bought, and which credit token or user has it.

        Raises MissingToken where that is one that *caller* has not shown.
        """
        purchase = settled.payment.purchase
        paid = settled.payment.paid
        if isinstance(purchase, TopUp):
            shown = None
            if caller.bearer is not None:
                shown = await self.gate.filled(caller, is_paid=True)
            if shown != purchase.account or caller.bearer is None:
                raise MissingToken(ON_ANOTHER)
            if caller.holder is None:
                return Purchase(token=caller.bearer, credits=purchase.credits, price_paid=paid)
            user_id = caller.holder.key.user_id
            return Purchase(user_id=user_id, credits=purchase.credits, price_paid=paid)
        if isinstance(purchase, PaidReport) or settled.token is None:
            raise Contradiction(
                f"expected credits; {settled.payment.signature} bought something else"
            )
        return Purchase(token=settled.token, credits=purchase.credits, price_paid=paid)

    @Operation(
        "GET",
        "/v1/credits/balance",
        Balance,
        refusals=(*SPENDER, *PUBLIC_ROUTE),
        proofs=SPENDERS,
        scope=Scope.TRADE_READ,
    )
    async def get_credit_balance(self, request: Request) -> Response:
        """Credits left on a credit token, or to the user of an API key.

        Returns the credits left on the credit token, or to the user of the API key, that is sent
        along. Costs nothing.
        """
        balance = await self.gate.balance(await self.gate.admit(request))
        return success(request, Balance(balance=balance), at=self.clock.now())

    @Operation(
        "GET",
        "/v1/credits/history",
        History,
        refusals=(*SPENDER, *PUBLIC_ROUTE),
        proofs=SPENDERS,
        scope=Scope.TRADE_READ,
    )
    async def get_credit_history(self, request: Request) -> Response:
        """Where credits came from and went, of a credit token or of the user of an API key.

        Returns what moved the balance of the credit token, or of the user of the API key, newest
        first, and the sum of what requests have spent. Costs nothing.
        """
        account = self.gate.payer(await self.gate.admit(request)).account
        nothing = Statement(balance=0, spent=0, entries=[])
        statement = nothing if account is None else await self.ledger.statement(account)
        entries = [
            HistoryLine(
                kind=entry.kind, credits=entry.delta, balance=entry.balance, at=entry.at // 1000
            )
            for entry in statement.entries
        ]
        days = [DayLine(day=each.day * DAY_S, credits=each.credits) for each in statement.days]
        history = History(
            balance=statement.balance, spent=statement.spent, entries=entries, days=days
        )
        return success(request, history, at=self.clock.now())


def _bundle(request: Request) -> Bundle:
    """Return the bundle that the query names.

    Raises InvalidBundle.
    """
    query = request.scope.get("query_string", b"").decode("latin-1")
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as cause:
        raise InvalidBundle("expected ?bundle=<size>; the query cannot be read") from cause
    sizes = [value for name, value in fields if name == "bundle"]
    if len(sizes) > 1:
        raise InvalidBundle(f"expected one bundle; there were {len(sizes)}")
    return parse_bundle(sizes[0] if sizes else None)


def _currency(token: AcceptedToken) -> Currency:
    return Currency(
        asset=token.terms.asset,
        name=token.name,
        network=token.terms.network,
        decimals=token.terms.decimals,
        symbol=token.symbol,
    )


def _line(price_list: PriceList, bundle: Bundle) -> BundleLine:
    priced = price_list.price(bundle)
    return BundleLine(
        credits=bundle.credits,
        price=priced.price,
        price_per_credit=priced.per_credit,
        discount=f"{bundle.discount_percent}%",
        price_usd=f"{bundle.usd.normalize():f}",
    )
