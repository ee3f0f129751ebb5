"""`mintscope api`: the process that answers clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from socket import socket
from typing import Final, TypeAlias

from starlette.types import ASGIApp

from mintscope.alerts.alerts import ReadSymbols
from mintscope.app.accounts import Accounts, open_accounts
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.config.values import origins_of, resource_origin
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
from mintscope.app.mcp import with_mcp
from mintscope.app.payments import Measured, Sales, open_sales
from mintscope.app.running.logging import set_level
from mintscope.app.running.operating import operating
from mintscope.app.running.processes import Apply, Reread, bind, held, reloading
from mintscope.app.running.tracing import Siblings, tracing
from mintscope.app.site import Pages, credit_sales, write_open_refusal
from mintscope.app.sources import holders_of
from mintscope.app.stores.backups import watch
from mintscope.app.stores.stores import (
    Money,
    expect_own_stores,
    open_limits,
    open_market,
    open_money,
)
from mintscope.app.web_api import create_api, limits_of, other_limit
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.http.application import Draining, Server, make_server
from mintscope.kit.http.connections import FastPath
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.machine import limit_arenas
from mintscope.kit.time import DAY_S
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import LogReader
from mintscope.market.store.log_reader import SqlLogReader
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
    is_new: bool,
    reread: Reread,
) -> int | None:
    """Serve clients until a signal arrives, and return its number.

    Return None if the server ends without a signal.

    ready         called with host and port when clients can connect
    siblings      the states of all processes, as the parent reports them
    listener_fd   file descriptor of a listening socket; None: create a socket
    is_new        whether to accept an emptied store, or a store of another installation
    reread        reads the configuration again on SIGHUP
    Raises        FolderInUse, FolderOpen, UnusableStore, the errors of `open_sales` and
                  `Sales.expect_ready`, and OSError if it cannot listen on an address
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
    reread: Reread,
) -> int | None:
    clock = SystemClock()
    host, port = listener.getsockname()[:2]
    enter = stack.enter_async_context
    reader = (market := await enter(open_market(config))).reader
    money = await enter(open_money(config, clock))
    ledger = money.ledger
    followed = await enter(following(config, reader, market.reader, clock))
    follower, streams, covered, refused = followed
    is_restart = siblings.is_restart
    pace = follower.pace
    limits = await enter(open_limits(config, clock))
    sales = await enter(_selling(config, money, reader, limits, clock, pace, is_restart=is_restart))
    draining = Draining(config.drain_s, at_begin=streams.close_doors, at_end=streams.stop)
    if sales is not None:
        draining.at_last = sales.chain.stop
    checks = [*siblings.checks, *_checks(config.api, ledger, follower, reader, sales, draining)]
    checks.append(Check("coverage", covered.expect_read, is_vital=False))
    origins = origins_of(config.api.origin, host, port)
    sold_at = resource_origin(config.api.origin, host, port)
    lists, of_lists = await enter(listing(config, market, follower, clock, sold_at))
    await enter(running(partial(watch, config, clock), "backups"))
    accounts, of_signals = await enter(
        _accounts(config, money, reader, origins[0], limits, clock, symbols_of(lists))
    )
    checks += [*of_lists, *of_signals, Check("streams", streams.expect_room, is_vital=False)]
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
    sold = None if sales is None else credit_sales(merchant, ledger, sales.expect_open)
    shown = market_parts(
        config, follower, market.series, lists.lists, streams, ledger, limits, holders
    )
    run = await enter(operating(config, market, money, clock, follower.age_ms))
    rules = age_rules(config.api)
    status = StatusReader(checks, reader, follower, sales, clock.now(), rules, read_coverage)
    web = replace(accounts, ledger=ledger, market=shown, sales=sold, status=status, operations=run)
    pages = Pages(config.web, web, by_address, other, clock)
    await enter(pages.serving_administrators(_bounds(config.api)))
    shown_beside = pages.beside(api, origins)
    app = await enter(with_mcp(config.mcp, shown_beside, api, by_address, other, clock))
    stack.enter_context(reloading(config, reread, _applied(limits), ours=_is_ours))
    await enter(watching(checks, clock, has_readiness=True))
    await enter(keeping_memory_small())  # last: collections then skip all existing objects
    server = create_server(config.api, app, clock, api.fast_path, api.websocket_paths, draining)
    return await _run(server, listener, ready, refused)


async def _run(
    server: Server, listener: socket, ready: Ready, refused: asyncio.Future[UnusableStore]
) -> int | None:
    """Serve *listener* until the server is stopped; return the number of the signal, or None.

    refused   when it gets an error, the server stops, and the error is raised
    """
    host, port = listener.getsockname()[:2]
    refused.add_done_callback(lambda _: server.stop())
    with server.capture_signals():  # a supervisor may stop a process that is ready
        ready(host, port)
        await server.serve(sockets=[listener])
    if refused.done():
        raise refused.result()
    return server.stopped_by


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
    """Take payments during the block; yield the objects for this, or None if that is disabled."""
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
    """Maintain accounts and evaluate alerts during the block; yield their services and checks."""
    async with (
        open_accounts(
            config,
            store=money.accounts,
            pepper=money.pepper,
            origin=origin,
            limits=limits,
            clock=clock,
            queue=money.webhooks,
            symbols=symbols,
        ) as accounts,
        running(accounts.run, "accounts"),
        signalling(config.signals, money, reader, limits, clock, origin, symbols) as checks,
    ):
        yield accounts, checks


def _is_ours(key: str) -> bool:
    """Return whether an api process uses the setting *key*: not those of geyser and backups."""
    return not key.startswith(("geyser.", "backup."))


def _applied(limits: Limits) -> Mapping[str, Apply]:
    """Return functions that apply a changed setting while the process runs, by key of the setting.

    Limits that api processes share must be equal in all of them; only a restart changes them.
    """
    applied: dict[str, Apply] = {"log.level": lambda config: set_level(config.log.level)}
    if isinstance(limits, MemoryLimits):

        def change(config: Config) -> None:
            for limit in limits_of(config.api):
                limits.change(limit)

        applied |= dict.fromkeys(LIMIT_SETTINGS, change)
    return applied


def create_server(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: ApiConfig,
    app: ASGIApp,
    clock: Clock,
    fast_path: FastPath | None,
    websocket_paths: Collection[bytes] = (),
    draining: Draining | None = None,
) -> Server:
    """Return a server for *app*, with the limits in *config*; it does not listen yet."""
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
    """Return the check that the log has every slot of the last 24 hours.

    If it fails, data is still served.  If the chain is read from files, the check passes.

    pace   returns the measured duration of slots; if it returns None, a missing slot of any age
           fails the check
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
