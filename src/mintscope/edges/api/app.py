"""The HTTP surface in one screen: every route of the API."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.limits import InstantLimiter, Limit, Limiter
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.credits.instant import InstantLedger
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.market.report import Reports
from mintscope.core.market.series.store import SeriesReader
from mintscope.edges.api.accounts.routes import AccountParts, account_operations
from mintscope.edges.api.check import Check
from mintscope.edges.api.credits.rotate import RotateRoutes
from mintscope.edges.api.credits.sales import CreditRoutes
from mintscope.edges.api.data.batch import BatchRoute
from mintscope.edges.api.data.screen.routes import ScreenRoutes
from mintscope.edges.api.data.series.routes import series_operations
from mintscope.edges.api.data.trial import PATH as TRIAL_PATH
from mintscope.edges.api.data.trial import TrialBounds, TrialRoute
from mintscope.edges.api.description.bazaar import Adverts
from mintscope.edges.api.description.identity import Identity
from mintscope.edges.api.description.operation import (
    Operation,
    operations_of,
)
from mintscope.edges.api.discovery.surfaces import PATHS as DESCRIPTIONS
from mintscope.edges.api.discovery.surfaces import Surfaces
from mintscope.edges.api.express import TokenExpress
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat, ErrorWriter
from mintscope.edges.api.gate import Gate, KeyRing
from mintscope.edges.api.health import HealthRoutes, ReadCoverage, no_coverage
from mintscope.edges.api.kept_answers import KeptAnswers
from mintscope.edges.api.streams.routes import StreamRoute
from mintscope.edges.api.tokens.routes import ListParts, token_operations
from mintscope.edges.api.v1 import REPORT_PATH, V1, Freshness
from mintscope.edges.api.x402 import ResourceServer
from mintscope.edges.server.application import HttpApplication
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.routes import Route, Router
from mintscope.edges.server.streams.streams import Streams

PUBLIC: Final = Limit(name="public", count=30, window_s=60)
HEALTH: Final = Limit(name="health", count=120, window_s=60)
PROBES: Final = Limit(name="probes", count=1_200, window_s=60)
OTHER: Final = Limit(name="other", count=600, window_s=60)
ROTATIONS: Final = Limit(name="rotations", count=10, window_s=3_600)
DEFAULT_ORIGIN: Final = "http://127.0.0.1:8402"  # where it is not said where clients reach it
CORS: Final = Cors(
    paths=["/v1/", "/client/", *DESCRIPTIONS],
    methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    request_headers=[
        "Accept-Payment", "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match",
        "Last-Event-ID", "PAYMENT-SIGNATURE", "SIGN-IN-WITH-X",
        "Access-Control-Expose-Headers",  # official x402 clients send it with their payment
    ],
    exposed=[
        "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Retry-After", "RateLimit", "RateLimit-Policy",
        "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id",
        "Idempotency-Key", "X-Credits-Remaining", "X-Data-Slot", "X-Data-Age-Ms", "X-Data-Status",
        "X-Token-Status", "ETag", "Idempotent-Replayed", "WWW-Authenticate",
    ],
)  # fmt: skip


def create_app(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    limits: AddressLimits,
    clock: Clock,
    public_limit: Limit = PUBLIC,
    trial: TrialBounds | None = None,
    health_limit: Limit = HEALTH,
    other_limit: Limit = OTHER,
    rotation_limit: Limit = ROTATIONS,
    freshness: Freshness | None = None,
    merchant: Merchant | None = None,
    accounts: AccountParts | None = None,
    series: SeriesReader | None = None,
    lists: ListParts | None = None,
    streams: Streams | None = None,
    has_express: bool = True,
    identity: Identity | None = None,
    other_paths: Sequence[str] = (),
    coverage: ReadCoverage = no_coverage,
) -> HttpApplication:
    """Return the API.

    checks, trial   what /v1/health and /readyz ask; what is given away, None for nothing
    limits     counts requests; other_limit is for what has none of its own
    merchant   who sells; without one nothing is for sale
    accounts   who keeps them; without them there are none
    series, lists, streams   their readers, keepers or senders; without one there are none
    has_express  plain requests for a token's data are answered before the application is asked
    identity     who sells here, for those who read descriptions
    other_paths  of surfaces for programs beside the API, named in its descriptions
    coverage     exchanges read and missed lately
    """
    gate = Gate(ledger=ledger, limit=public_limit, limits=limits, key_ring=_key_ring(accounts))
    adverts, kept = Adverts(), KeptAnswers(clock)
    resource_server = ResourceServer(ledger, merchant, gate, adverts, kept)
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
    rotate = RotateRoutes(
        gate=gate,
        ledger=ledger,
        merchant=merchant,
        clock=clock,
        rate_limit=limits.by_account(rotation_limit),
    )
    health = _health(checks, health_limit, limits, clock, coverage)
    operations = [*operations_of(v1), *_trial_operations(v1, trial, public_limit, limits)]
    for handlers in (BatchRoute(v1), sales, rotate, health):
        operations += operations_of(handlers)
    if series is not None:
        operations += series_operations(series, v1, None if lists is None else lists.lists)
    if streams is not None:
        operations += operations_of(StreamRoute(streams, v1))
    if accounts is not None:
        operations += account_operations(
            accounts, ledger, limits=limits, clock=clock, rotation_limit=rotation_limit
        )
    operations += _of_lists(lists, v1, limits, clock)
    identity = identity or Identity(origin=DEFAULT_ORIGIN)
    _advertise(adverts, operations, identity, trial)
    surfaces = Surfaces(
        operations, identity=identity, adverts=adverts, merchant=merchant, clock=clock,
        other=other_paths,
    )  # fmt: skip
    router: Router[Route] = Router([*operations, *surfaces.routes()])
    express = _express(v1, ledger, limits.limits.limiter(public_limit)) if has_express else None
    other, errors = limits.of(other_limit), ErrorWriter(partial(_format_at, router), clock)
    return HttpApplication(router, limit=other, write_error=errors, cors=CORS, express=express)


def _health(
    checks: Sequence[Check],
    limit: Limit,
    limits: AddressLimits,
    clock: Clock,
    coverage: ReadCoverage,
) -> HealthRoutes:
    return HealthRoutes(
        checks=checks,
        limit=limits.of(limit),
        probe_limit=limits.of(PROBES),
        clock=clock,
        coverage=coverage,
    )


def _format_at(router: Router[Route], path: str) -> ErrorFormat:
    methods = router.methods(path) or {}
    found = next(iter(methods.values()), None)
    return found.error_format if isinstance(found, Operation) else ENVELOPE


def _trial_operations(
    v1: V1, trial: TrialBounds | None, limit: Limit, limits: AddressLimits
) -> list[Operation]:
    if trial is None:
        return []
    given = TrialRoute(v1, trial, requests=limits.of(limit), limits=limits.limits)
    return operations_of(given, per_day=trial.reports_per_day)


def _of_lists(
    lists: ListParts | None, v1: V1, limits: AddressLimits, clock: Clock
) -> list[Operation]:
    if lists is None:
        return []
    screens = ScreenRoutes(v1=v1, lists=lists.lists, follows_files=lists.follows_files)
    return [
        *operations_of(screens),
        *token_operations(lists, limits=limits, clock=clock),
    ]


def _key_ring(accounts: AccountParts | None) -> KeyRing | None:
    return None if accounts is None else KeyRing(accounts.keys, accounts.credits)


def _express(v1: V1, ledger: CreditLedger, limiter: Limiter) -> TokenExpress | None:
    """Return what answers plain requests; None where ledger or limiter must be awaited."""
    if not isinstance(ledger, InstantLedger) or not isinstance(limiter, InstantLimiter):
        return None
    return TokenExpress(
        ledger=ledger,
        reports=v1.reports,
        limiter=limiter,
        freshness=v1.freshness,
        clock=v1.clock,
    )


def _advertise(
    adverts: Adverts, operations: Sequence[Operation], identity: Identity, trial: TrialBounds | None
) -> None:
    """Write what a 402 says of *operations*."""
    adverts.add(operations, identity)
    if trial is not None:
        adverts.give_away(REPORT_PATH, TRIAL_PATH)
