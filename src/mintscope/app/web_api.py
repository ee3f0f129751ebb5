"""Every route of the API, in one file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mintscope.accounts.keys.api import OwnKeyRoutes
from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.keys import ApiKeys, OwnKeys
from mintscope.accounts.signups.api import AccountRoutes, ExchangeLimit
from mintscope.accounts.signups.signups import Exchanges, Signups
from mintscope.accounts.wallets.api import AccountCreditRoutes, WalletRoutes
from mintscope.accounts.wallets.credits import AccountCredits, Wallets
from mintscope.alerts.alerts import TESTS, Alerts
from mintscope.alerts.api import AlertRoutes
from mintscope.api.credits import CreditRoutes, RotateRoutes
from mintscope.api.discovery.bazaar import Adverts
from mintscope.api.discovery.openapi import Identity
from mintscope.api.discovery.operation import Operation, operations_of
from mintscope.api.discovery.surfaces import PATHS as DESCRIPTIONS
from mintscope.api.discovery.surfaces import Surfaces
from mintscope.api.events import Streams
from mintscope.api.failures import ENVELOPE, ErrorFormat, ErrorWriter
from mintscope.api.fast_path import TokenFastPath
from mintscope.api.gate import Gate, KeptAnswers, KeyRing
from mintscope.api.health import HealthRoutes, ReadCoverage, no_coverage
from mintscope.api.routes import LISTS, ListParts, token_operations
from mintscope.api.screen import ScreenRoutes
from mintscope.api.series.pools import series_operations
from mintscope.api.streams import StreamRoute
from mintscope.api.v1 import (
    REPORT_PATH,
    TRIAL_PATH,
    V1,
    BatchRoute,
    Freshness,
    TrialBounds,
    TrialRoute,
)
from mintscope.api.x402 import ResourceServer
from mintscope.credits.ledger import CreditLedger, InstantLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits, WriteBudget
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.limits import Limit, Limits, MovingWindow
from mintscope.kit.time import HOUR_S
from mintscope.market.report import Reports
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.pools import SeriesReader
from mintscope.payments.merchant import Merchant
from mintscope.watchlists.api import GroupRoutes
from mintscope.watchlists.watchlists import Watchlists

DEPOSITS_PER_ROTATION: Final = 6
SIGNUP: Final = Limit(name="signup", count=5, window_s=HOUR_S)
EXCHANGE: Final = Limit(name="exchange", count=1, window_s=5)
ACCOUNTS: Final = Limit(name="accounts", count=60, window_s=60)
KEY: Final = Limit(name="key", count=60, window_s=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountParts:
    """The services for accounts, and the rate limits of their routes."""

    signup: Signups
    exchange: Exchanges
    keys: ApiKeys
    credits: AccountCredits
    wallets: Wallets
    watchlists: Watchlists
    signals: Alerts
    signup_limit: Limit
    exchange_limit: Limit
    limit: Limit
    key_limit: Limit
    writes: WriteBudget


def account_operations(
    parts: AccountParts,
    ledger: CreditLedger,
    *,
    limits: AddressLimits,
    clock: Clock,
    rotation_limit: Limit,
) -> Sequence[Operation]:
    """Return the operations under /api, and the operations under /v1 that need an account.

    A withdrawal creates a credit token and has the limit of rotations.  For deposits, each of which
    adds three rows, the limit is DEPOSITS_PER_ROTATION times as high.
    """
    gate = KeyGate(keys=parts.keys, limit=parts.key_limit, limits=limits, writes=parts.writes)
    own = OwnKeys(parts.keys)
    accounts = AccountRoutes(
        signup=parts.signup,
        exchange=parts.exchange,
        own_keys=own,
        gate=gate,
        everything=limits.of(parts.limit),
        signups=limits.of(parts.signup_limit),
        exchanges=ExchangeLimit(parts.exchange_limit, limits.limits),
        addresses=limits.addresses,
        clock=clock,
    )
    of_key = OwnKeyRoutes(gate=gate, own=own, clock=clock)
    deposits = replace(
        rotation_limit, name="deposits", count=DEPOSITS_PER_ROTATION * rotation_limit.count
    )
    held = AccountCreditRoutes(
        gate=gate,
        ledger=ledger,
        credits=parts.credits,
        withdrawals=limits.by_account(replace(rotation_limit, name="withdrawals")),
        deposits=limits.by_account(deposits),
        clock=clock,
    )
    wallets = WalletRoutes(gate=gate, wallets=parts.wallets, clock=clock)
    groups = GroupRoutes(gate=gate, watchlists=parts.watchlists, clock=clock)
    signals = AlertRoutes(
        gate=gate, signals=parts.signals, tests=limits.by_account(TESTS), clock=clock
    )
    every = (accounts, of_key, held, wallets, groups, signals)
    return [operation for handlers in every for operation in operations_of(handlers)]


PUBLIC: Final = Limit(name="public", count=30, window_s=60)
HEALTH: Final = Limit(name="health", count=120, window_s=60)
PROBES: Final = Limit(name="probes", count=1_200, window_s=60)
OTHER: Final = Limit(name="other", count=600, window_s=60)
ROTATIONS: Final = Limit(name="rotations", count=10, window_s=3_600)
DEFAULT_ORIGIN: Final = "http://127.0.0.1:8402"  # in descriptions, if no origin is configured
CORS: Final = Cors(
    paths=["/v1/", "/client/", *DESCRIPTIONS],
    methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    request_headers=[
        "Accept-Payment", "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match",
        "Last-Event-ID", "PAYMENT-SIGNATURE", "SIGN-IN-WITH-X",
        "Access-Control-Expose-Headers",  # official x402 clients send this with their payment
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
    holders: HolderReader | None = None,
    lists: ListParts | None = None,
    streams: Streams | None = None,
    has_fast_path: bool = True,
    identity: Identity | None = None,
    other_paths: Sequence[str] = (),
    coverage: ReadCoverage = no_coverage,
) -> HttpApplication:
    """Return the API.

    checks, trial   checks of /v1/health and /readyz; limits of the free trial, None: no trial
    limits          creates the limits of client addresses; other_limit: for all other routes
    merchant        takes payments; None: nothing is for sale
    accounts, series, holders, lists, streams   None: the API does not have this part
    has_fast_path   whether plain requests for reports are answered on the fast path
    identity        the identity of the service, for descriptions
    other_paths     further paths to name in descriptions
    coverage        returns the recent coverage
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
        series=series,
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
    operations += _of_series(series, holders, v1, lists, limits)
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
    fast_path = _fast_path(v1, ledger, limits.limits, public_limit) if has_fast_path else None
    other, errors = limits.of(other_limit), ErrorWriter(partial(_format_at, router), clock)
    return HttpApplication(router, limit=other, write_error=errors, cors=CORS, fast_path=fast_path)


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


def _of_series(
    series: SeriesReader | None,
    holders: HolderReader | None,
    v1: V1,
    lists: ListParts | None,
    limits: AddressLimits,
) -> list[Operation]:
    if series is None:
        return []
    keeper = None if lists is None else lists.lists
    limit = limits.of(LISTS if lists is None else lists.limit)
    return series_operations(series, v1, keeper, limit, holders)


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


def _fast_path(
    v1: V1, ledger: CreditLedger, limits: Limits, public_limit: Limit
) -> TokenFastPath | None:
    """Return the fast path; None if *ledger* or the limiter can answer only with a wait."""
    limiter = limits.limiter(public_limit)
    if not isinstance(ledger, InstantLedger) or not isinstance(limiter, MovingWindow):
        return None
    return TokenFastPath(
        ledger=ledger,
        reports=v1.reports,
        limiter=limiter,
        freshness=v1.freshness,
        clock=v1.clock,
    )


def _advertise(
    adverts: Adverts, operations: Sequence[Operation], identity: Identity, trial: TrialBounds | None
) -> None:
    """Store in *adverts* the descriptions of *operations* for 402 responses."""
    adverts.add(operations, identity)
    if trial is not None:
        adverts.give_away(REPORT_PATH, TRIAL_PATH)
