"""The handlers under /v1/credits that sell, and those that tell what became of it."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from mintscope.base.clock import Clock
from mintscope.base.errors import InvalidBundle, MissingToken, PaymentRequired, PriceUnavailable
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.payments.facilitator import Contradiction, Credits
from mintscope.core.payments.outcome import Settled
from mintscope.core.payments.payment import PaidReport, TopUp
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle, PriceList, parse_bundle
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.api.gate import Caller, Gate
from mintscope.edges.api.shop import Shop
from mintscope.edges.api.wire import (
    BundleLine,
    Bundles,
    Currency,
    History,
    HistoryLine,
    Meta,
    Purchase,
    Wire,
    success,
    timestamp,
)
from mintscope.edges.api.x402 import NO_SALES, PaidResource, ResourceServer
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import NO_STORE, Response

NOTHING_PRESENTED: Final = (
    "A bundle is paid for on the terms of the header PAYMENT-REQUIRED, with PAYMENT-SIGNATURE."
)
ON_ANOTHER: Final = (
    "The payment has arrived and its credits are on the credit token that was sent with it;"
    " expected that token in the Authorization header."
)
QUERY_FIELDS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRoutes:
    """What a client may buy, buy it, and see where it went.

    shop    and till: None where nothing is for sale
    """

    gate: Gate
    ledger: CreditLedger
    shop: Shop | None
    till: ResourceServer | None
    clock: Clock

    async def list_bundles(self, request: Request) -> Response:
        """Endpoint 2: the bundles at the prices of this minute."""
        await self.gate.admit(request)
        if self.shop is None:
            raise PriceUnavailable(NO_SALES)
        price_list = await self.shop.board.price_list()
        terms = self.shop.facilitator.terms
        currency = Currency(
            asset=terms.asset,
            name=self.shop.name,
            network=terms.network,
            decimals=terms.decimals,
            symbol=self.shop.symbol,
        )
        lines = [_line(price_list, bundle) for bundle in BUNDLES]
        return self._response(request, 200, Bundles(bundles=lines, currency=currency))

    async def buy(self, request: Request) -> Response:
        """Endpoint 3: check, settle, hand out; a credit token sent along is topped up."""
        caller = await self.gate.admit(request)
        bundle = _bundle(request)
        if self.till is None:
            raise PriceUnavailable(NO_SALES)
        offer = _offer(bundle)
        bill = await self.till.open(request, offer) if request.has_payment() else None
        if not isinstance(bill, Settled):
            account = None if caller.bearer is None else self.gate.account(caller)
            if bill is None:
                await self.till.ask(request, offer, why=NOTHING_PRESENTED)
                raise PaymentRequired(NOTHING_PRESENTED)
            wanted = (
                Credits(bundle.credits)
                if account is None
                else TopUp(credits=bundle.credits, account=account)
            )
            bill = await self.till.settle(request, offer, bill, wanted)
        token, count = _handed_out(bill, caller)
        purchase = Purchase(token=token, credits=count, price_paid=bill.payment.paid)
        return self._response(request, 201, purchase)

    async def get_history(self, request: Request) -> Response:
        """Tell what moved the balance of a credit token, newest first."""
        account = self.gate.account(await self.gate.admit(request))
        statement = await self.ledger.statement(account)
        entries = [
            HistoryLine(
                kind=entry.kind, credits=entry.delta, balance=entry.balance, at=entry.at // 1000
            )
            for entry in statement.entries
        ]
        history = History(balance=statement.balance, spent=statement.spent, entries=entries)
        return self._response(request, 200, history)

    def _response(self, request: Request, status: int, data: Wire) -> Response:
        request.response_headers.append(NO_STORE)
        return Response(status, success(data, Meta(timestamp=timestamp(self.clock.now()))))


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


def _handed_out(bill: Settled, caller: Caller) -> tuple[str, int]:
    """Return the credit token that holds what *bill* has bought, and how many credits that is.

    Raises MissingToken where it is a token that *caller* has not shown.
    """
    goods, token = bill.payment.goods, bill.token
    if isinstance(goods, TopUp):
        if caller.account != goods.account or caller.bearer is None:
            raise MissingToken(ON_ANOTHER)
        return caller.bearer, goods.credits
    if isinstance(goods, PaidReport) or token is None:
        raise Contradiction(f"expected credits; {bill.payment.signature} bought something else")
    return token, goods.credits


def _offer(bundle: Bundle) -> PaidResource:
    resource = Resource(f"/v1/credits/purchase?bundle={bundle.credits}")
    return PaidResource(resource, lambda price_list: price_list.price(bundle).price)


def _line(price_list: PriceList, bundle: Bundle) -> BundleLine:
    priced = price_list.price(bundle)
    return BundleLine(
        credits=bundle.credits,
        price=priced.price,
        price_per_credit=priced.per_credit,
        discount=f"{bundle.discount_percent}%",
        price_usd=f"{bundle.usd.normalize():f}",
    )
