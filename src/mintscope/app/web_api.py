"""Every route of the API, in one file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mintscope.accounts.keys.api import OwnKeyRoutes
from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.keys import OwnKeys
from mintscope.accounts.signups.api import AccountRoutes, ExchangeLimit
from mintscope.accounts.wallets.api import AccountCreditRoutes, WalletRoutes
from mintscope.alerts.alerts import TESTS
from mintscope.alerts.api import AlertRoutes
from mintscope.api.credits import CreditRoutes, RotateRoutes
from mintscope.api.discovery.bazaar import Adverts
from mintscope.api.discovery.guide import MCP
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
from mintscope.app.accounts import Accounts
from mintscope.app.config.config import AccountsConfig, ApiConfig
from mintscope.app.config.groups import Config
from mintscope.credits.ledger import CreditLedger, InstantLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.routes import Cors, Route, Router
from mintscope.kit.limits import Limit, Limits, MovingWindow
from mintscope.kit.time import HOUR_S
from mintscope.market.report import Reports
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.pools import SeriesReader
from mintscope.payments.merchant import Merchant
from mintscope.watchlists.api import GroupRoutes

DEPOSITS_PER_ROTATION: Final = 6
SIGNUP: Final = Limit(name="signup", count=5, window_s=HOUR_S)
EXCHANGE: Final = Limit(name="exchange", count=1, window_s=5)
ACCOUNTS: Final = Limit(name="accounts", count=60, window_s=60)
KEY: Final = Limit(name="key", count=60, window_s=60)


def limits_of_accounts(config: AccountsConfig) -> Sequence[Limit]:
    """Return the rate limits of sign-ups, of exchanges, of all routes of accounts, and of keys."""
    return (
        _limit(SIGNUP, config.signup_limit_requests, config.signup_limit_window_s),
        _limit(EXCHANGE, config.exchange_limit_requests, config.exchange_limit_window_s),
        _limit(ACCOUNTS, config.limit_requests, config.limit_window_s),
        _limit(KEY, config.key_limit_requests, config.key_limit_window_s),
    )


def account_operations(
    config: Config,
    parts: Accounts,
    ledger: CreditLedger,
    *,
    limits: AddressLimits,
    clock: Clock,
) -> Sequence[Operation]:
    """Return the operations of accounts: all under /api, and those under /v1 for account users."""
    signups, exchanges, everything, of_keys = limits_of_accounts(config.accounts)
    *_, withdrawals, deposits = limits_of(config.api)
    gate = KeyGate(keys=parts.keys, limit=of_keys, limits=limits, writes=parts.writes)
    own = OwnKeys(parts.keys)
    accounts = AccountRoutes(
        signup=parts.signup,
        exchange=parts.exchange,
        own_keys=own,
        gate=gate,
        everything=limits.of(everything),
        signups=limits.of(signups),
        exchanges=ExchangeLimit(exchanges, limits.limits),
        addresses=limits.addresses,
        clock=clock,
    )
    of_key = OwnKeyRoutes(gate=gate, own=own, clock=clock)
    held = AccountCreditRoutes(
        gate=gate,
        ledger=ledger,
        credits=parts.credits,
        withdrawals=limits.by_account(withdrawals),
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


def limits_of(api: ApiConfig) -> Sequence[Limit]:
    """Return the rate limits of the API, from its settings.

    They are those of /v1, health checks, other routes, rotations, withdrawals and deposits.  A
    withdrawal creates a credit token, so its limit is as high as that of rotations.  The limit of
    deposits, each of which adds three rows, is DEPOSITS_PER_ROTATION times as high.
    """
    rotations = _limit(ROTATIONS, api.rotation_limit_requests, api.rotation_limit_window_s)
    return (
        _limit(PUBLIC, api.rate_limit_requests, api.rate_limit_window_s),
        _limit(HEALTH, api.health_limit_requests, api.health_limit_window_s),
        other_limit(api),
        rotations,
        replace(rotations, name="withdrawals"),
        replace(rotations, name="deposits", count=DEPOSITS_PER_ROTATION * rotations.count),
    )


def other_limit(api: ApiConfig) -> Limit:
    """Return the limit for routes without a limit of their own, such as pages and unknown paths."""
    return _limit(OTHER, api.other_limit_requests, api.other_limit_window_s)


def _limit(usual: Limit, count: int, window_s: int) -> Limit:
    return replace(usual, count=count, window_s=window_s)


def create_api(  # noqa: PLR0913 - one argument for each part
    config: Config,
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    limits: Limits,
    clock: Clock,
    merchant: Merchant | None = None,
    accounts: Accounts | None = None,
    series: SeriesReader | None = None,
    holders: HolderReader | None = None,
    lists: ListParts | None = None,
    streams: Streams | None = None,
    coverage: ReadCoverage = no_coverage,
) -> HttpApplication:
    """Return the application that serves the API, with the limits of *config*.

    merchant                                    None: nothing is for sale
    accounts, series, holders, lists, streams   None: the API does not have this part
    """
    public, health, _, rotations, *_ = limits_of(config.api)
    by_address = AddressLimits(limits, ClientAddresses(config.api.trusted_proxies))
    key_ring = None if accounts is None else KeyRing(accounts.keys, accounts.credits)
    gate = Gate(ledger=ledger, limit=public, limits=by_address, key_ring=key_ring)
    adverts = Adverts()
    x402 = ResourceServer(ledger, merchant, gate, adverts, KeptAnswers(clock))
    v1 = V1(
        reports=reports,
        gate=gate,
        clock=clock,
        freshness=_freshness(config.api),
        resource_server=x402,
        series=series,
    )
    every = (
        BatchRoute(v1),
        CreditRoutes(
            gate=gate, ledger=ledger, merchant=merchant, resource_server=x402, clock=clock
        ),
        RotateRoutes(
            gate=gate,
            ledger=ledger,
            merchant=merchant,
            clock=clock,
            rate_limit=by_address.by_account(rotations),
        ),
        HealthRoutes(
            checks=checks,
            limit=by_address.of(health),
            probe_limit=by_address.of(PROBES),
            clock=clock,
            coverage=coverage,
        ),
    )
    operations = [*operations_of(v1), *_trial_operations(config, v1, public, by_address)]
    operations += [operation for handlers in every for operation in operations_of(handlers)]
    if series is not None:
        keeper, limit = (None, LISTS) if lists is None else (lists.lists, lists.limit)
        operations += series_operations(series, v1, keeper, by_address.of(limit), holders)
    if streams is not None:
        operations += operations_of(StreamRoute(streams, v1))
    if accounts is not None:
        operations += account_operations(config, accounts, ledger, limits=by_address, clock=clock)
    if lists is not None:
        screens = ScreenRoutes(v1=v1, lists=lists.lists, follows_files=lists.follows_files)
        operations += operations_of(screens)
        operations += token_operations(lists, limits=by_address, clock=clock)
    fast_path = _fast_path(v1, ledger, limits, public) if config.api.express else None
    return _application(config, operations, adverts, merchant, by_address, clock, fast_path)


def _freshness(api: ApiConfig) -> Freshness:
    return Freshness(
        degraded_after_s=api.degraded_after_s,
        stale_after_s=api.stale_after_s,
        idle_after_s=api.idle_after_s,
    )


def _trial_operations(
    config: Config, v1: V1, limit: Limit, limits: AddressLimits
) -> list[Operation]:
    per_day = config.api.trial_reports_per_day
    if not per_day:
        return []
    bounds = TrialBounds(per_day, config.web.free_views_per_day)
    trial = TrialRoute(v1, bounds, requests=limits.of(limit), limits=limits.limits)
    return operations_of(trial, per_day=per_day)


def _application(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    operations: Sequence[Operation],
    adverts: Adverts,
    merchant: Merchant | None,
    limits: AddressLimits,
    clock: Clock,
    fast_path: TokenFastPath | None,
) -> HttpApplication:
    """Return the application that serves *operations* and the documents that describe them."""
    api = config.api
    identity = Identity(
        origin=api.origin or DEFAULT_ORIGIN if merchant is None else merchant.origin,
        name=api.name,
        contact=api.contact,
        has_pages=config.web.enabled,
    )
    adverts.add(operations, identity)
    if api.trial_reports_per_day:
        adverts.give_away(REPORT_PATH, TRIAL_PATH)
    surfaces = Surfaces(
        operations,
        identity=identity,
        adverts=adverts,
        merchant=merchant,
        clock=clock,
        other=(MCP,) if config.mcp.enabled else (),
    )
    router: Router[Route] = Router([*operations, *surfaces.routes()])
    return HttpApplication(
        router,
        limit=limits.of(other_limit(api)),
        write_error=ErrorWriter(partial(_format_at, router), clock),
        cors=CORS,
        fast_path=fast_path,
    )


def _format_at(router: Router[Route], path: str) -> ErrorFormat:
    methods = router.methods(path) or {}
    found = next(iter(methods.values()), None)
    return found.error_format if isinstance(found, Operation) else ENVELOPE


def _fast_path(
    v1: V1, ledger: CreditLedger, limits: Limits, public_limit: Limit
) -> TokenFastPath | None:
    """Return the fast path for token reports; None if it could not answer without waiting.

    That is the case if *ledger* or the limiter needs another process, such as PostgreSQL.
    """
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
