"""POST /v1/tokens/batch: many reports at once, for a credit each that is delivered."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.base.errors import BadRequest, ErrorCode, ServiceError
from mintscope.base.primitives import EACH_ONCE, AddressText, Mint, Slot, about
from mintscope.base.solana import USDC, WSOL
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.checkout import Delivered
from mintscope.core.checkout.order import Order
from mintscope.core.market.report import PLAIN, ReadReport, ReportKind, TokenReport
from mintscope.core.payments.pricing.price_list import REQUEST_USD
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.api.description.operation import SPENDERS, Operation, PriceRange
from mintscope.edges.api.v1 import PRIVATE, V1, kind_of, mint_of
from mintscope.edges.api.wire import ErrorBody, ReportQuery, Wire, success_with_body
from mintscope.edges.server.json_body import UnreadableBody, parse_shape
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

PATH: Final = "/v1/tokens/batch"
MINTS_MAX: Final = 50
NO_SLOT: Final = Slot(-1)
NOT_TRACKED: Final = {
    "code": ErrorCode.TOKEN_NOT_FOUND.value,
    "message": f"This service does not track {USDC}.",
}
ORDER: Final = Order(Resource(PATH), price=lambda _: 0, is_for_credits=True)


class BatchRequest(ReportQuery, forbid_unknown_fields=True):
    """Body of POST /v1/tokens/batch: which reports are wanted."""

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
    """One mint of a batch: its report, or the error that says why there is none."""

    token: Annotated[str, about("The mint, base58.", WSOL, USDC)]
    report: Annotated[TokenReport | UnsetType, about("Its report, where there is one.")] = UNSET
    error: Annotated[
        ErrorBody | UnsetType, about("Why there is none.", NOT_TRACKED, instead_of="report")
    ] = UNSET


class ReportBatch(Wire):
    """A line for each mint, in the order of the request."""

    delivered: Annotated[int, about("How many reports there are, and credits were taken.", 1)]
    results: Annotated[list[ReportLine], about("A line for each mint.")]


@dataclass(frozen=True, slots=True)
class BatchRoute:
    """Sells several reports by one request, with the parts of *v1*."""

    v1: V1

    @Operation(
        "POST",
        PATH,
        ReportBatch,
        unit="for each report",
        price=PriceRange(REQUEST_USD, REQUEST_USD * MINTS_MAX),
        refusals=(
            ErrorCode.INVALID_TOKEN_ADDRESS,
            ErrorCode.INVALID_PAYMENT,
            ErrorCode.MISSING_TOKEN,
            ErrorCode.INVALID_TOKEN,
            ErrorCode.INSUFFICIENT_SCOPE,
            ErrorCode.PAYMENT_REQUIRED,
            ErrorCode.INSUFFICIENT_CREDITS,
            ErrorCode.KEY_CAP_REACHED,
            ErrorCode.PAYLOAD_TOO_LARGE,
            ErrorCode.RATE_LIMITED,
            ErrorCode.SERVICE_UNAVAILABLE,
        ),
        proofs=SPENDERS,
        is_charged=True,
        takes_key=True,
        body=BatchRequest,
        scope=Scope.TRADE_READ,
    )
    async def get_token_batch(self, request: Request) -> Response:
        """Reports of up to 50 tokens: a credit for each that is delivered.

        Returns the reports of up to 50 tokens, each as GET /v1/token/{tokenAddress} gives it, or
        why there is none. Costs one credit for each report that is delivered, and nothing for the
        others; without enough credits for all of them nothing is delivered or charged. Paid with
        credits alone.
        """
        caller = await self.v1.gate.admit(request)
        asked = _asked(request, await request.body())
        mints = each_once(asked.mints)
        delivered = await self.v1.resource_server.sell_report(
            request, caller, ORDER, partial(self._read_all, request, mints, kind_of(asked))
        )
        if delivered.slot == NO_SLOT:
            request.response_headers.append(PRIVATE)
        else:
            request.response_headers += self.v1.freshness.headers(
                slot=delivered.slot,
                age_ms=delivered.age_ms,
                is_idle=self.v1.freshness.is_idle(delivered),
            )
        body = success_with_body(
            delivered.body, at=self.v1.clock.now(), request_id=request.request_id
        )
        return Response(200, body)

    async def _read_all(
        self, request: Request, mints: Sequence[Mint], kind: ReportKind
    ) -> Delivered:
        """Return one body of all, as fresh as the oldest of them, and what it costs."""
        found = await asyncio.gather(*(self._read(mint, kind) for mint in mints))
        reports = [each for each in found if isinstance(each, ReadReport)]
        lines = b",".join(map(_line, mints, found))
        body = b'{"delivered":%d,"results":[%b]}' % (len(reports), lines)
        request.expect_client()
        return Delivered(
            ReadReport(
                body,
                min((each.slot for each in reports), default=NO_SLOT),
                max((each.age_ms for each in reports), default=0),
                price_age_ms=_newest(reports),
            ),
            credit_count=len(reports),
        )

    async def _read(self, mint: Mint, kind: ReportKind) -> ReadReport | ServiceError:
        """Return a report that may be sold, or why there is none."""
        try:
            ready = self.v1.reports.ready(mint) if kind == PLAIN else None
            report = ready or await self.v1.reports.read(mint, kind)
            self.v1.freshness.expect(report)
        except ServiceError as failure:
            return failure
        return report


def _newest(reports: Iterable[ReadReport]) -> int | None:
    """Return the age of the price of *reports* that was set last: without it all are idle."""
    ages = [each.price_age_ms for each in reports]
    known = [age for age in ages if age is not None]
    return min(known) if known and len(known) == len(ages) else None


def _line(mint: Mint, found: ReadReport | ServiceError) -> bytes:
    if isinstance(found, ReadReport):
        return b'{"token":"%b","report":%b}' % (mint.encode(), found.body)
    error = ErrorBody(code=found.code, message=str(found))
    return msgspec.json.encode(ReportLine(token=mint, error=error))


def _asked(request: Request, body: bytes) -> BatchRequest:
    """Return what *body* asks for.  Raises BadRequest."""
    try:
        return parse_shape(request, body, BatchRequest)
    except UnreadableBody as flaw:
        raise BadRequest(str(flaw)) from flaw


def each_once(texts: Sequence[str]) -> list[Mint]:
    """Return the mints that *texts* name.  Raises InvalidTokenAddress, BadRequest for a double."""
    mints = [mint_of(text) for text in texts]
    doubles = [mint for mint in dict.fromkeys(mints) if mints.count(mint) > 1]
    if doubles:
        raise BadRequest(f"expected each mint once; {doubles[0]} is there several times")
    return mints
