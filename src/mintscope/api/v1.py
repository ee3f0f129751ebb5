"""The endpoints of reports: one token, a batch of tokens, and the free trial."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import (
    OF_A_TOKEN,
    OF_CREDITS,
    PAYERS,
    PUBLIC_ROUTE,
    SPENDERS,
    Operation,
    PriceRange,
)
from mintscope.api.gate import Caller, Gate
from mintscope.api.query import NoQuery, read_query
from mintscope.api.wire import (
    ErrorBody,
    ReportQuery,
    TokenQuery,
    Wire,
    read_body,
    success_with_body,
)
from mintscope.api.x402 import ResourceServer, report_resource
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import is_known
from mintscope.kit.http.rate_limit import AddressLimit, FreeViews
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Header, Response
from mintscope.kit.limits import Limits, take_all
from mintscope.kit.primitives import EACH_ONCE, AddressText, Mint, Slot, UnixS, about, parse_mint
from mintscope.kit.time import SECOND_MS
from mintscope.market.report import PLAIN, ReadReport, ReportKind, Reports, TokenReport
from mintscope.market.series.past import Moment, OutOfReach, past_report
from mintscope.market.series.pools import SeriesReader
from mintscope.payments.checkout import CheckoutRefused, Delivered
from mintscope.payments.merchant import Order, report_order
from mintscope.payments.pricing import REQUEST_USD
from mintscope.payments.protocol.envelope import Resource
from mintscope.solana.blocks import USDC, WSOL

REPORT_PATH: Final = "/v1/token/{tokenAddress}"
DEGRADED_AFTER_S: Final = 30.0
STALE_AFTER_S: Final = 300.0
IDLE_AFTER_S: Final = 300.0

PRIVATE: Final[Header] = (b"cache-control", b"private, no-store")
# The client may cache the response, but must always revalidate it.
CHECKED: Final[Header] = (b"cache-control", b"private, no-cache")
LIVE: Final[Header] = (b"x-data-status", b"live")
DEGRADED: Final[Header] = (b"x-data-status", b"degraded")
IDLE: Final[Header] = (b"x-data-status", b"idle")
MOMENT: Final = re.compile(r"(?P<word>slot:)?(?P<number>[0-9]{1,12})")
PAST: Final[Header] = (b"x-data-status", b"past")

TOKEN_STATUS: Final = {
    errors.ErrorCode.TOKEN_NOT_FOUND: b"not-tracked",
    errors.ErrorCode.INSUFFICIENT_DATA: b"insufficient-data",
    errors.ErrorCode.DATA_STALE: b"stale",
}
UNAVAILABLE: Final = b"unavailable"
IF_NONE_MATCH: Final = b"if-none-match"

mint_of: Final = lru_cache(maxsize=10_000)(parse_mint)  # a few mints are requested again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Decides by the age of data whether a report is sold, and how it is marked.

    degraded_after_s   older data is marked as degraded
    stale_after_s      older data is not sold
    idle_after_s       a token is marked as idle if the data is new, but its price is older than
                       this
    """

    degraded_after_s: float = DEGRADED_AFTER_S
    stale_after_s: float = STALE_AFTER_S
    idle_after_s: float = IDLE_AFTER_S

    def expect(self, report: ReadReport) -> None:
        """Raise DataStale if *report* is too old to be sold."""
        if not self.allows(report):
            raise errors.DataStale(
                f"The newest data is {report.age_ms // 1000} s old;"
                f" older than {self.stale_after_s:g} s is not sold. Nothing was charged."
            )

    def allows(self, report: ReadReport) -> bool:
        """Return whether *report* may be sold: it is at most `stale_after_s` seconds old."""
        return report.age_ms <= self.stale_after_s * 1000

    def is_idle(self, report: ReadReport) -> bool:
        """Return whether the price in *report* is older than `idle_after_s`; False if unknown."""
        price_age_ms = report.price_age_ms
        return price_age_ms is not None and price_age_ms > self.idle_after_s * 1000

    def headers(
        self, *, slot: int, age_ms: int, is_idle: bool = False, cache: Header = PRIVATE
    ) -> tuple[Header, ...]:
        """Return the headers of a report.

        They are *cache*, the slot and the age of its data, and its status: live, degraded or idle.
        """
        is_live = age_ms <= self.degraded_after_s * 1000
        return (
            cache,
            (b"x-data-slot", b"%d" % slot),
            (b"x-data-age-ms", b"%d" % age_ms),
            DEGRADED if not is_live else IDLE if is_idle else LIVE,
        )

    def response(self, request: Request, report: ReadReport, clock: Clock) -> Response:
        """Return the response that has *report* as its `data`.

        Add the headers for the freshness and caching of *report* to `request.response_headers`.
        """
        request.response_headers += self.headers(
            slot=report.slot, age_ms=report.age_ms, is_idle=self.is_idle(report)
        )
        body = success_with_body(report.body, at=clock.now(), request_id=request.request_id)
        return Response(200, body)


@lru_cache(maxsize=10_000)  # a few mints are requested again and again
def order_of(mint: Mint) -> Order:
    """Return the order, which names what is for sale, for the report of *mint*."""
    return report_order(report_resource(mint))


@dataclass(frozen=True, slots=True, kw_only=True)
class V1:
    """The routes that sell reports, past and present; its parts also serve other routes."""

    reports: Reports
    gate: Gate
    clock: Clock
    freshness: Freshness
    resource_server: ResourceServer
    series: SeriesReader | None = None

    @Operation(
        "GET",
        REPORT_PATH,
        TokenReport,
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        is_conditional=True,
        query=TokenQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_token(self, request: Request) -> Response:
        """Price and indicators of a token, as of the newest block.

        Returns the price of a Solana token in USD and SOL, and EMA 9, 21, 50, 200, RSI 14, MACD
        (12, 26, 9) and Fibonacci levels from candles of 1, 5, 15 and 60 minutes, with the share of
        buys in the volume from 1 minute to 24 hours. Costs one credit or one payment; errors cost
        nothing. Data is a block behind the chain (X-Data-Age-Ms). price.confidence rates the price.
        An indicator is null without enough candles. coverage is the part of trades that was read.
        partial=true returns young tokens.
        """
        caller = await self.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        asked = read_query(request, TokenQuery)
        kind = kind_of(asked)
        if asked.at:
            return await self._get_past(request, caller, mint, asked)
        # To strangers, 304 would show for free that a report exists, and that a guess of its tag is
        # right.  A payment was made for a report, so its tag is not compared.
        if IF_NONE_MATCH in request.headers and caller.bearer and not request.has_payment():
            unchanged = await self._unchanged(request, caller, mint, kind)
            if unchanged is not None:
                return unchanged
        report = await self.resource_server.sell_report(
            request, caller, order_of(mint), partial(self._read, request, mint, kind)
        )
        return self._response(request, report)

    async def _get_past(
        self, request: Request, caller: Caller, mint: Mint, asked: TokenQuery
    ) -> Response:
        """Sell the report of *mint* as of the time or slot in *asked*, and return the response."""
        moment = moment_of(asked.at)

        async def read() -> Delivered:
            report = await self._read_past(request, mint, asked, moment)
            request.expect_client()
            return Delivered(report)

        report = await self.resource_server.sell_report(request, caller, order_of(mint), read)
        request.response_headers += (
            PRIVATE,
            (b"x-data-slot", b"%d" % report.slot),
            (b"x-data-age-ms", b"%d" % report.age_ms),
            PAST,
        )
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body)

    async def _read_past(
        self, request: Request, mint: Mint, asked: TokenQuery, moment: Moment
    ) -> ReadReport:
        """Return the past report of *mint* at *moment*.

        If there is no report, raises a ServiceError with the reason, and adds X-Token-Status.
        """
        try:
            kind = kind_of(asked)
            return await read_past_report(self.series, mint, moment, kind, self.clock)
        except errors.ServiceError as failure:
            request.response_headers.append(token_status(failure))
            raise

    async def _unchanged(
        self, request: Request, caller: Caller, mint: Mint, kind: ReportKind
    ) -> Response | None:
        """Return a 304, which is free, if the client already has the current report; else None.

        A client without credits gets None, so that only clients that can pay may compare reports.
        """
        balance = await self.gate.balance(caller)
        if not balance:
            return None
        report = (await self._read(request, mint, kind)).report
        if not report.tag or not is_known(request, report.tag):
            return None
        request.response_headers.append((b"x-credits-remaining", b"%d" % balance))
        request.response_headers += self._headers(report)
        return Response(304, headers=())

    async def _read(self, request: Request, mint: Mint, kind: ReportKind) -> Delivered:
        """Return the report of *mint*, if it may be sold, with its cost.

        Raises ServiceError if no report may be sold, or if the client has left.
        """
        report = await self.read_fresh(request, mint, kind)
        request.expect_client()  # the charge follows: a client that has left must not pay
        return Delivered(report)

    async def read_fresh(self, request: Request, mint: Mint, kind: ReportKind) -> ReadReport:
        """Return the report of *mint*, if it is fresh enough to be sold.

        Otherwise, raises a ServiceError with the reason, and adds X-Token-Status to the response.
        """
        try:
            report = await self.reports.read(mint, kind)
            self.freshness.expect(report)
        except errors.ServiceError as failure:
            request.response_headers.append(token_status(failure))
            raise
        return report

    def _response(self, request: Request, report: ReadReport) -> Response:
        request.response_headers += self._headers(report)
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body)

    def _headers(self, report: ReadReport) -> tuple[Header, ...]:
        cache = CHECKED if report.tag else PRIVATE  # without a tag it is a redelivered answer
        fresh = self.freshness.headers(
            slot=report.slot,
            age_ms=report.age_ms,
            is_idle=self.freshness.is_idle(report),
            cache=cache,
        )
        return (*fresh, (b"etag", report.tag)) if report.tag else fresh


def kind_of(asked: ReportQuery) -> ReportKind:
    """Return the options of the requested report: timeframes, partial and closed candles."""
    return ReportKind(
        is_partial=asked.partial,
        is_closed=asked.candles == "closed",
        timeframes=tuple(sorted({*asked.timeframes})),  # equal kinds share the events of streams
    )


async def read_past_report(
    series: SeriesReader | None, mint: Mint, moment: Moment, kind: ReportKind, clock: Clock
) -> ReadReport:
    """Return the report of *mint* as it was at *moment*.

    Raises TokenNotFound, and InsufficientData, whose message has the time of the oldest possible
    report, if that time is known.
    """
    if series is None:
        raise errors.InsufficientData("This service keeps no past reports.")
    past = await series.past(mint, moment, kind.timeframes)
    if past is None:
        raise errors.TokenNotFound(f"This service does not track {mint}.")
    if isinstance(past, OutOfReach):
        raise errors.InsufficientData(_reach_said(moment, past))
    body = msgspec.json.encode(past_report(past, kind))
    follows_files = (await series.tip()).follows_files
    # Blocks from files have old times, which do not mean that the data is late.
    age_ms = 0 if follows_files else max(0, clock.now() - past.at.time * SECOND_MS)
    return ReadReport(body, past.at.slot, age_ms)


def moment_of(at: str) -> Moment:
    """Return the time or slot that *at* contains: `1763460000` or `slot:380000000`.

    Raises BadRequest.
    """
    found = MOMENT.fullmatch(at)
    if found is None:
        raise errors.BadRequest(
            f"at: expected Unix seconds, or slot: and its number; was {at[:30]!r}"
        )
    number = int(found["number"])
    return Moment(slot=Slot(number)) if found["word"] else Moment(time=UnixS(number))


def _reach_said(moment: Moment, reach: OutOfReach) -> str:
    if reach.since is None or reach.until is None:
        return "No block has been read yet."
    at = moment.time if moment.slot is None else f"slot:{moment.slot}"
    if reach.since > reach.until.time:
        return (
            f"There is no report as of {at}, and no other exact one yet: they begin at Unix time"
            f" {reach.since}, and the newest block is of {reach.until.time}."
        )
    return (
        f"There is no report as of {at}: exact ones reach from Unix time {reach.since} at the"
        f" earliest to slot {reach.until.slot} (Unix time {reach.until.time})."
    )


def token_status(failure: errors.ServiceError) -> Header:
    """Return the header X-Token-Status, which states in a word why there is no report."""
    return (b"x-token-status", TOKEN_STATUS.get(failure.code, UNAVAILABLE))


PATH: Final = "/v1/tokens/batch"
MINTS_MAX: Final = 50
NO_SLOT: Final = Slot(-1)
NOT_TRACKED: Final = {
    "code": errors.ErrorCode.TOKEN_NOT_FOUND.value,
    "message": f"This service does not track {USDC}.",
}
ORDER: Final = Order(Resource(PATH), price=lambda _: 0, is_for_credits=True)


class BatchRequest(ReportQuery, forbid_unknown_fields=True):
    """Body of POST /v1/tokens/batch: the requested reports."""

    mints: Annotated[
        list[AddressText],
        msgspec.Meta(
            min_length=1,
            max_length=MINTS_MAX,
            description="Token mint addresses, each once.",
            examples=[[WSOL]],
            extra_json_schema=EACH_ONCE,
        ),
    ]


class ReportLine(Wire):
    """One mint of a batch: its report, or the error that explains its absence."""

    token: Annotated[str, about("The mint, base58.", WSOL, USDC)]
    report: Annotated[
        TokenReport | UnsetType, about("The report of the mint, if there is one.")
    ] = UNSET
    error: Annotated[
        ErrorBody | UnsetType,
        about("The reason why there is no report.", NOT_TRACKED, instead_of="report"),
    ] = UNSET


class ReportBatch(Wire):
    """A line for each mint, in the order of the request."""

    delivered: Annotated[int, about("Number of reports, and of credits taken.", 1)]
    results: Annotated[list[ReportLine], about("A line for each mint.")]


@dataclass(frozen=True, slots=True)
class BatchRoute:
    """Sells reports of several tokens in one request; *v1* reads each of them."""

    v1: V1

    @Operation(
        "POST",
        PATH,
        ReportBatch,
        unit="for each report",
        price=PriceRange(REQUEST_USD, REQUEST_USD * MINTS_MAX),
        refusals=(*OF_CREDITS, errors.ErrorCode.PAYLOAD_TOO_LARGE, *PUBLIC_ROUTE),
        proofs=SPENDERS,
        is_charged=True,
        takes_key=True,
        body=BatchRequest,
        scope=Scope.TRADE_READ,
    )
    async def get_token_batch(self, request: Request) -> Response:
        """Reports of up to 50 tokens: a credit for each that is delivered.

        Returns the reports of up to 50 tokens, each as from GET /v1/token/{tokenAddress}, or the
        reason why there is none. Costs one credit for each report that is delivered, and nothing
        for the others; without enough credits for all of them nothing is delivered or charged. Paid
        with credits alone.
        """
        caller = await self.v1.gate.admit_buyer(request)
        read_query(request, NoQuery)
        asked = await read_body(request, BatchRequest)
        mints = each_once(asked.mints)
        delivered = await self.v1.resource_server.sell_report(
            request, caller, ORDER, partial(self._read_all, request, caller, mints, kind_of(asked))
        )
        if delivered.slot != NO_SLOT:  # without any report, there is no age to state
            return self.v1.freshness.response(request, delivered, self.v1.clock)
        request.response_headers.append(PRIVATE)
        body = success_with_body(
            delivered.body, at=self.v1.clock.now(), request_id=request.request_id
        )
        return Response(200, body)

    async def _read_all(
        self, request: Request, caller: Caller, mints: Sequence[Mint], kind: ReportKind
    ) -> Delivered:
        """Return the reports and errors of *mints* in one body, and their cost in credits.

        The slot and the age of the body are those of the oldest report.
        """
        if kind != PLAIN or not all(map(self.v1.reports.ready, mints)):
            await self._expect_credits(request, caller, mints, kind)
        found = await self._read_each(mints, kind)
        reports = [each for each in found if isinstance(each, ReadReport)]
        lines = b",".join(map(_line, mints, found))
        body = b'{"delivered":%d,"results":[%b]}' % (len(reports), lines)
        request.expect_client()
        return Delivered(
            ReadReport(
                body,
                min((each.slot for each in reports), default=NO_SLOT),
                max((each.age_ms for each in reports), default=0),
                price_age_ms=_newest(reports),  # a batch is idle only if all its tokens are
            ),
            credit_count=len(reports),
        )

    async def _expect_credits(
        self, request: Request, caller: Caller, mints: Sequence[Mint], kind: ReportKind
    ) -> None:
        """Raise CheckoutRefused if the client cannot pay for the reports of *mints*.

        The number of reports is known only when they have been read.  To read further timeframes is
        costly, so for a client with too few credits for all *mints*, the reports are first read and
        counted without timeframes.
        """
        expect = partial(self.v1.resource_server.expect_credits, request, caller, ORDER)
        await expect(1)
        if not kind.timeframes:
            return
        with suppress(CheckoutRefused):
            await expect(len(mints))
            return
        found = await self._read_each(mints, kind._replace(timeframes=()))
        await expect(sum(isinstance(each, ReadReport) for each in found))

    async def _read_each(
        self, mints: Sequence[Mint], kind: ReportKind
    ) -> Sequence[ReadReport | errors.ServiceError]:
        return await asyncio.gather(*(self._read(mint, kind) for mint in mints))

    async def _read(self, mint: Mint, kind: ReportKind) -> ReadReport | errors.ServiceError:
        """Return the report of *mint*, or the error that explains why it cannot be sold."""
        try:
            ready = self.v1.reports.ready(mint) if kind == PLAIN else None
            report = ready or await self.v1.reports.read(mint, kind)
            self.v1.freshness.expect(report)
        except errors.ServiceError as failure:
            return failure
        return report


def _newest(reports: Iterable[ReadReport]) -> int | None:
    """Return the age of the newest price in *reports*, in milliseconds.

    Returns None if the age of any price is unknown, or if there are no reports.
    """
    ages = [each.price_age_ms for each in reports]
    known = [age for age in ages if age is not None]
    return min(known) if known and len(known) == len(ages) else None


def _line(mint: Mint, found: ReadReport | errors.ServiceError) -> bytes:
    if isinstance(found, ReadReport):
        # The report is JSON already, and a mint, in base58, needs no escaping.
        return b'{"token":"%b","report":%b}' % (mint.encode(), found.body)
    error = ErrorBody(code=found.code, message=str(found))
    return msgspec.json.encode(ReportLine(token=mint, error=error))


def each_once(texts: Sequence[str]) -> list[Mint]:
    """Return the mints in *texts*.  Raises InvalidTokenAddress, or BadRequest for a duplicate."""
    mints = [mint_of(text) for text in texts]
    doubles = [mint for mint in dict.fromkeys(mints) if mints.count(mint) > 1]
    if doubles:
        raise errors.BadRequest(f"expected each mint once; {doubles[0]} appears more than once")
    return mints


TRIAL_PATH: Final = "/v1/trial/{tokenAddress}"
SPENT: Final = (
    "GET /v1/token/{{tokenAddress}} takes a payment or a credit (POST /v1/credits/purchase). This"
    " client address has used its {per_day} free reports"
)


@dataclass(frozen=True, slots=True)
class TrialBounds:
    """The limits of free reports for a client address in 24 hours.

    reports_per_day   the maximum number on this route, at least 1
    views_per_day     the maximum on this route and on pages together; 0: no free views on pages
    """

    reports_per_day: int
    views_per_day: int


class TrialRoute:
    """Serves reports without payment, up to the number a day that *bounds* allow a client."""

    def __init__(
        self, v1: V1, bounds: TrialBounds, *, requests: AddressLimit, limits: Limits
    ) -> None:
        self._v1 = v1
        self._bounds = bounds
        self._requests = requests
        self._counted = [FreeViews.of(bounds.reports_per_day, limits.limiter, name="trial")]
        if bounds.views_per_day:
            self._counted.append(FreeViews.of(bounds.views_per_day, limits.limiter))

    @Operation(
        "GET",
        TRIAL_PATH,
        TokenReport,
        refusals=(
            errors.ErrorCode.INVALID_TOKEN_ADDRESS,
            errors.ErrorCode.TOKEN_NOT_FOUND,
            errors.ErrorCode.INSUFFICIENT_DATA,
            errors.ErrorCode.DATA_STALE,
            *PUBLIC_ROUTE,
        ),
        query=ReportQuery,
    )
    async def try_token(self, request: Request) -> Response:
        """A free report: $per_day a day for each client address.

        Returns the report of GET /v1/token/{tokenAddress}, whole and current, without credential or
        payment: $per_day a day for each client address. They also count as views of token pages on
        the web site. Errors are not counted.
        """
        await self._requests.pass_through(request)
        mint = mint_of(request.path_params["tokenAddress"])
        kind = kind_of(read_query(request, ReportQuery))
        report = await self._v1.read_fresh(request, mint, kind)
        # Counted after the report was read, because an error must not use up a free report.
        address = self._v1.gate.address(request)
        denied = await take_all(
            [window for each in self._counted for window in each.windows(address)]
        )
        if denied is not None:
            text = SPENT.format(per_day=self._bounds.reports_per_day)
            raise errors.RateLimited(denied.retry_after_s, text)
        return self._v1.freshness.response(request, report, self._v1.clock)
