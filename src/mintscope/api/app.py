"""The HTTP surface in one screen: every route of the API."""

from collections.abc import Sequence

from starlette.types import ASGIApp

from mintscope.api.address import ClientAddresses
from mintscope.api.front import Front
from mintscope.api.gate import Gate, Turnstile
from mintscope.api.health import Check, HealthRoutes
from mintscope.api.limiter import HEALTH, PUBLIC, Limit, MovingWindow
from mintscope.api.openapi import Document
from mintscope.api.routes import Route, Table
from mintscope.api.shop import Shop
from mintscope.api.v1 import V1, Freshness
from mintscope.api.wire import Alive, Balance, Health
from mintscope.clock import Clock
from mintscope.credits.ledger import CreditLedger
from mintscope.errors import ErrorCode
from mintscope.market.report import Reports, TokenReport


def create_app(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    clock: Clock,
    addresses: ClientAddresses | None = None,
    public_limit: Limit = PUBLIC,
    health_limit: Limit = HEALTH,
    freshness: Freshness | None = None,
    shop: Shop | None = None,
) -> ASGIApp:
    """Return the API.

    checks     what /v1/health and /readyz ask
    addresses  who is believed about a client's address; by default nobody
    shop       who sells; without one nothing is for sale
    """
    addresses = addresses or ClientAddresses()
    v1 = V1(
        reports=reports,
        gate=Gate(ledger=ledger, limiter=MovingWindow(public_limit, clock), addresses=addresses),
        clock=clock,
        freshness=freshness or Freshness(),
        shop=shop,
    )
    health = HealthRoutes(
        checks=checks,
        turnstile=Turnstile(MovingWindow(health_limit, clock)),
        addresses=addresses,
        clock=clock,
    )
    routes = [
        Route(
            method="GET",
            path="/v1/token/{tokenAddress}",
            handler=v1.get_token,
            summary="Price and indicators of a token",
            data=TokenReport,
            refusals=(
                ErrorCode.INVALID_TOKEN_ADDRESS,
                ErrorCode.MISSING_TOKEN,
                ErrorCode.INVALID_TOKEN,
                ErrorCode.PAYMENT_REQUIRED,
                ErrorCode.INSUFFICIENT_CREDITS,
                ErrorCode.TOKEN_NOT_FOUND,
                ErrorCode.INSUFFICIENT_DATA,
                ErrorCode.RATE_LIMITED,
                ErrorCode.DATA_STALE,
                ErrorCode.SERVICE_UNAVAILABLE,
            ),
            needs_credit_token=True,
            takes_credit=True,
        ),
        Route(
            method="GET",
            path="/v1/credits/balance",
            handler=v1.get_balance,
            summary="Credits left on a credit token",
            data=Balance,
            refusals=(
                ErrorCode.MISSING_TOKEN,
                ErrorCode.INVALID_TOKEN,
                ErrorCode.RATE_LIMITED,
                ErrorCode.SERVICE_UNAVAILABLE,
            ),
            needs_credit_token=True,
        ),
        Route(
            method="GET",
            path="/v1/health",
            handler=health.get_health,
            summary="How well the service works",
            data=Health,
            refusals=(ErrorCode.RATE_LIMITED,),
        ),
        Route(
            method="GET",
            path="/healthz",
            handler=health.get_healthz,
            summary="Whether the process answers",
            data=Alive,
        ),
        Route(
            method="GET",
            path="/readyz",
            handler=health.get_readyz,
            summary="Whether the service can do its work",
            data=Health,
            refusals=(ErrorCode.SERVICE_UNAVAILABLE,),
        ),
    ]
    document = Document(routes)
    routes.append(
        Route(
            method="GET",
            path="/openapi.json",
            handler=document.get,
            summary="This document",
            data=None,
        )
    )
    return Front(Table(routes), clock)
