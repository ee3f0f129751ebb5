"""The HTTP surface in one screen: every route of the API."""

from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.base.limits import Limit, Limits
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.market.report import Reports, TokenReport
from mintscope.core.payments.pricing.price_list import BUNDLES
from mintscope.edges.api.accounts.routes import AccountParts, account_operations
from mintscope.edges.api.credits.rotate import RotateRoutes
from mintscope.edges.api.credits.sales import CreditRoutes
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat, ErrorWriter
from mintscope.edges.api.gate import Gate
from mintscope.edges.api.health import Check, HealthRoutes
from mintscope.edges.api.openapi import OpenApiDocument
from mintscope.edges.api.operation import Operation, Query
from mintscope.edges.api.v1 import V1, Freshness
from mintscope.edges.api.wire import (
    Alive,
    Balance,
    Bundles,
    Challenge,
    Claimed,
    Health,
    History,
    Proof,
    Purchase,
    Rotated,
)
from mintscope.edges.api.x402 import ResourceServer
from mintscope.edges.server.application import HttpApplication
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.rate_limit import RateLimit
from mintscope.edges.server.routes import Route, Router

PUBLIC: Final = Limit(name="public", count=30, window_s=60)
HEALTH: Final = Limit(name="health", count=120, window_s=60)
CREDENTIAL: Final = (ErrorCode.MISSING_TOKEN, ErrorCode.INVALID_TOKEN)
PAYMENT: Final = (
    ErrorCode.INVALID_PAYMENT,
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.PAYMENT_FAILED,
    ErrorCode.PAYMENT_ALREADY_USED,
    ErrorCode.PRICE_UNAVAILABLE,
    ErrorCode.PAYMENT_PENDING,
    ErrorCode.PAYMENT_UNAVAILABLE,
)
CORS: Final = Cors(
    paths=["/v1/", "/openapi.json"],
    methods=["GET", "HEAD", "POST"],
    request_headers=["Authorization", "Content-Type", "Idempotency-Key", "PAYMENT-SIGNATURE"],
    exposed=[
        "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Retry-After", "RateLimit", "RateLimit-Policy",
        "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id",
        "Idempotency-Key", "X-Credits-Remaining", "X-Data-Slot", "X-Data-Age-Ms", "X-Data-Status",
        "X-Token-Status",
    ],
)  # fmt: skip
PUBLIC_ROUTE: Final = (ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE)


def create_app(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    limits: Limits,
    clock: Clock,
    addresses: ClientAddresses | None = None,
    public_limit: Limit = PUBLIC,
    health_limit: Limit = HEALTH,
    freshness: Freshness | None = None,
    merchant: Merchant | None = None,
    accounts: AccountParts | None = None,
) -> ASGIApp:
    """Return the API.

    checks     what /v1/health and /readyz ask
    limits     counts requests
    addresses  which proxies are believed about a client's address; by default none
    merchant   who sells; without one nothing is for sale
    accounts   who keeps them; without them there are none
    """
    addresses = addresses or ClientAddresses()
    gate = Gate(ledger=ledger, limiter=limits.limiter(public_limit), addresses=addresses)
    resource_server = ResourceServer(ledger=ledger, merchant=merchant, gate=gate)
    v1 = V1(
        reports=reports,
        gate=gate,
        clock=clock,
        freshness=freshness or Freshness(),
        resource_server=resource_server,
    )
    sales = CreditRoutes(
        gate=gate, ledger=ledger, merchant=merchant, resource_server=resource_server, clock=clock
    )
    rotate = RotateRoutes(gate=gate, ledger=ledger, merchant=merchant, clock=clock)
    health = HealthRoutes(
        checks=checks,
        rate_limit=RateLimit(limits.limiter(health_limit)),
        addresses=addresses,
        clock=clock,
    )
    operations = [
        Operation(
            method="GET",
            path="/v1/token/{tokenAddress}",
            endpoint=v1.get_token,
            summary="Price and indicators of a token",
            data=TokenReport,
            refusals=(
                ErrorCode.INVALID_TOKEN_ADDRESS,
                *CREDENTIAL,
                *PAYMENT,
                ErrorCode.INSUFFICIENT_CREDITS,
                ErrorCode.TOKEN_NOT_FOUND,
                ErrorCode.INSUFFICIENT_DATA,
                ErrorCode.DATA_STALE,
                *PUBLIC_ROUTE,
            ),
            proofs=(("creditToken",), ("x402",)),
            is_charged=True,
        ),
        Operation(
            method="GET",
            path="/v1/credits/bundles",
            endpoint=sales.list_bundles,
            summary="Credits for sale, and their prices now",
            data=Bundles,
            refusals=(ErrorCode.PRICE_UNAVAILABLE, *PUBLIC_ROUTE),
        ),
        Operation(
            method="POST",
            path="/v1/credits/purchase",
            endpoint=sales.buy,
            summary="Buy credits: on a new credit token, or on the one that is sent along",
            data=Purchase,
            refusals=(ErrorCode.INVALID_BUNDLE, *CREDENTIAL, *PAYMENT, *PUBLIC_ROUTE),
            status=201,
            proofs=(("x402",), ("x402", "creditToken")),
            is_charged=True,
            query=(Query("bundle", "How many credits.", [each.credits for each in BUNDLES]),),
        ),
        Operation(
            method="GET",
            path="/v1/credits/balance",
            endpoint=v1.get_balance,
            summary="Credits left on a credit token",
            data=Balance,
            refusals=(*CREDENTIAL, *PUBLIC_ROUTE),
            proofs=(("creditToken",),),
        ),
        Operation(
            method="GET",
            path="/v1/credits/history",
            endpoint=sales.get_history,
            summary="Where the credits of a credit token came from and went",
            data=History,
            refusals=(*CREDENTIAL, *PUBLIC_ROUTE),
            proofs=(("creditToken",),),
        ),
        Operation(
            method="POST",
            path="/v1/credits/rotate",
            endpoint=rotate.rotate,
            summary="Move all credits to a new token, on the old one or a signed challenge",
            data=Rotated,
            refusals=(
                *CREDENTIAL,
                ErrorCode.INVALID_PROOF,
                ErrorCode.ROTATED_RECENTLY,
                ErrorCode.PAYLOAD_TOO_LARGE,
                ErrorCode.PAYMENT_UNAVAILABLE,
                *PUBLIC_ROUTE,
            ),
            status=201,
            proofs=(("creditToken",), ()),
            body=Proof,
        ),
        Operation(
            method="POST",
            path="/v1/credits/rotate/challenge",
            endpoint=rotate.challenge,
            summary="A text whose signature proves to be the wallet that paid",
            data=Challenge,
            refusals=(ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.PAYMENT_UNAVAILABLE, *PUBLIC_ROUTE),
            body=Claimed,
        ),
        Operation(
            method="GET",
            path="/v1/health",
            endpoint=health.get_health,
            summary="How well the service works",
            data=Health,
            refusals=(ErrorCode.RATE_LIMITED,),
        ),
        Operation(
            method="GET",
            path="/healthz",
            endpoint=health.get_healthz,
            summary="Whether the process answers",
            data=Alive,
        ),
        Operation(
            method="GET",
            path="/readyz",
            endpoint=health.get_readyz,
            summary="Whether the service can do its work",
            data=Health,
            refusals=(ErrorCode.SERVICE_UNAVAILABLE,),
        ),
    ]
    if accounts is not None:
        operations += account_operations(accounts, addresses=addresses, limits=limits, clock=clock)
    document = OpenApiDocument(operations)
    router: Router[Route] = Router(
        [*operations, Route(method="GET", path="/openapi.json", endpoint=document.get)]
    )

    def format_at(path: str) -> ErrorFormat:
        methods = router.methods(path) or {}
        found = next(iter(methods.values()), None)
        return found.error_format if isinstance(found, Operation) else ENVELOPE

    return HttpApplication(router, write_error=ErrorWriter(format_at, clock), cors=CORS)
