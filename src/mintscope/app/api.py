"""`mintscope api`: the process that answers clients."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from socket import socket
from typing import Final, TypeAlias

from starlette.types import ASGIApp

from mintscope.alerts.alerts import ReadSymbols
from mintscope.api.discovery.guide import MCP
from mintscope.api.discovery.openapi import Identity
from mintscope.api.events import Streams
from mintscope.api.health import ReadCoverage, no_coverage
from mintscope.api.routes import ListParts
from mintscope.api.v1 import Freshness, TrialBounds
from mintscope.app.accounts import Accounts, account_parts, open_accounts
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.following import (
    StatusReader,
    age_rules,
    following,
    listing,
    market_parts,
    signalling,
    symbols_of,
)
from mintscope.app.maintenance import (
    asking_public_address,
    backup_checks,
    delivery_checks,
    keeping_memory_small,
    machine_checks,
    running,
    serving_metrics,
    watching,
)
from mintscope.app.mcp import McpService
from mintscope.app.payments import Measured, Sales, open_sales
from mintscope.app.running.logging import set_level
from mintscope.app.running.operating import operating
from mintscope.app.running.processes import Apply, Reread, bind, held, reloading
from mintscope.app.running.tracing import Siblings, tracing
from mintscope.app.site import Pages, credit_sales, origins_of, resource_origin, write_open_refusal
from mintscope.app.sources import holders_of
from mintscope.app.stores.backups import watch
from mintscope.app.stores.stores import (
    Money,
    expect_own_stores,
    open_limits,
    open_market,
    open_money,
)
from mintscope.app.web_api import DEFAULT_ORIGIN, HEALTH, OTHER, PUBLIC, ROTATIONS, create_app
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.application import Draining, HttpApplication, Server, make_server
from mintscope.kit.http.connections import FastPath
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import Limit, Limits, MemoryLimits
from mintscope.kit.machine import limit_arenas
from mintscope.kit.time import DAY_S
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import LogReader
from mintscope.market.report import Reports
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.pools import SeriesReader
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.payments.merchant import Merchant
from mintscope.site.sales.selling import CreditSales
from mintscope.solana.pace import Pace

Ready: TypeAlias = Callable[[str, int], None]

GAP_SHOWN_S: Final = DAY_S
LIMIT_SETTINGS: Final = [
    f"api.{kind}_limit_{part}"
    for kind in ("rate", "health", "other", "rotation")
    for part in ("requests", "window_s")
]


async def run_api(  # noqa: PLR0913 - one argument for each part
    config: Config,
    ready: Ready,
    siblings: Siblings,
    listener_fd: int | None,
    *,
    is_new: bool = False,
    reread: Reread | None = None,
) -> int | None:
    """Serve clients until a signal arrives, and return its number.

    ready         called with host and port when clients can connect
    siblings      the states of the other processes of the service
    listener_fd   file descriptor of a listening socket; None: create a socket
    is_new        whether to accept an emptied store, or a store of another installation
    reread        reads the configuration again on SIGHUP; None: SIGHUP is ignored
    Raises        FolderInUse, UnusableStore, the errors of `open_sales` and `Sales.expect_ready`,
                  and OSError if an address is in use
    """
    limit_arenas()
    with held(config, "api"), serving_metrics(config.metrics, "api"):
        expect_own_stores(config, is_new=is_new, writes=True, uses_pepper=True)
        listener = bind(config.api) if listener_fd is None else socket(fileno=listener_fd)
        stopped_by: int | None = None
        async with AsyncExitStack() as stack:
            stack.enter_context(tracing(config.tracing, "api", SystemClock()))
            stopped_by = await _serve(config, listener, ready, siblings, stack, reread)
    return stopped_by


async def _serve(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    listener: socket,
    ready: Ready,
    siblings: Siblings,
    stack: AsyncExitStack,
    reread: Reread | None,
) -> int | None:
    clock = SystemClock()
    host, port = listener.getsockname()[:2]
    enter = stack.enter_async_context
    reader = (market := await enter(open_market(config))).reader
    money = await enter(open_money(config, clock))
    ledger = money.ledger
    follower, streams, covered = await enter(following(config, reader, market.reader, clock))
    is_restart = siblings.is_restart
    pace = follower.pace
    draining = Draining(config.drain_s, at_begin=streams.close_doors, at_end=streams.stop)
    limits = await enter(open_limits(config, clock))
    sales = await enter(_selling(config, money, reader, limits, clock, pace, is_restart=is_restart))
    checks = [*siblings.checks, *_checks(config.api, ledger, follower, reader, sales, draining)]
    checks.append(Check("coverage", covered.expect_read, is_vital=False))
    origins = origins_of(config.api.origin, host, port)
    sold_at = resource_origin(config.api.origin, host, port)
    lists, of_lists = await enter(listing(config, market, follower, clock, sold_at))
    await enter(running(partial(watch, config, clock), "backups"))
    accounts, of_signals = await enter(
        _accounts(config, money, reader, origins[0], limits, clock, symbols_of(lists))
    )
    checks += [*of_lists, *of_signals]
    checks.append(Check("streams", streams.expect_room, is_vital=False))
    checks.append(Check("ingest", market.failing_ingest_checks.expect_none, is_vital=False))
    checks += [*delivery_checks(config, clock), *backup_checks(config), *machine_checks(config)]
    checks += await enter(asking_public_address(config, clock))
    api = create_api(
        config,
        reports=follower,
        ledger=ledger,
        checks=checks,
        merchant=(merchant := None if sales is None else sales.merchant(sold_at)),
        accounts=accounts,
        series=market.series,
        holders=(holders := await enter(holders_of(config.chain, clock))),
        lists=lists,
        streams=streams,
        limits=limits,
        clock=clock,
        coverage=(read_coverage := lambda: covered.newest),
    )
    by_address = AddressLimits(limits, ClientAddresses(config.api.trusted_proxies))
    other = other_limit(config.api)
    sold = _sold_on_pages(sales, merchant, ledger)
    shown = market_parts(
        config, follower, market.series, lists.lists, streams, ledger, limits, holders
    )
    run = await enter(operating(config, market, money, clock, follower.age_ms))
    rules = age_rules(config.api)
    status = StatusReader(checks, reader, follower, sales, clock.now(), rules, read_coverage)
    web = replace(accounts, ledger=ledger, market=shown, sales=sold, status=status, operations=run)
    pages = Pages(config.web, web, by_address, other, clock)
    await enter(pages.serving_administrators(_bounds(config.api)))
    mcp = McpService(config.mcp, by_address, other, clock)
    app = await enter(mcp.beside(pages.beside(api, origins), api))
    stack.enter_context(reloading(config, reread, _applied(limits), ours=_is_ours))
    await enter(watching(checks, clock, has_readiness=True))
    await enter(keeping_memory_small())
    ready(host, port)
    server = create_server(config.api, app, clock, api.fast_path, api.websocket_paths, draining)
    await server.serve(sockets=[listener])
    return server.stopped_by


def _sold_on_pages(
    sales: Sales | None, merchant: Merchant | None, ledger: CreditLedger
) -> CreditSales | None:
    if sales is None or merchant is None:
        return None
    return credit_sales(merchant, ledger, sales.expect_open)


@asynccontextmanager
async def _selling(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    money: Money,
    reader: LogReader,
    limits: Limits,
    clock: Clock,
    pace: Measured,
    *,
    is_restart: bool,
) -> AsyncIterator[Sales | None]:
    """Open sales during the block if payments are enabled; otherwise yield None."""
    if not config.payments.enabled:
        yield None
        return
    parts = open_sales(config, money=money, reader=reader, clock=clock, pace=pace, limits=limits)
    async with parts as sales:
        await sales.expect_ready(is_restart=is_restart)
        async with running(sales.maintenance.run, "sales"):
            yield sales


@asynccontextmanager
async def _accounts(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    money: Money,
    reader: LogReader,
    origin: str,
    limits: Limits,
    clock: Clock,
    symbols: ReadSymbols,
) -> AsyncIterator[tuple[Accounts, list[Check]]]:
    """Serve accounts, maintain them and evaluate their alerts during the block."""
    store = money.accounts
    queue = money.webhooks
    pepper = money.pepper
    async with (
        open_accounts(
            config,
            store=store,
            pepper=pepper,
            origin=origin,
            limits=limits,
            clock=clock,
            queue=queue,
            symbols=symbols,
        ) as accounts,
        running(accounts.run, "accounts"),
        signalling(
            config.signals,
            reader=reader,
            store=store,
            queue=queue,
            pepper=pepper,
            limits=limits,
            clock=clock,
            origin=origin,
            symbols=symbols,
        ) as checks,
    ):
        yield accounts, checks


def create_api(  # noqa: PLR0913 - one argument for each part
    config: Config,
    *,
    reports: Reports,
    ledger: CreditLedger,
    checks: Sequence[Check],
    merchant: Merchant | None,
    accounts: Accounts | None,
    limits: Limits,
    clock: Clock,
    series: SeriesReader | None = None,
    holders: HolderReader | None = None,
    lists: ListParts | None = None,
    streams: Streams | None = None,
    coverage: ReadCoverage = no_coverage,
) -> HttpApplication:
    """Return the API built from these parts, with the limits of *config*.

    merchant                                    None: nothing is for sale
    accounts, series, holders, lists, streams   None: the API does not have this part
    """
    api = config.api
    public, health, other, rotation = limits_of(api)
    return create_app(
        reports=reports,
        ledger=ledger,
        checks=checks,
        limits=AddressLimits(limits, ClientAddresses(api.trusted_proxies)),
        clock=clock,
        public_limit=public,
        health_limit=health,
        other_limit=other,
        rotation_limit=rotation,
        trial=_trial(config),
        freshness=Freshness(
            degraded_after_s=api.degraded_after_s,
            stale_after_s=api.stale_after_s,
            idle_after_s=api.idle_after_s,
        ),
        merchant=merchant,
        accounts=None if accounts is None else account_parts(config.accounts, accounts),
        series=series,
        holders=holders,
        lists=lists,
        streams=streams,
        has_fast_path=api.express,
        identity=_identity(config, merchant),
        other_paths=(MCP,) if config.mcp.enabled else (),
        coverage=coverage,
    )


def _trial(config: Config) -> TrialBounds | None:
    """Return the limits of free reports; None if free reports are disabled."""
    per_day = config.api.trial_reports_per_day
    return TrialBounds(per_day, config.web.free_views_per_day) if per_day else None


def _identity(config: Config, merchant: Merchant | None) -> Identity:
    """Return the identity of the service; with sales, its origin is that of the merchant."""
    origin = config.api.origin or DEFAULT_ORIGIN if merchant is None else merchant.origin
    return Identity(
        origin=origin,
        name=config.api.name,
        contact=config.api.contact,
        has_pages=config.web.enabled,
    )


def limits_of(api: ApiConfig) -> Sequence[Limit]:
    """Return the rate limits of /v1, of health checks, of other routes, and of token rotations."""
    return (
        _limit(PUBLIC, api.rate_limit_requests, api.rate_limit_window_s),
        _limit(HEALTH, api.health_limit_requests, api.health_limit_window_s),
        other_limit(api),
        _limit(ROTATIONS, api.rotation_limit_requests, api.rotation_limit_window_s),
    )


def _is_ours(key: str) -> bool:
    """Return whether the setting *key* is in a section that api processes use."""
    return not key.startswith(("geyser.", "backup."))


def _applied(limits: Limits) -> Mapping[str, Apply]:
    """Return, by key of the setting, functions that apply a new value while the process runs.

    The limits that api processes share must be equal in all of them; only a restart changes them.
    """
    applied: dict[str, Apply] = {"log.level": lambda config: set_level(config.log.level)}
    if isinstance(limits, MemoryLimits):

        def change(config: Config) -> None:
            for limit in limits_of(config.api):
                limits.change(limit)

        applied |= dict.fromkeys(LIMIT_SETTINGS, change)
    return applied


def other_limit(api: ApiConfig) -> Limit:
    """Return the limit for routes without a limit of their own, such as pages and unknown paths."""
    return _limit(OTHER, api.other_limit_requests, api.other_limit_window_s)


def _limit(usual: Limit, count: int, window_s: int) -> Limit:
    return replace(usual, count=count, window_s=window_s)


def create_server(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: ApiConfig,
    app: ASGIApp,
    clock: Clock,
    fast_path: FastPath | None,
    websocket_paths: Collection[bytes] = (),
    draining: Draining | None = None,
) -> Server:
    """Return a server for *app*, with the bounds of *config*; it does not listen yet."""
    return make_server(
        app,
        clock=clock,
        addresses=ClientAddresses(config.trusted_proxies),
        bounds=_bounds(config),
        write_refusal=write_open_refusal,
        fast_path=fast_path,
        websocket_paths=websocket_paths,
        draining=draining,
    )


def _bounds(api: ApiConfig) -> Bounds:
    return Bounds(
        head_bytes_max=api.header_bytes_max,
        body_bytes_max=api.body_bytes_max,
        request_s_max=api.request_timeout_s,
        unread_s_max=api.answer_timeout_s,
        keep_alive_s_max=api.keep_alive_s,
        connections_max=api.connections_max,
        connections_per_client_max=api.connections_per_client_max,
    )


def _checks(  # noqa: PLR0913, PLR0917 - one argument for each part
    api: ApiConfig,
    ledger: CreditLedger,
    follower: LogTailer,
    reader: SqlLogReader,
    sales: Sales | None,
    draining: Draining,
) -> list[Check]:
    checks = [
        Check("stopping", draining.expect_not_begun),
        Check("store", ledger.expect_writable),
        _freshness_check(api, follower),
        gap_check(reader, follower.pace),
        Check("rate", follower.expect_rate, is_vital=False),
        Check("finality", follower.expect_final, is_vital=False),
        Check("fold", follower.expect_folded, is_vital=False),
    ]
    if sales is None:
        return checks
    return [
        *checks,
        Check("chain", sales.expect_chain),
        Check("sales", sales.expect_selling, is_vital=False),
        Check("price", sales.expect_prices, is_vital=False),
        Check("audits", sales.maintenance.expect_audits, is_vital=False),
    ]


def gap_check(reader: SqlLogReader, pace: Callable[[], Pace | None]) -> Check:
    """Return the check that no slot of the last day is missing; if it fails, data is still served.

    pace   returns the pace of the chain; while the pace is unknown, any open gap fails the check
    """

    async def expect_no_gap() -> None:
        tip, newest = await reader.tip(), await reader.gaps(1)
        if tip.slot is None or tip.follows_files or not newest:
            return
        gap = newest[0]
        now = pace()
        if now is None or now.seconds(tip.slot - gap.last) < GAP_SHOWN_S:
            raise ServiceUnavailable(f"slots {gap.first} to {gap.last} are missing: {gap.reason}")

    return Check("gaps", expect_no_gap, is_vital=False)


def _freshness_check(api: ApiConfig, follower: LogTailer) -> Check:
    async def expect_fresh() -> None:
        age_ms = follower.age_ms()
        if age_ms is None:
            raise ServiceUnavailable("no block has been applied yet")
        if age_ms > api.degraded_after_s * 1000:
            raise ServiceUnavailable(f"the newest block is {age_ms // 1000} s old")

    return Check("data", expect_fresh)
