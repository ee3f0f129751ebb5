"""The HTTP surface in one screen: every route of the API."""

from collections.abc import Sequence
from typing import NoReturn

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.api.address import ClientAddresses
from mintscope.api.front import Front
from mintscope.api.gate import Gate
from mintscope.api.health import Check, HealthRoutes
from mintscope.api.limiter import HEALTH, PUBLIC, Limit, MovingWindow
from mintscope.api.openapi import Document
from mintscope.api.route import Exact
from mintscope.api.v1 import V1
from mintscope.clock import Clock
from mintscope.credits.ledger import CreditLedger
from mintscope.errors import NotFound
from mintscope.market.report import Reports


def create_app(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    clock: Clock,
    addresses: ClientAddresses | None = None,
    public_limit: Limit = PUBLIC,
    health_limit: Limit = HEALTH,
) -> ASGIApp:
    """Return the API.

    checks     what /v1/health and /readyz ask
    addresses  who is believed about a client's address; by default nobody
    """
    addresses = addresses or ClientAddresses()
    gate = Gate(ledger=ledger, limiter=MovingWindow(public_limit, clock), addresses=addresses)
    v1 = V1(reports=reports, gate=gate, clock=clock)
    health = HealthRoutes(
        checks=checks,
        limiter=MovingWindow(health_limit, clock),
        addresses=addresses,
        clock=clock,
    )
    document = Document()
    routes = [
        Exact("GET", "/v1/token/{tokenAddress}", v1.get_token),
        Exact("GET", "/v1/credits/balance", v1.get_balance),
        Exact("GET", "/v1/health", health.get_health),
        Exact("GET", "/healthz", health.get_healthz),
        Exact("GET", "/readyz", health.get_readyz),
        Exact("GET", "/openapi.json", document.get),
    ]
    return Front(Router(routes, redirect_slashes=False, default=_not_found), clock)


async def _not_found(_scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
    raise NotFound
