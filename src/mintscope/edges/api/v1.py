"""The handlers under /v1, one per endpoint of the specification."""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import DataStale, ErrorCode, ServiceError
from mintscope.base.primitives import Mint, parse_mint
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.checkout import Delivered
from mintscope.core.checkout.order import Order, report_order
from mintscope.core.market.report import ReadReport, ReportKind, Reports, TokenReport
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.description.operation import (
    OF_A_TOKEN,
    PAYERS,
    Operation,
)
from mintscope.edges.api.gate import Caller, Gate
from mintscope.edges.api.offers import report_resource
from mintscope.edges.api.wire import ReportQuery, success_with_body
from mintscope.edges.api.x402 import ResourceServer
from mintscope.edges.server.content import is_known
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header, Response

REPORT_PATH: Final = "/v1/token/{tokenAddress}"
DEGRADED_AFTER_S: Final = 30.0
STALE_AFTER_S: Final = 300.0
IDLE_AFTER_S: Final = 300.0

PRIVATE: Final[Header] = (b"cache-control", b"private, no-store")
# The client's own cache may keep it, and asks each time whether it is still so.
CHECKED: Final[Header] = (b"cache-control", b"private, no-cache")
LIVE: Final[Header] = (b"x-data-status", b"live")
DEGRADED: Final[Header] = (b"x-data-status", b"degraded")
IDLE: Final[Header] = (b"x-data-status", b"idle")

TOKEN_STATUS: Final = {
    ErrorCode.TOKEN_NOT_FOUND: b"not-tracked",
    ErrorCode.INSUFFICIENT_DATA: b"insufficient-data",
    ErrorCode.DATA_STALE: b"stale",
}
UNAVAILABLE: Final = b"unavailable"
IF_NONE_MATCH: Final = b"if-none-match"

mint_of: Final = lru_cache(maxsize=10_000)(parse_mint)  # the same few are asked for again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Data older than *degraded_after_s* is marked, older than *stale_after_s* is not sold.

    idle_after_s   a token whose price was set longer ago than that is idle, if the data is new
    """

    degraded_after_s: float = DEGRADED_AFTER_S
    stale_after_s: float = STALE_AFTER_S
    idle_after_s: float = IDLE_AFTER_S

    def expect(self, report: ReadReport) -> None:
        """Raise DataStale if *report* is too old to be sold."""
        if not self.allows(report):
            raise DataStale(
                f"The newest data is {report.age_ms // 1000} s old;"
                f" older than {self.stale_after_s:g} s is not sold. Nothing was charged."
            )

    def allows(self, report: ReadReport) -> bool:
        """Say whether *report* is fresh enough to be sold."""
        return report.age_ms <= self.stale_after_s * 1000

    def is_idle(self, report: ReadReport) -> bool:
        """Say whether no swap has set the price in *report* lately."""
        price_age_ms = report.price_age_ms
        return price_age_ms is not None and price_age_ms > self.idle_after_s * 1000

    def headers(
        self, *, slot: int, age_ms: int, is_idle: bool = False, cache: Header = PRIVATE
    ) -> tuple[Header, ...]:
        """Return the headers that say how fresh a report is, and who may keep it."""
        is_live = age_ms <= self.degraded_after_s * 1000
        return (
            cache,
            (b"x-data-slot", b"%d" % slot),
            (b"x-data-age-ms", b"%d" % age_ms),
            DEGRADED if not is_live else IDLE if is_idle else LIVE,
        )


@lru_cache(maxsize=10_000)  # the same few are asked for again and again
def order_of(mint: Mint) -> Order:
    """Return the order of a report at its path."""
    return report_order(report_resource(mint))


@dataclass(frozen=True, slots=True, kw_only=True)
class V1:
    """The /v1 routes with what they need, and nothing they do not."""

    reports: Reports
    gate: Gate
    clock: Clock
    freshness: Freshness
    resource_server: ResourceServer

    @Operation(
        "GET",
        REPORT_PATH,
        TokenReport,
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        is_conditional=True,
        query=ReportQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_token(self, request: Request) -> Response:
        """Price and indicators of a token, as of the newest block.

        Returns the price of a Solana token in USD and SOL, and EMA 9, 21, 50, 200, RSI 14, MACD
        (12, 26, 9) and Fibonacci levels from candles of 1, 5, 15 and 60 minutes, with the share of
        buys in the volume from 1 minute to 24 hours. Costs one credit or one payment; errors cost
        nothing. It is a block behind the chain (X-Data-Age-Ms). price.confidence says how good the
        price is. An indicator is null below its candles. coverage is the part of trades that was
        read. partial=true returns young tokens.
        """
        caller = await self.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        kind = kind_of(read_query(request, ReportQuery))
        if IF_NONE_MATCH in request.headers and caller.bearer and not request.has_payment():
            unchanged = await self._unchanged(request, caller, mint, kind)
            if unchanged is not None:
                return unchanged
        report = await self.resource_server.sell_report(
            request, caller, order_of(mint), partial(self._read, request, mint, kind)
        )
        return self._response(request, report)

    async def _unchanged(
        self, request: Request, caller: Caller, mint: Mint, kind: ReportKind
    ) -> Response | None:
        """Return 304, which is free, if a client that could pay has the report already."""
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
        """Return a report that may be sold, or say why there is none."""
        report = await self.read_fresh(request, mint, kind)
        request.expect_client()
        return Delivered(report)

    async def read_fresh(self, request: Request, mint: Mint, kind: ReportKind) -> ReadReport:
        """Return a report that is fresh enough to be sold.

        Raises a ServiceError that says why there is none, with a header that says it too.
        """
        try:
            report = await self.reports.read(mint, kind)
            self.freshness.expect(report)
        except ServiceError as failure:
            request.response_headers.append(token_status(failure))
            raise
        return report

    def _response(self, request: Request, report: ReadReport) -> Response:
        request.response_headers += self._headers(report)
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body)

    def _headers(self, report: ReadReport) -> tuple[Header, ...]:
        cache = CHECKED if report.tag else PRIVATE  # without a tag it is given again to a payer
        fresh = self.freshness.headers(
            slot=report.slot,
            age_ms=report.age_ms,
            is_idle=self.freshness.is_idle(report),
            cache=cache,
        )
        return (*fresh, (b"etag", report.tag)) if report.tag else fresh


def kind_of(asked: ReportQuery) -> ReportKind:
    """Return which report is *asked* for."""
    return ReportKind(is_partial=asked.partial, is_closed=asked.candles == "closed")


def token_status(failure: ServiceError) -> Header:
    """Return the header that says why there is no report."""
    return (b"x-token-status", TOKEN_STATUS.get(failure.code, UNAVAILABLE))
