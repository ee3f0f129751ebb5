"""The composition root: the only module that knows every implementation."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, Final

from starlette.types import ASGIApp

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.limits import Limit, Limits, MemoryLimits
from mintscope.base.metrics import serve_metrics
from mintscope.base.primitives import Mint, Slot
from mintscope.base.solana import WSOL, Endpoint, Source
from mintscope.base.time import DAY_S, HOUR_S
from mintscope.core.dex.decode import decode_block
from mintscope.core.market.engine.live import LiveMarket
from mintscope.core.market.registry import Floor
from mintscope.core.market.store import MarketStore, Retention, Tracking
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.api.accounts.routes import AccountParts
from mintscope.edges.api.app import HEALTH, PUBLIC, create_app
from mintscope.edges.api.health import Check
from mintscope.edges.api.shop import Shop
from mintscope.edges.api.v1 import Freshness
from mintscope.edges.follow.follower import Follower
from mintscope.edges.ingest.pipeline import Ingest
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.protocol import Bounds
from mintscope.edges.server.server import listen, make_server, spare_what_is_there
from mintscope.edges.sources.files import FileSource
from mintscope.edges.sources.poll import Poller, Polling
from mintscope.edges.sources.rpc import Rpc
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE, held
from mintscope.edges.storage.pepper import load_pepper
from mintscope.edges.storage.sqlite.market.log_reader import SqliteLogReader
from mintscope.edges.storage.sqlite.market.log_writer import SqliteMarketStore
from mintscope.edges.storage.sqlite.market.tracking import SqliteTracking
from mintscope.edges.storage.sqlite.money.books import SqlitePaymentBooks
from mintscope.edges.storage.sqlite.money.credits import CreditBook, SqliteCreditLedger
from mintscope.shell.config.sections import ApiConfig, ChainConfig, Config, MarketConfig
from mintscope.shell.wiring.accounts import desks_of, open_accounts
from mintscope.shell.wiring.payments import Sales, open_sales
from mintscope.shell.wiring.site import origins_of, serving_administrators, with_pages

MICRO_USD: Final = 1_000_000

Progress = Callable[[int, int], None]


async def run_ingest(config: Config, progress: Progress) -> None:
    """Follow the chain into the store until the source ends or a signal comes.

    Raises FolderInUse, and what the source or the store says an operator must look at.
    """
    clock = SystemClock()
    with held(config.data_dir, "ingest"), _metrics(config, config.metrics.ingest_port):
        store = _market_store(config)
        try:
            async with _source(config.chain, clock, progress) as source:
                ingest = Ingest(
                    source=source,
                    store=store,
                    decode=decode_block,
                    clock=clock,
                    mints=_first_mints(config),
                    floor=_floor(config.market),
                    follows_files=config.chain.source == "files",
                )
                await _until_signalled(ingest.run())
        finally:
            await store.close()


async def run_api(config: Config, ready: Callable[[str, int], None]) -> None:
    """Serve clients until a signal comes; *ready* hears the address once they can connect.

    Raises FolderInUse, UnusableStore, UnusablePepper, and OSError for an address in use.
    """
    clock = SystemClock()
    with held(config.data_dir, "api"), _metrics(config, config.metrics.api_port):
        listener = listen(config.api.host, config.api.port)
        host, port = listener.getsockname()[:2]
        async with AsyncExitStack() as stack:
            ledger = SqliteCreditLedger(
                config.data_dir / MONEY_FILE, pepper=pepper(config), clock=clock
            )
            stack.push_async_callback(ledger.close)
            reader = SqliteLogReader(config.data_dir / MARKET_FILE)
            stack.push_async_callback(reader.close)
            follower = Follower(
                reader,
                LiveMarket(config.market.live_mints_max),
                clock,
                poll_interval_s=config.api.poll_interval_ms / 1000,
            )
            checks = _checks(config.api, ledger, follower)
            shop = None
            if config.payments.enabled:
                sales = await stack.enter_async_context(
                    open_sales(config, root=pepper(config), reader=reader, clock=clock)
                )
                await sales.expect_ready()
                await stack.enter_async_context(_running(sales.run(), "sales"))
                checks.append(Check("chain", sales.expect_chain))
                shop = _shop(config, sales, origin=f"http://{place(host)}:{port}")
            addresses = ClientAddresses(config.api.trusted_proxies)
            origins = origins_of(config.api.origin, host, port)
            limits = MemoryLimits(clock)
            accounts = await stack.enter_async_context(
                open_accounts(
                    config, root=pepper(config), origin=origins[0], limits=limits, clock=clock
                )
            )
            await stack.enter_async_context(_running(accounts.run(), "accounts"))
            app = _app(
                config.api,
                reports=follower,
                ledger=ledger,
                checks=checks,
                limits=limits,
                clock=clock,
                addresses=addresses,
                shop=shop,
                desks=desks_of(config.accounts, accounts),
            )
            app = with_pages(
                app,
                config.web,
                accounts=accounts,
                origins=origins,
                addresses=addresses,
                limits=limits,
                clock=clock,
            )
            bounds = _bounds(config.api)
            await stack.enter_async_context(
                serving_administrators(
                    config.web,
                    accounts=accounts,
                    addresses=addresses,
                    limits=limits,
                    clock=clock,
                    bounds=bounds,
                )
            )
            server = make_server(app, clock=clock, addresses=addresses, bounds=bounds)
            await stack.enter_async_context(_running(follower.run(), "follow"))
            spare_what_is_there()
            ready(host, port)
            await server.serve(sockets=[listener])


def place(host: str) -> str:
    """Return *host* as an address names it."""
    return f"[{host}]" if ":" in host else host


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run *work*, which has no end, beside the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _shop(config: Config, sales: Sales, *, origin: str) -> Shop:
    return Shop(
        facilitator=sales.facilitator,
        board=sales.board,
        rotations=sales.store,
        origin=config.api.origin or origin,
        name=config.payments.asset_name,
        symbol=config.payments.asset_symbol,
    )


def _app(  # noqa: PLR0913 - one argument for each part
    api: ApiConfig,
    *,
    reports: Follower,
    ledger: SqliteCreditLedger,
    checks: Sequence[Check],
    limits: Limits,
    clock: Clock,
    addresses: ClientAddresses,
    shop: Shop | None,
    desks: AccountParts,
) -> ASGIApp:
    return create_app(
        reports=reports,
        ledger=ledger,
        checks=checks,
        limits=limits,
        clock=clock,
        addresses=addresses,
        public_limit=Limit(
            name=PUBLIC.name, count=api.rate_limit_requests, window_s=api.rate_limit_window_s
        ),
        health_limit=Limit(
            name=HEALTH.name, count=api.health_limit_requests, window_s=api.health_limit_window_s
        ),
        freshness=Freshness(degraded_after_s=api.degraded_after_s, stale_after_s=api.stale_after_s),
        shop=shop,
        desks=desks,
    )


async def _until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* to its end, or cancel it when SIGINT or SIGTERM asks us to stop."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _metrics(config: Config, port: int) -> AbstractContextManager[object]:
    """Return the metrics listener of this process, if it is to have one."""
    metrics = config.metrics
    return serve_metrics(metrics.host, port) if metrics.enabled else nullcontext()


@contextmanager
def credit_book(config: Config) -> Iterator[CreditBook]:
    """Open the credit tables for a command."""
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    book = CreditBook(config.data_dir / MONEY_FILE, pepper=pepper(config))
    try:
        yield book
    finally:
        book.close()


@contextmanager
def payment_books(config: Config) -> Iterator[SqlitePaymentBooks]:
    """Open the books of payments for a command."""
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    books = SqlitePaymentBooks(config.data_dir / MONEY_FILE)
    try:
        yield books
    finally:
        books.close()


@asynccontextmanager
async def tracking(config: Config) -> AsyncIterator[Tracking]:
    """Open the list of mints for a command."""
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    mints = SqliteTracking(config.data_dir / MARKET_FILE)
    try:
        yield mints
    finally:
        await mints.close()


def pepper(config: Config) -> bytes:
    """Return the key of the stored hashes: the configured one, else the kept one."""
    if config.credits.pepper is not None:
        return bytes.fromhex(config.credits.pepper.get_secret_value())
    return load_pepper(config.data_dir / PEPPER_FILE)


def _market_store(config: Config) -> MarketStore:
    market = config.market
    keep_s = {
        Timeframe.M1: market.retention_m1_hours * HOUR_S,
        Timeframe.M5: market.retention_m5_hours * HOUR_S,
        Timeframe.M15: market.retention_m15_days * DAY_S,
        Timeframe.H1: market.retention_h1_days * DAY_S,
    }
    return SqliteMarketStore(
        config.data_dir / MARKET_FILE,
        follows_all=market.track == "all",
        retention=Retention(keep_s),
    )


def _first_mints(config: Config) -> list[Mint]:
    """Return the mints followed on a fresh installation, the payment token among them."""
    payments = config.payments
    sold_for = [payments.asset] if payments.enabled else []
    return [*dict.fromkeys(map(Mint, [WSOL, *sold_for, *config.market.mints]))]


def _floor(market: MarketConfig) -> Floor | None:
    if market.track == "list":
        return None
    return Floor(
        swaps_min=market.floor_swaps_per_day,
        volume_min=market.floor_usd_per_day * MICRO_USD,
        dead_after_days=market.dead_after_days,
    )


@asynccontextmanager
async def _source(chain: ChainConfig, clock: Clock, progress: Progress) -> AsyncIterator[Source]:
    if chain.source == "files":
        yield FileSource(chain.files, progress=progress)
        return
    async with Rpc(_endpoint(chain), clock=clock) as rpc:
        polling = Polling(
            start=chain.start if isinstance(chain.start, str) else Slot(chain.start),
            backfill_slots=chain.backfill_slots,
            requests_in_flight=chain.requests_in_flight,
            poll_interval_ms=chain.poll_interval_ms,
            gap_after_s=chain.gap_after_s,
            max_gap_slots=chain.max_gap_slots,
        )
        yield Poller(rpc, polling, clock=clock, progress=progress)


def _endpoint(chain: ChainConfig) -> Endpoint:
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
        timeout_s=chain.timeout_s,
        requests_in_flight=chain.requests_in_flight,
        max_transaction_version=chain.max_transaction_version,
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


def _checks(api: ApiConfig, ledger: SqliteCreditLedger, follower: Follower) -> list[Check]:
    async def expect_fresh() -> None:
        age_ms = follower.age_ms()
        if age_ms is None:
            raise ServiceUnavailable("no block has been applied yet")
        if age_ms > api.degraded_after_s * 1000:
            raise ServiceUnavailable(f"the newest block is {age_ms // 1000} s old")

    return [Check("store", ledger.expect_writable), Check("data", expect_fresh)]
