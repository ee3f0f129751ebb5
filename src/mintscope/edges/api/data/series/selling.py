"""Common parts of all series: callers, data, and the price of a credit."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceError, ServiceUnavailable, TokenNotFound
from mintscope.base.primitives import Mint
from mintscope.core.checkout.checkout import Delivered
from mintscope.core.checkout.order import report_order
from mintscope.core.market.log import LogTip
from mintscope.core.market.report import ReadReport
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.api.data.series.newest import NewestCandles
from mintscope.edges.api.data.series.recent import Made, RecentPages
from mintscope.edges.api.gate import Caller, Gate
from mintscope.edges.api.offers import series_resource
from mintscope.edges.api.v1 import Freshness, token_status
from mintscope.edges.api.wire import Wire, success_with_body
from mintscope.edges.api.x402 import ResourceServer
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response


def made_of(tip: LogTip, page: Wire, *, is_empty: bool) -> Made:
    """Return *page*, encoded."""
    return Made(tip, msgspec.json.encode(page), is_empty)


class Wanted(NamedTuple):
    """A page that is asked for: *query* is what was read of it."""

    mint: Mint
    kind: str
    query: Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesShop:
    """Sells pages of series."""

    reader: SeriesReader
    newest: NewestCandles
    gate: Gate
    clock: Clock
    freshness: Freshness
    resource_server: ResourceServer
    recent: RecentPages

    async def sell(
        self,
        request: Request,
        caller: Caller,
        wanted: Wanted,
        make: Callable[[], Awaitable[Made]],
    ) -> Response:
        """Return the page that *make* makes, for a credit of *caller* or a payment.

        It may have been made a moment ago.
        """
        order = report_order(series_resource(wanted.mint, wanted.kind, wanted.query))

        async def work() -> Delivered:
            try:
                made = await self.recent.page(order.resource, make)
                report = self._report(made)
                self.freshness.expect(report)
            except ServiceError as failure:
                request.response_headers.append(token_status(failure))
                raise
            request.expect_client()
            return Delivered(report, 0 if made.is_empty else 1)

        report = await self.resource_server.sell_report(request, caller, order, work)
        request.response_headers += self.freshness.headers(slot=report.slot, age_ms=report.age_ms)
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body)

    def _report(self, made: Made) -> ReadReport:
        slot = made.tip.slot
        time = made.tip.time
        if slot is None or time is None:
            raise ServiceUnavailable("The market data are still being loaded; try again shortly.")
        age_ms = 0 if made.tip.follows_files else max(0, self.clock.now() - time * 1000)
        return ReadReport(made.body, slot, age_ms)


def not_tracked(mint: Mint) -> TokenNotFound:
    """Return the error for a mint that is not tracked."""
    return TokenNotFound(f"This service does not track {mint}.")
