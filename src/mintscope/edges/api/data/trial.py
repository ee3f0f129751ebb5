"""GET /v1/trial/{tokenAddress}: the report of now, free, some times a day and client address."""

from dataclasses import dataclass
from typing import Final

from mintscope.base.errors import ErrorCode, RateLimited
from mintscope.base.limits import Limits, take_all
from mintscope.core.market.report import TokenReport
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.description.operation import PUBLIC_ROUTE, Operation
from mintscope.edges.api.v1 import V1, kind_of, mint_of
from mintscope.edges.api.wire import ReportQuery, success_with_body
from mintscope.edges.server.free_views import FreeViews
from mintscope.edges.server.rate_limit import AddressLimit
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

PATH: Final = "/v1/trial/{tokenAddress}"
SPENT: Final = (
    "The {per_day} free reports of this client address are spent. GET /v1/token/{{tokenAddress}}"
    " takes a payment or a credit, POST /v1/credits/purchase sells credits. For free again"
)


@dataclass(frozen=True, slots=True)
class TrialBounds:
    """The free reports of a client address in 24 hours.

    reports_per_day   by this route, at least 1
    views_per_day     by this route and on the pages together; 0: the pages show none for free
    """

    reports_per_day: int
    views_per_day: int


class TrialRoute:
    """Gives reports away, as many as *bounds* allow."""

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
        PATH,
        TokenReport,
        refusals=(
            ErrorCode.INVALID_TOKEN_ADDRESS,
            ErrorCode.TOKEN_NOT_FOUND,
            ErrorCode.INSUFFICIENT_DATA,
            ErrorCode.DATA_STALE,
            *PUBLIC_ROUTE,
        ),
        query=ReportQuery,
    )
    async def try_token(self, request: Request) -> Response:
        """The same report for free, $per_day a day and client address.

        Returns what GET /v1/token/{tokenAddress} sells, of now and whole, without a credential or a
        payment: $per_day reports a day and client address, views of token pages on the web site
        among them. Errors are not counted.
        """
        await self._requests.pass_through(request)
        mint = mint_of(request.path_params["tokenAddress"])
        kind = kind_of(read_query(request, ReportQuery))
        report = await self._v1.read_fresh(request, mint, kind)
        address = self._v1.gate.address(request)
        denied = await take_all(
            [window for each in self._counted for window in each.windows(address)]
        )
        if denied is not None:
            text = SPENT.format(per_day=self._bounds.reports_per_day)
            raise RateLimited(denied.retry_after_s, text)
        request.response_headers += self._v1.freshness.headers(
            slot=report.slot, age_ms=report.age_ms, is_idle=self._v1.freshness.is_idle(report)
        )
        at = self._v1.clock.now()
        return Response(200, success_with_body(report.body, at=at, request_id=request.request_id))
