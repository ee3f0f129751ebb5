"""GET /v1/demo/token and /v1/demo/402: free, and of no effect."""

import asyncio
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode, InvalidPayment, PaymentFailed, PaymentRequired
from mintscope.core.market.report import TokenReport
from mintscope.core.payments.protocol.headers import (
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
)
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.tokens.demo import demo_demand, demo_refusal, demo_report, how_to_pay_demo
from mintscope.edges.api.v1 import CHECKED, Freshness
from mintscope.edges.api.wire import Failure, success_with_body
from mintscope.edges.server.rate_limit import AddressLimit
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

UNPAID: Final = "This demo asks for a payment as paid endpoints do. Nothing can be bought with it."
REFUSED: Final = (
    "The payment is well formed, and refused: demo_sells_nothing. It was not sent anywhere, nothing"
    " was charged."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRoutes:
    """The routes; *origin* is this service as its clients reach it."""

    limit: AddressLimit
    clock: Clock
    origin: str

    @Operation(
        "GET",
        "/v1/demo/token",
        TokenReport,
        refusals=(ErrorCode.RATE_LIMITED,),
        is_conditional=True,
    )
    async def get_demo_token(self, request: Request) -> Response:
        """A report of a token that does not exist, always the same.

        Returns the report of a token that does not exist, as GET /v1/token/{tokenAddress} would:
        always the same, to build a client with. Free.
        """
        await self.limit.pass_through(request)
        report = await asyncio.to_thread(demo_report)
        request.response_headers += Freshness().headers(
            slot=report.slot, age_ms=report.age_ms, cache=CHECKED
        )
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body, etag=report.tag)

    @Operation(
        "GET",
        "/v1/demo/402",
        Failure,
        refusals=(
            ErrorCode.INVALID_PAYMENT,
            ErrorCode.PAYMENT_REQUIRED,
            ErrorCode.PAYMENT_FAILED,
            ErrorCode.RATE_LIMITED,
        ),
        status=402,
    )
    async def get_demo_402(self, request: Request) -> Response:
        """A demand for a payment that buys nothing, always the same.

        Answers 402 with PAYMENT-REQUIRED, always the same, to build a payer with. It is on the test
        network, and nothing can be bought with it: a payment is read and refused. Free.
        """
        await self.limit.pass_through(request)
        presented = request.values(PAYMENT_SIGNATURE.lower().encode())
        if len(presented) > 1:
            raise InvalidPayment(f"expected one {PAYMENT_SIGNATURE} header; there were several")
        why = REFUSED if presented else UNPAID
        if presented:
            _tell(request, PAYMENT_RESPONSE, demo_refusal(presented[0]))
        _tell(request, PAYMENT_REQUIRED, demo_demand(self.origin, why))
        error = PaymentFailed(why) if presented else PaymentRequired(why)
        error.details = how_to_pay_demo(self.origin)
        raise error


def _tell(request: Request, name: str, value: str) -> None:
    request.response_headers.append((name.lower().encode(), value.encode()))
