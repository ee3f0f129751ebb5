"""The handlers under /v1, one per endpoint of the specification."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import (
    DataStale,
    ErrorCode,
    InsufficientCredits,
    PaymentRequired,
    PaymentUnavailable,
    PriceUnavailable,
    ServiceError,
)
from mintscope.base.primitives import Mint, Slot, UnixMs, parse_mint
from mintscope.core.market.report import ReadReport, Reports
from mintscope.core.payments.facilitator import Contradiction
from mintscope.core.payments.outcome import Settled
from mintscope.core.payments.payment import PaidReport
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.api.gate import Caller, Charge, Gate
from mintscope.edges.api.wire import Balance, Meta, success, success_with_body, timestamp
from mintscope.edges.api.x402 import NO_SALES, ONLY_CREDITS, PaidResource, ResourceServer
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import NO_STORE, Header, Response

DEGRADED_AFTER_S: Final = 30.0
STALE_AFTER_S: Final = 300.0

PRIVATE: Final[Header] = (b"cache-control", b"private, no-store")
LIVE: Final[Header] = (b"x-data-status", b"live")
DEGRADED: Final[Header] = (b"x-data-status", b"degraded")

TOKEN_STATUS: Final = {
    ErrorCode.TOKEN_NOT_FOUND: b"not-tracked",
    ErrorCode.INSUFFICIENT_DATA: b"insufficient-data",
    ErrorCode.DATA_STALE: b"stale",
}
UNAVAILABLE: Final = b"unavailable"
READY: Final[Header] = (b"x-token-status", b"ready")

mint_of: Final = lru_cache(maxsize=10_000)(parse_mint)  # the same few are asked for again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Data older than *degraded_after_s* is marked, older than *stale_after_s* is not sold."""

    degraded_after_s: float = DEGRADED_AFTER_S
    stale_after_s: float = STALE_AFTER_S

    def expect(self, report: ReadReport) -> None:
        """Raise DataStale if *report* is too old to be sold."""
        if report.age_ms > self.stale_after_s * 1000:
            raise DataStale(
                f"The newest data is {report.age_ms // 1000} s old;"
                f" older than {self.stale_after_s:g} s is not sold. Nothing was charged."
            )

    def headers(self, *, slot: int, age_ms: int) -> tuple[Header, ...]:
        """Return the headers that say how fresh a report is."""
        return (
            PRIVATE,
            (b"x-data-slot", b"%d" % slot),
            (b"x-data-age-ms", b"%d" % age_ms),
            LIVE if age_ms <= self.degraded_after_s * 1000 else DEGRADED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class V1:
    """The /v1 routes with what they need, and nothing they do not."""

    reports: Reports
    gate: Gate
    clock: Clock
    freshness: Freshness
    till: ResourceServer | None

    async def get_token(self, request: Request) -> Response:
        """Endpoint 1: parse, authorize, work, settle, answer."""
        caller = await self.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        if request.has_payment():
            return await self._take_payment(request, mint)
        try:
            return await self._take_credit(request, caller, mint)
        except (PaymentRequired, InsufficientCredits) as refusal:
            if self.till is not None:
                await self._demand(self.till, request, mint, refusal)
            raise

    async def _take_credit(self, request: Request, caller: Caller, mint: Mint) -> Response:
        try:
            charge = self.gate.authorize(caller)
        except PaymentRequired as refusal:
            await self._advise(request, mint, refusal)
            raise
        try:
            report = await self._read(request, mint)
        except ServiceError as failure:
            await self._expect_funds(charge, failure)
            raise
        request.expect_client()
        receipt = await charge.settle()
        request.response_headers += receipt.headers
        return self._response(request, report)

    async def _demand(
        self, till: ResourceServer, request: Request, mint: Mint, refusal: ServiceError
    ) -> None:
        """Say what to pay, or raise *refusal* with the reason why only credits are taken."""
        with suppress(PriceUnavailable):
            if not await till.ask(request, _offer(mint), why=str(refusal)):
                raise type(refusal)(f"{refusal} {ONLY_CREDITS}") from refusal

    async def _take_payment(self, request: Request, mint: Mint) -> Response:
        if self.till is None:
            raise PaymentUnavailable(NO_SALES)
        offer = _offer(mint)
        bill = await self.till.open(request, offer)
        if not isinstance(bill, Settled):
            report = await self._read(request, mint)
            goods = PaidReport(body=_pack(report, now=self.clock.now()))
            bill = await self.till.settle(request, offer, bill, goods)
        if not isinstance(bill.payment.goods, PaidReport):
            raise Contradiction(
                f"expected a report; {bill.payment.signature} bought something else"
            )
        return self._response(request, _unpack(bill.payment.goods.body, now=self.clock.now()))

    async def _read(self, request: Request, mint: Mint) -> ReadReport:
        """Return a report that may be sold, or say why there is none."""
        try:
            report = await self.reports.read(mint)
            self.freshness.expect(report)
        except ServiceError as failure:
            request.response_headers.append(token_status(failure))
            raise
        return report

    def _response(self, request: Request, report: ReadReport) -> Response:
        request.response_headers += self.freshness.headers(slot=report.slot, age_ms=report.age_ms)
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body)

    async def get_balance(self, request: Request) -> Response:
        """Endpoint 4: the credits left, 0 included."""
        balance = await self.gate.balance(await self.gate.admit(request))
        request.response_headers.append(NO_STORE)
        meta = Meta(timestamp=timestamp(self.clock.now()))
        return Response(200, success(Balance(balance=balance), meta))

    async def _advise(self, request: Request, mint: Mint, refusal: PaymentRequired) -> None:
        """Tell whether paying would help; raise *refusal* with the reason if it would not."""
        try:
            await self._read(request, mint)
        except ServiceError as failure:
            raise _pointless(refusal, failure) from failure
        request.response_headers.append(READY)

    async def _expect_funds(self, charge: Charge, failure: ServiceError) -> None:
        """Raise the lack of funds, which is told before *failure*."""
        try:
            await charge.expect_funds()
        except InsufficientCredits as refusal:
            raise _pointless(refusal, failure) from failure


def token_status(failure: ServiceError) -> Header:
    """Return the header that says why there is no report."""
    return (b"x-token-status", TOKEN_STATUS.get(failure.code, UNAVAILABLE))


def _offer(mint: Mint) -> PaidResource:
    return PaidResource(
        Resource(f"/v1/token/{mint}"),
        price=lambda price_list: price_list.request,
        fee_lamports_max=lambda price_list: price_list.request_fee_lamports_max,
    )


def _pack(report: ReadReport, *, now: UnixMs) -> bytes:
    """Return what is kept of a report that was paid for: its slot, its time, its body."""
    return b"%d %d\n%b" % (report.slot, now - report.age_ms, report.body)


def _unpack(packed: bytes, *, now: UnixMs) -> ReadReport:
    head, _, body = packed.partition(b"\n")
    slot, _, read_at = head.partition(b" ")
    return ReadReport(body, Slot(int(slot)), max(0, now - int(read_at)))


def _pointless(refusal: ServiceError, failure: ServiceError) -> ServiceError:
    return type(refusal)(f"{refusal} Paying would be pointless now: {failure}")
