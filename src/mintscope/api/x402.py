"""Sells over HTTP: credentials and payments come in headers, and so do receipts and refusals."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from typing import Any, Final, NoReturn
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import NODEFAULT, UNSET

from mintscope.api import failures
from mintscope.api.checkout import open_checkout
from mintscope.api.discovery.bazaar import Adverts
from mintscope.api.gate import HEADER as SIGN_IN_HEADER
from mintscope.api.gate import (
    IDEMPOTENCY_KEY,
    Caller,
    Gate,
    KeptAnswers,
    SignIns,
    idempotency_key,
    name_of,
)
from mintscope.api.series.wire import CandlesQuery, IndicatorsQuery, SwapsQuery
from mintscope.api.wire import AcceptedAsset, HowToPay
from mintscope.credits.ledger import NUMBERS, CreditLedger, Debited, Reversal
from mintscope.kit.errors import (
    BadRequest,
    InvalidPayment,
    PaymentUnavailable,
    PriceUnavailable,
    ServiceError,
)
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Header
from mintscope.kit.http.routes import Route
from mintscope.kit.metrics import PAYMENTS
from mintscope.kit.primitives import Mint
from mintscope.kit.time import iso_time
from mintscope.market.report import ReadReport
from mintscope.market.series.series import WIDTHS
from mintscope.market.timeframe import Timeframe
from mintscope.payments.audit import SoldItem
from mintscope.payments.checkout import (
    Charge,
    CheckoutRefused,
    CreditCharge,
    NothingPresented,
    PaymentCharge,
    PaymentOption,
    Receipt,
    Work,
)
from mintscope.payments.facilitator import Wanted
from mintscope.payments.merchant import Merchant, Order, receipt_extension
from mintscope.payments.ports import Obstacle, Settled, Unavailable, Unresolved
from mintscope.payments.pricing import BUNDLES, Bundle
from mintscope.payments.protocol.envelope import Refused, Requirement, Resource, ResourceKind
from mintscope.payments.protocol.headers import (
    NO_MORE,
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
    Advert,
    Presented,
    decode_payment,
    encode_refused,
    encode_required,
    encode_settled,
)
from mintscope.payments.protocol.mpp import (
    CHALLENGE_HEADER,
    RECEIPT_HEADER,
    accepts_charge,
    decode_credential,
    encode_challenge,
    encode_receipt,
)

# Reports, pages of series and pages of screens: each costs one credit.
TOKEN_KIND: Final = ResourceKind("/v1/token")
SCREEN_KIND: Final = ResourceKind("/v1/screen")
QUERY_MAX: Final = 256  # characters of a query in a resource, which headers contain


def bundle_resource(bundle: Bundle) -> Resource:
    """Return the name under which *bundle* is sold: the path and the query of its purchase."""
    return Resource(f"/v1/credits/purchase?bundle={bundle.credits}")


def report_resource(mint: Mint) -> Resource:
    """Return the name under which the report of *mint* is sold: its path."""
    return Resource(f"/v1/token/{mint}")


def series_resource(mint: Mint, kind: str, query: msgspec.Struct) -> Resource:
    """Return the name under which a page of data about *mint* is sold: its path and its query.

    A long query is replaced by its digest.
    """
    return Resource(f"/v1/token/{mint}/{kind}?{_named(query)}".rstrip("?"))


def udf_resource(query: msgspec.Struct) -> Resource:
    """Return the name under which a query of GET /v1/udf/history is sold: its path and query.

    A long query is replaced by its digest.
    """
    return Resource(f"/v1/udf/history?{_named(query)}")


def screen_resource(query: msgspec.Struct, shape: type[msgspec.Struct]) -> Resource:
    """Return the name under which a page of a screen is sold: its path, and its query of *shape*.

    A long query is replaced by its digest.
    """
    asked = _named(msgspec.convert(query, shape, from_attributes=True))
    return Resource(f"/v1/screen?{asked}".rstrip("?"))


def _named(query: msgspec.Struct) -> str:
    """Return *query* in the form of a URL, without default values; if that is long, its hash."""
    asked = _asked(query)
    return f"sha256={sha256(asked.encode()).hexdigest()}" if len(asked) > QUERY_MAX else asked


def _asked(query: msgspec.Struct) -> str:
    # With and without a default in its query, a resource is the same: one quote, one cached page.
    return urlencode(
        [
            (name, ",".join(map(str, value)) if isinstance(value, list) else str(value))
            for attribute, name, default in _defaults(type(query))
            if (value := getattr(query, attribute)) != default
        ]
    )


@cache  # without it, each call reads annotations: 10 % of the time of a request for candles
def _defaults(shape: type[msgspec.Struct]) -> list[tuple[str, str, Any]]:
    """Return attribute, name in a query and default of each field of *shape*."""
    return [
        (
            field.name,
            field.encode_name,
            field.default if field.default_factory is NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(shape)
    ]


# Pages for requests that set at most a timeframe; each follows the path of a mint.
NEWEST_PAGES: Final = [
    series_resource(Mint(""), kind, query).removeprefix("/v1/token/")
    for kind, queries in (
        ("candles", [msgspec.convert({"tf": tf}, CandlesQuery) for tf in WIDTHS]),
        ("indicators", [msgspec.convert({"tf": tf}, IndicatorsQuery) for tf in Timeframe]),
        ("swaps", [SwapsQuery()]),
    )
    for query in queries
]


def bundle_offers() -> Iterator[SoldItem]:
    """Yield the bundles of credits that are for sale."""
    return (SoldItem(bundle_resource(bundle), bundle.credits) for bundle in BUNDLES)


def report_offers(mints: Iterable[Mint]) -> Iterator[SoldItem]:
    """Yield all that is sold for one credit.

    The first are the reports of *mints* and their newest pages.  The last two stand for all other
    resources: pages with a range, a cursor or a limit, mints no longer tracked, and screens.
    """
    for mint in mints:
        yield SoldItem(report_resource(mint), 1)
        for page in NEWEST_PAGES:
            yield SoldItem(Resource(f"/v1/token/{mint}{page}"), 1)
    yield SoldItem(TOKEN_KIND, 1)
    yield SoldItem(SCREEN_KIND, 1)


def how_to_pay(  # noqa: PLR0913 - one argument for each part
    merchant: Merchant,
    order: Order,
    requirements: Sequence[Requirement],
    advert: Advert | None,
    *,
    trial: str | None = None,
    more: Mapping[str, Any] = NO_MORE,
) -> HowToPay:
    """Return the details of a 402 body, for clients that cannot read its header.

    trial   the path of the free trial; None if the route has no trial
    more    x402 extensions, in addition to the one of *advert*
    """
    accepts = [
        AcceptedAsset(
            asset=each.terms.asset,
            symbol=merchant.payment_token(each.terms.asset).symbol,
            decimals=each.terms.decimals,
            amount=str(each.amount),
            network=each.terms.network,
            pay_to=each.terms.pay_to,
        )
        for each in requirements
    ]
    extensions = dict(more) if advert is None else {"bazaar": advert.bazaar} | dict(more)
    return HowToPay(
        price_usd=f"{order.usd.normalize():f}",
        accepts=accepts,
        read=f"{merchant.origin}/llms.txt",
        buy=merchant.origin + bundle_resource(BUNDLES[0]),
        trial=UNSET if trial is None else merchant.origin + trial,
        description=UNSET if advert is None else advert.description,
        extensions=extensions or UNSET,
    )


ACCEPT_PAYMENT: Final = b"accept-payment"
AUTHORIZATION: Final = b"authorization"
RECEIPT_SHOWN: Final[Header] = (b"access-control-expose-headers", RECEIPT_HEADER.encode())
OF_VERSION_1: Final = b"x-payment"
REPLAYED: Final[Header] = (b"idempotent-replayed", b"true")
READY: Final[Header] = (b"x-token-status", b"ready")
PAYMENT_REQUIRED_STATUS: Final = 402
PENDING_RETRY_S: Final = 2
UNPAID: Final = "Payment required"


class ResourceServer:
    """Sells answers and credits to HTTP requests; raises a ServiceError for each refusal."""

    def __init__(
        self,
        ledger: CreditLedger,
        merchant: Merchant | None,
        gate: Gate,
        adverts: Adverts,
        kept: KeptAnswers,
    ) -> None:
        self._gate = gate
        self._adverts = adverts
        self._merchant = merchant
        self._checkout = open_checkout(ledger, merchant)
        self._kept = kept
        self._sign_ins = SignIns(merchant, self._checkout, kept)

    async def sell_report(
        self, request: Request, caller: Caller, order: Order, work: Work
    ) -> ReadReport:
        """Return the result of *work*, paid with credits or with a payment.

        The credits are those of *caller*, or of the wallet that signs in with the request.  All or
        none are taken, and they are given back if the response cannot be sent.
        """
        order = _for_holder(request, order)
        try:
            kept_as = None
            if _signs_in(request, caller):
                signed = await self._sign_ins.authorize(request, order)
                kept_as = await self._sign_ins.name_of(request, signed)
                receipt = await self._sign_ins.settle(request, signed, work, name=kept_as)
            else:
                charge = await self._authorize(request, caller, order, work)
                receipt = await self._settle(request, charge, work)
        except CheckoutRefused as refused:
            # The account of a rotated token is empty: report the invalid token, not the shortage.
            await self._expect_known(request, caller)
            more = NO_MORE if self._merchant is None else self._sign_ins.challenge(order)
            unpaid = failures.unpaid_text(order)
            raise self._as_error(request, order, refused, unpaid=unpaid, more=more) from refused
        if receipt.taken is None:
            await self._expect_known(request, caller)
        else:
            # No await since the debit: a cancellation before `if_unsent` would lose the credits.
            kept_as = (kept_as or receipt.taken.once) if receipt.is_bought else None
            request.if_unsent = partial(self._take_back, receipt.taken, kept_as)
        if receipt.balance is not None:
            request.response_headers.append((b"x-credits-remaining", b"%d" % receipt.balance))
        if receipt.payment is not None:
            await self._tell_settled(request, receipt.payment)
        return receipt.report

    async def _expect_known(self, request: Request, caller: Caller) -> None:
        """Raise InvalidToken if *caller* comes from a cache, and its token was rotated since."""
        if caller.is_recalled:
            self._gate.payer(await self._gate.look_again(request, caller))

    async def expect_credits(
        self, request: Request, caller: Caller, order: Order, credit_count: int
    ) -> None:
        """Raise CheckoutRefused if *caller* cannot spend *credit_count* credits now.

        CheckoutRefused is not raised if the answer was bought earlier with the Idempotency-Key of
        *request*.  Raises the errors of `Gate.payer` and `SignIns.authorize`, too.  If the cost of
        some work becomes known step by step, call this before each step.
        """
        if _signs_in(request, caller):
            charge = await self._sign_ins.authorize(request, order)
        else:
            charge = await self._credit_charge(request, caller, order)
        await charge.expect(credit_count)

    async def _settle(self, request: Request, charge: Charge, work: Work) -> Receipt:
        """Take payment for the result of *work*; an answer that was paid before is sent again."""
        name = charge.once if isinstance(charge, CreditCharge) else None
        if name is None:
            return await charge.settle(work)
        began_at = self._kept.now()
        receipt = await charge.settle(partial(self._kept.found_or, name, work))
        if receipt.balance is None:  # a free answer, which does not use up the key
            return receipt
        is_bought = receipt.is_bought
        # A repeated request that finds no cached answer in this process has read the answer again.
        kept = None if is_bought else self._kept.find(name)
        if not is_bought:
            request.response_headers.append(REPLAYED)  # and a redelivery needs no 402 before it
        if kept is not None:
            return msgspec.structs.replace(receipt, report=kept.report)
        self._kept.keep(
            name, receipt.report, receipt.credit_count, at=began_at, is_bought=is_bought
        )
        return receipt

    def _take_back(self, taken: Reversal, kept_as: str | None) -> None:
        """Undo the debit *taken*, and forget the answer that it paid for.

        kept_as   the name of the answer in the cache; None: it is not cached, or was bought earlier
        """
        if kept_as is not None:
            self._kept.forget(kept_as)
        self._checkout.expect_debits().owe(taken)

    async def expect_minute(
        self, request: Request, caller: Caller, order: Order, credit_count: int
    ) -> None:
        """Raise the refusal of `prepay` if *caller* cannot spend *credit_count* credits now.

        Call this before work for a stream whose first minute is not paid yet.
        """
        charge = self._checkout.authorize_credit(order, self._gate.payer(caller))
        try:
            await charge.expect(credit_count)
        except CheckoutRefused as refused:
            raise self._as_error(request, order, refused) from refused

    async def prepay(
        self, request: Request, caller: Caller, order: Order, credit_count: int
    ) -> Debited:
        """Take *credit_count* credits of *caller* for a new minute of a stream.

        Payments are not accepted.  Call `note_sent` once the minute stays paid, or `give_back` if
        it does not.  If the process dies before either call, the credits are given back.
        """
        if caller.bearer is None:
            raise self._as_error(
                request, order, await self._unpaid(order), unpaid=failures.NO_CREDITS_PRESENTED
            )
        payer = self._gate.payer(caller)
        try:
            charge = self._checkout.authorize_credit(order, payer, endpoint=_number(request))
            return await charge.prepay(credit_count)
        except CheckoutRefused as refused:
            raise self._as_error(request, order, refused) from refused

    async def give_back(self, debited: Debited, credit_count: int) -> None:
        """Give back up to *credit_count* of the prepaid credits *debited*, each at most once."""
        await self._checkout.expect_debits().give_back(debited, credit_count)

    def note_sent(self, debited: Debited) -> None:
        """Record that the answer for prepaid credits was sent, so that they are not refunded."""
        self._checkout.expect_debits().note_sent(debited)

    async def sell_credits(
        self, request: Request, order: Order, wanted: Callable[[], Awaitable[Wanted]]
    ) -> Settled:
        """Take the payment in *request* for the credits that *wanted* returns.

        wanted   returns the credits to sell, and the account to which they are added
        Raises   PriceUnavailable without sales or a price, or the ServiceError for a refusal
        """
        if self._merchant is None:
            raise PriceUnavailable(failures.NO_SALES)
        order = _for_holder(request, order)
        try:
            if not request.has_payment():
                await wanted()  # an invalid credit token is reported first
                await self._refuse_unpaid(self._merchant, order)
            charge = await self._authorize_payment(request, order)
            settled = await charge.pay(wanted)
        except CheckoutRefused as refused:
            raise self._as_error(
                request, order, refused, unpaid=failures.NO_PAYMENT_PRESENTED
            ) from refused
        await self._tell_settled(request, settled)
        return settled

    async def _authorize(
        self, request: Request, caller: Caller, order: Order, work: Work
    ) -> Charge:
        if request.has_payment():
            return await self._authorize_payment(request, order)
        if caller.bearer is None and order.is_for_credits:
            raise await self._unpaid(order)  # no work for clients that present nothing
        if caller.bearer is None:
            raise await self._checkout.refuse_unpaid(order, work)  # says if an answer is ready
        return await self._credit_charge(request, caller, order)

    async def _credit_charge(self, request: Request, caller: Caller, order: Order) -> CreditCharge:
        payer = self._gate.payer(caller)
        key = idempotency_key(request)
        once = None
        if key is not None and payer.account is not None:
            once = await name_of(request, payer.account, key)
        return self._checkout.authorize_credit(order, payer, once=once, endpoint=_number(request))

    async def _unpaid(self, order: Order) -> CheckoutRefused:
        return CheckoutRefused(NothingPresented(), option=await self._checkout.option(order))

    async def _authorize_payment(self, request: Request, order: Order) -> PaymentCharge:
        if order.is_for_credits:
            raise InvalidPayment(failures.FOR_CREDITS)
        if self._merchant is None:
            raise PaymentUnavailable(failures.NO_SALES)
        try:
            presented = _presented(request)
            key = _redelivery_key(request, presented)
        except (InvalidPayment, BadRequest):
            PAYMENTS.labels("invalid", "").inc()
            raise
        return await self._checkout.authorize_payment(
            order, presented, key=key, address=self._gate.address(request)
        )

    async def _refuse_unpaid(self, merchant: Merchant, order: Order) -> NoReturn:
        if merchant.is_closed():
            raise CheckoutRefused(Unavailable(Obstacle.SALES_CLOSED))
        option = PaymentOption(requirements=await merchant.quote(order))
        raise CheckoutRefused(NothingPresented(), option=option)

    async def _tell_settled(self, request: Request, settled: Settled) -> None:
        if settled.redelivered:
            request.response_headers.append(REPLAYED)
        assert self._merchant is not None
        response = encode_settled(
            self._merchant.facilitator.terms,
            payer=settled.payment.payer,
            signature=settled.payment.signature,
            extensions=receipt_extension(self._merchant.sign_receipt(settled.payment)),
        )
        request.response_headers.append(_header(PAYMENT_RESPONSE, response))
        if request.has_payment_of_mpp():
            at = iso_time(settled.payment.begun_at)
            receipt = encode_receipt(signature=settled.payment.signature, settled_at=at)
            request.response_headers += (_header(RECEIPT_HEADER, receipt), RECEIPT_SHOWN)
        if not settled.redelivered:  # a redelivery needs no 402 before it
            await self._gate.give_back(request)

    def _as_error(
        self,
        request: Request,
        order: Order,
        refused: CheckoutRefused,
        *,
        unpaid: str = failures.NOTHING_PRESENTED,
        more: Mapping[str, Any] = NO_MORE,
    ) -> ServiceError:
        """Add the headers for *refused* to the response, and return the error to raise.

        more    x402 extensions of the 402, in addition to the usual ones
        """
        headers = request.response_headers
        cause = refused.cause
        option = refused.option
        if OF_VERSION_1 in request.headers:
            unpaid = f"{failures.VERSION_1} {unpaid}"
        error = failures.error_of(refused, unpaid=unpaid)
        if refused.is_ready:
            headers.append(READY)
        if option is not None and option.requirements and self._merchant is not None:
            # The body has the general texts, because headers must be short for proxies.
            words = str(error).removeprefix(unpaid).strip() or UNPAID
            why = cause.reason if isinstance(cause, Refused) else words
            headers += self._demands(self._merchant, request, option.requirements, why, more)
        match cause:
            case Refused(reason=reason, signature=signature) if self._merchant is not None:
                terms = self._merchant.facilitator.terms
                response = encode_refused(terms, reason=reason, signature=signature)
                headers.append(_header(PAYMENT_RESPONSE, response))
            case Unresolved(key=key):
                headers.append((b"retry-after", b"%d" % PENDING_RETRY_S))
                if key is not None:
                    headers.append((IDEMPOTENCY_KEY, key.encode()))
            case Unavailable(obstacle):
                headers.append((b"retry-after", b"%d" % failures.OBSTACLE_RETRY_S[obstacle]))
            case _:
                pass
        if option is not None and not option.requirements:
            error = failures.with_credits_only(error, option)
        if failures.STATUS[error.code] == PAYMENT_REQUIRED_STATUS and self._merchant is not None:
            requirements = () if option is None else option.requirements
            advert = self._adverts.find_whole(request.method, request.route)
            trial = self._adverts.trial(request.route, request.path_params)
            error.details = how_to_pay(
                self._merchant, order, requirements, advert, trial=trial, more=more
            )
        return error

    def _demands(
        self,
        merchant: Merchant,
        request: Request,
        requirements: Sequence[Requirement],
        why: str,
        more: Mapping[str, Any],
    ) -> list[Header]:
        """Return the headers of a 402: PAYMENT-REQUIRED and, if the client accepts MPP, challenges.

        Headers must be short for proxies.  If there are challenges, PAYMENT-REQUIRED therefore has
        no extensions, which are in the body, and no blockhash, which is in the challenge.
        """
        origin = merchant.origin
        if not accepts_charge(request.value(ACCEPT_PAYMENT)):
            advert = self._adverts.find(request.method, request.route)
            demand = encode_required(
                *requirements, origin=origin, error=why, advert=advert, more=more
            )
            return [_header(PAYMENT_REQUIRED, demand)]
        plain = [msgspec.structs.replace(each, recent=None) for each in requirements]
        realm = urlsplit(origin).netloc
        return [
            _header(
                PAYMENT_REQUIRED, encode_required(*plain, origin=origin, error=why, is_bare=True)
            ),
            *(
                _header(CHALLENGE_HEADER, encode_challenge(each, realm=realm))
                for each in requirements
            ),
        ]


def is_bare(request: Request, caller: Caller) -> bool:
    """Return whether *request* has no credential, no payment and no wallet's signature."""
    return not (request.has_payment() or caller.bearer is not None or _signs_in(request, caller))


def _signs_in(request: Request, caller: Caller) -> bool:
    """Return whether *request* has a sign-in and no payment.

    Raises BadRequest if *request* has a sign-in and Authorization, but no payment.
    """
    if SIGN_IN_HEADER not in request.headers or request.has_payment():
        return False  # a client without credits pays, and may send its earlier headers again
    if caller.bearer is not None:
        raise BadRequest("expected Authorization or SIGN-IN-WITH-X; there were both")
    return True


def _number(request: Request) -> int | None:
    found = request.found
    return NUMBERS.get(f"{found.method} {found.path}") if isinstance(found, Route) else None


def _presented(request: Request) -> Presented:
    values = request.values(PAYMENT_SIGNATURE.lower().encode())
    if len(values) + request.has_payment_of_mpp() > 1:
        raise InvalidPayment(
            f"expected one {PAYMENT_SIGNATURE} or Authorization: Payment header; there were several"
        )
    return decode_payment(values[0]) if values else decode_credential(request.value(AUTHORIZATION))


def _redelivery_key(request: Request, presented: Presented) -> str | None:
    """Return the key by which the client can fetch a paid answer again; None if it sent none.

    The key is the Idempotency-Key or the payment identifier.  Raises BadRequest if both are present
    and differ, and for an invalid Idempotency-Key.
    """
    key = idempotency_key(request)
    if key is None or presented.identifier is None:
        return key or presented.identifier
    if key != presented.identifier:
        raise BadRequest("expected one key; Idempotency-Key and payment-identifier differ")
    return key


def _for_holder(request: Request, order: Order) -> Order:
    """Return *order* with the Idempotency-Key of *request*, if it has one, as the order's key.

    Raises BadRequest for an invalid key, before anything is paid.
    """
    key = idempotency_key(request)
    return order if key is None else replace(order, key=key)


def _header(name: str, value: str) -> Header:
    return name.lower().encode(), value.encode()
