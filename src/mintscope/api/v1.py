"""The handlers under /v1, one per endpoint of the specification."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mintscope.api.call import NO_STORE, Call, Header, Reply
from mintscope.api.gate import Charge, Gate
from mintscope.api.wire import Balance, Meta, success, success_with_body, timestamp
from mintscope.clock import Clock
from mintscope.errors import (
    DataStale,
    ErrorCode,
    InsufficientCredits,
    PaymentRequired,
    ServiceError,
)
from mintscope.market.report import ReadReport, Reports
from mintscope.primitives import Mint, parse_mint

DEGRADED_AFTER_MS: Final = 30_000
STALE_AFTER_MS: Final = 300_000

PRIVATE: Final[Header] = (b"cache-control", b"private, no-store")
LIVE: Final[Header] = (b"x-data-status", b"live")
DEGRADED: Final[Header] = (b"x-data-status", b"degraded")

TOKEN_STATUS: Final = {
    ErrorCode.TOKEN_NOT_FOUND: b"not-tracked",
    ErrorCode.INSUFFICIENT_DATA: b"insufficient-data",
    ErrorCode.DATA_STALE: b"stale",
    ErrorCode.SERVICE_UNAVAILABLE: b"unavailable",
}
READY: Final[Header] = (b"x-token-status", b"ready")

mint_of: Final = lru_cache(maxsize=10_000)(parse_mint)  # the same few are asked for again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class V1:
    """The /v1 routes with what they need, and nothing they do not."""

    reports: Reports
    gate: Gate
    clock: Clock

    async def get_token(self, call: Call) -> Reply:
        """Endpoint 1: parse, authorize, work, settle, answer."""
        caller = await self.gate.admit(call)
        mint = mint_of(call.parameter)
        try:
            charge = self.gate.authorize(caller)
        except PaymentRequired as refusal:
            await self._advise(call, mint, refusal)
            raise
        try:
            report = await self.reports.read(mint)
            expect_fresh(report)
        except ServiceError as failure:
            call.reply_headers.append(token_status(failure))
            await self._expect_funds(charge, failure)
            raise
        call.expect_client()
        receipt = await charge.settle()
        call.reply_headers += (
            *receipt.headers,
            PRIVATE,
            (b"x-data-slot", b"%d" % report.slot),
            (b"x-data-age-ms", b"%d" % report.age_ms),
            LIVE if report.age_ms <= DEGRADED_AFTER_MS else DEGRADED,
        )
        body = success_with_body(report.body, at=self.clock.now(), request_id=call.request_id)
        return Reply(200, body)

    async def get_balance(self, call: Call) -> Reply:
        """Endpoint 4: the credits left, 0 included."""
        balance = await self.gate.balance(await self.gate.admit(call))
        call.reply_headers.append(NO_STORE)
        meta = Meta(timestamp=timestamp(self.clock.now()))
        return Reply(200, success(Balance(balance=balance), meta))

    async def _advise(self, call: Call, mint: Mint, refusal: PaymentRequired) -> None:
        """Tell whether paying would help; raise *refusal* with the reason if it would not."""
        try:
            expect_fresh(await self.reports.read(mint))
        except ServiceError as failure:
            call.reply_headers.append(token_status(failure))
            raise _pointless(refusal, failure) from failure
        call.reply_headers.append(READY)

    async def _expect_funds(self, charge: Charge, failure: ServiceError) -> None:
        """Raise the lack of funds, which is told before *failure*."""
        try:
            await charge.expect_funds()
        except InsufficientCredits as refusal:
            raise _pointless(refusal, failure) from failure


def expect_fresh(report: ReadReport) -> None:
    """Raise DataStale if *report* is too old to be sold."""
    if report.age_ms > STALE_AFTER_MS:
        raise DataStale(
            f"The newest data is {report.age_ms // 1000} s old;"
            f" older than {STALE_AFTER_MS // 1000} s is not sold. Nothing was charged."
        )


def token_status(failure: ServiceError) -> Header:
    """Return the header that says why there is no report."""
    return (b"x-token-status", TOKEN_STATUS[failure.code])


def _pointless(refusal: ServiceError, failure: ServiceError) -> ServiceError:
    return type(refusal)(f"{refusal} Paying would be pointless now: {failure}")
