"""Parts of an api process that follow the market: lists, reports, status, alerts."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from mintscope.accounts.rows import AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.alerts.alerts import AlertBounds, Alerts, AlertWriter, ReadSymbols
from mintscope.alerts.conditions import Tracks
from mintscope.alerts.deliveries import Deliveries
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.alerts.telegram_bot import BotApi, TelegramBot
from mintscope.alerts.telegram_chats import TelegramChats, TelegramMessages
from mintscope.alerts.webhooks import Receivers, WebhookPost, WebhookSender
from mintscope.api.events import StreamBounds, Streams
from mintscope.api.failures import RETRY_S
from mintscope.api.health import ReadCoverage, no_coverage
from mintscope.api.routes import LISTS, ListParts
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config, SignalsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import Sales
from mintscope.app.running.kernels import load_api_kernels, telling_what_is_compiled
from mintscope.app.stores.market import Market
from mintscope.app.stores.stores import Money, open_market, waiting
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.checks import Check, result_of
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode, ServiceUnavailable, UnusableStore
from mintscope.kit.limits import Limit, Limits
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import SECOND_MS
from mintscope.market.coverage import CoverageReader
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow import list_cache
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.follow.list_files import ListFiles
from mintscope.market.follow.tailer import CoverageTailer, LogTailer
from mintscope.market.log import LogReader
from mintscope.market.report import Reports
from mintscope.market.screening.listed import ListedTokens, ListQuestion
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.holders import no_holders
from mintscope.market.series.pools import SeriesReader
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.payments.audit import ScanScope, violation_of
from mintscope.site.sol import MarketParts
from mintscope.site.status import AgeRules, BooksStatus, MarketStatus, ServiceStatus

HOLDER_BYTES: Final = 8
NOTING_MS: Final = 5 * SECOND_MS  # time for storing the outcome of a webhook


def _email_bounds(config: SignalsConfig) -> EmailBounds:
    return EmailBounds(
        day_max=config.emails_per_day_max,
        of_alert_max=config.emails_per_alert_max,
        pause_ms=config.email_pause_s * SECOND_MS,
    )


def make_signals(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: SignalsConfig,
    store: AccountStore,
    queue: SqlWebhookQueue | None,
    secrets: AccountSecrets,
    clock: Clock,
    symbols: ReadSymbols,
) -> Alerts:
    """Return the service for alerts; *queue* is None if this process sends no webhooks."""
    bounds = AlertBounds(
        per_user_max=config.per_account_max,
        of_all_max=config.of_all_max,
        mints_max=config.mints_max,
        of_emails=_email_bounds(config),
        firings_hour_max=config.firings_per_hour_max,
        allows_loopback=config.webhook_loopback,
        telegram_bot=config.telegram_bot,
    )
    return Alerts(
        store=store,
        queue=queue,
        secrets=secrets,
        clock=clock,
        entropy=os.urandom,
        bounds=bounds,
        symbols=symbols,
    )


@asynccontextmanager
async def signalling(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: SignalsConfig,
    money: Money,
    reader: LogReader,
    limits: Limits,
    clock: Clock,
    origin: str,
    symbols: ReadSymbols,
) -> AsyncIterator[list[Check]]:
    """Evaluate alerts and send messages about firings during the block; yield a check of both.

    Yields [] if alerts are disabled.  Links in messages to Telegram begin with *origin*.
    """
    if not config.enabled:
        yield []
        return
    store = money.accounts
    secrets = AccountSecrets.derive(money.pepper)
    watcher = make_watcher(config, reader, store, clock, symbols)
    receivers = Receivers(limits, clock, per_minute=config.webhooks_per_minute_max)
    deliveries = Deliveries(
        store=store,
        queue=money.webhooks,
        secrets=secrets,
        clock=clock,
        retry_ms_max=config.webhook_retry_s * SECOND_MS,
        # Longer than an attempt, so that no other process sends the same webhook meanwhile.
        lease_ms=int(config.webhook_timeout_s * SECOND_MS) + NOTING_MS,
        waiting_max=config.webhooks_waiting_max,
        kept_max=config.firings_kept_max,
    )
    post = WebhookPost(
        timeout_s=config.webhook_timeout_s,
        allows_loopback=config.webhook_loopback,
        admit=receivers.admit_address,
    )
    sender = WebhookSender(deliveries=deliveries, post=post, receivers=receivers, clock=clock)
    works = {"signals": watcher.run, "webhooks": sender.run}
    if config.telegram_bot and config.telegram_token is not None:
        token = config.telegram_token.get_secret_value()
        bot = TelegramBot(
            api=BotApi(url=config.telegram_url.rstrip("/"), token=token),
            chats=TelegramChats(store=store, secrets=secrets, clock=clock, bot=config.telegram_bot),
            messages=TelegramMessages(store=store, secrets=secrets, clock=clock, origin=origin),
            writer=watcher.writer,
            symbols=symbols,
        )
        works |= {"telegram": bot.send, "telegram chats": bot.listen}
    async with AsyncExitStack() as stack:
        for name, work in works.items():
            await stack.enter_async_context(running(work, name))
        yield [Check("signals", watcher.expect_looking, is_vital=False)]


def make_watcher(
    config: SignalsConfig,
    reader: LogReader,
    store: AccountStore,
    clock: Clock,
    symbols: ReadSymbols,
) -> AlertEvaluator:
    """Return the evaluator that compares alerts with each event of the log and stores firings.

    symbols   reads the symbols of tokens
    """
    return AlertEvaluator(
        reader=reader,
        writer=AlertWriter(
            store=store,
            clock=clock,
            holder=os.urandom(HOLDER_BYTES),
            bounds=_email_bounds(config),
            symbols=symbols,
            lease_ms=int(config.takeover_s * SECOND_MS),
        ),
        evaluation=Evaluation(
            tracks=Tracks(config.mints_max), firings_hour_max=config.firings_per_hour_max
        ),
        clock=clock,
        wait=partial(asyncio.sleep, config.poll_interval_ms / 1000),
    )


GAPS_SHOWN: Final = 5
READ_S: Final = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatusReader:
    """Reads the status of the service.

    If reading the market or the books fails, or takes longer than READ_S, that part of the status
    is None.

    sales        None: nothing is sold, and the status has no books
    started_at   the time at which this process started
    """

    checks: Sequence[Check]
    reader: SqlLogReader
    follower: LogTailer
    sales: Sales | None
    started_at: UnixMs
    rules: AgeRules
    coverage: ReadCoverage = no_coverage

    async def __call__(self) -> ServiceStatus:
        """Return the status of the service at this time."""
        results, market, books = await asyncio.gather(
            asyncio.gather(*map(result_of, self.checks)),
            _in_time(self._market()),
            _in_time(self._books()),
        )
        names = [check.name for check in self.checks]
        return ServiceStatus(
            checks=dict(zip(names, results, strict=True)),
            market=market,
            books=books,
            started_at=self.started_at,
            is_selling=self.sales is not None,
            rules=self.rules,
            coverage=self.coverage(),
        )

    async def _market(self) -> MarketStatus:
        overview, gaps = await self.reader.overview(), await self.reader.gaps(GAPS_SHOWN)
        return MarketStatus(
            slot=overview.slot,
            folded_slot=overview.folded_slot,
            age_ms=self.follower.age_ms(),
            tracked_count=overview.tracked_count,
            gap_count=overview.gap_count,
            gap_slots=overview.gap_slots,
            gaps=gaps,
            pace=self.follower.pace(),
            finality=self.follower.finality(),
        )

    async def _books(self) -> BooksStatus | None:
        if self.sales is None:
            return None
        books = self.sales.maintenance.books
        why, scan = await books.why_stopped(), await books.scan(ScanScope.NEW)
        return BooksStatus(violation_of(why), None if scan is None else scan.finished_at)


def age_rules(api: ApiConfig) -> AgeRules:
    """Return the ages at which data is degraded or stale, and the pause to suggest to clients."""
    return AgeRules(api.degraded_after_s, api.stale_after_s, RETRY_S[ErrorCode.DATA_STALE])


async def _in_time(reading: Coroutine[Any, Any, T]) -> T | None:
    try:
        async with asyncio.timeout(READ_S):
            return await reading
    except (ServiceUnavailable, UnusableStore, TimeoutError):
        return None


@asynccontextmanager
async def listing(
    config: Config, market: Market, follower: LogTailer, clock: Clock, origin: str
) -> AsyncIterator[tuple[ListParts, list[Check]]]:
    """Keep the list current during the block; yield its parts for the API, and two checks.

    The first check fails until the first attempt to load the list has ended, so that the process
    gets no requests until then.  The second check fails if the list is no longer updated; it is not
    vital.  Clients reach this service at *origin*.
    """
    with telling_what_is_compiled():
        load_api_kernels()
    lists = config.lists
    wait = list_cache.NextFold(follower.folded, follower.finality, clock, refresh_s=lists.refresh_s)
    keeper = list_cache.ListKeeper(market.list_snapshots, clock)
    keep = ListFiles(config.data_dir)
    lister = list_cache.ListCache(market.lists, clock, wait=wait, keeper=keeper, keep=keep)
    limit = Limit(name=LISTS.name, count=lists.limit_requests, window_s=lists.limit_window_s)
    async with running(lister.run, "lists"):
        checks = [
            Check("lists", lister.expect_loaded),
            Check("list_age", lister.expect_current, is_vital=False),
        ]
        yield ListParts(lister, limit, origin, follower.follows_files), checks


async def kept_list(config: Config, clock: Clock) -> int | list_cache.NotStored:
    """Store the list of all tokens for the next start of an api process; return the mints' number.

    If the list was not stored, return the reason.  Raises UnusableStore, StoreUnavailable,
    ServiceUnavailable.
    """
    async with open_market(config) as market:
        return await list_cache.store_list(market.lists, market.list_snapshots, clock)


def symbols_of(lists: ListParts) -> ReadSymbols:
    """Return a function that looks up symbols in the list; it finds none while the list loads."""

    async def read(mints: Collection[Mint]) -> Mapping[Mint, str]:
        try:
            listed = lists.lists.newest()
        except ServiceUnavailable:
            return {}
        # In a thread, because this search of the list takes some milliseconds.
        return await asyncio.to_thread(_symbols, listed, mints)

    return read


def _symbols(listed: ListedTokens, mints: Collection[Mint]) -> Mapping[Mint, str]:
    asked = ListQuestion(among=tuple(mints), limit=len(mints))
    found = [line.listed for line in listed.page(asked).lines]
    return {each.mint: each.symbol for each in found if each.symbol}


@asynccontextmanager
async def following(
    config: Config, reader: LogReader, coverage: CoverageReader, clock: Clock
) -> AsyncIterator[tuple[LogTailer, Streams, CoverageTailer, asyncio.Future[UnusableStore]]]:
    """Follow the swap log and the coverage, and run the streams, during the block.

    Yields the follower of the log, the streams, the follower of the coverage, and a future.  The
    future gets an UnusableStore as its result if this process must stop, because other processes
    run with other settings.
    """
    with telling_what_is_compiled():
        market = LiveMarket(config.market.live_mints_max)
    async with waiting(config) as (wait, refused):
        follower = LogTailer(reader, market, clock, wait=wait)
        streams = Streams(Broadcaster(follower, market, clock), clock, stream_bounds(config))
        covered = CoverageTailer(coverage, market.cover, share_min=config.api.read_share_min)
        await covered.try_to_look()  # so that the first report has the coverage
        async with (
            running(follower.run, "follow"),
            running(streams.run, "streams"),
            running(covered.run, "coverage"),
        ):
            yield follower, streams, covered, refused


def stream_bounds(config: Config) -> StreamBounds:
    """Return the bounds of streams in *config*.

    A stream whose client reads nothing ends after half of *api.answer_timeout_s*, so that the
    client can still receive the reason.
    """
    return StreamBounds(
        streams_max=config.streams.open_max,
        streams_per_account_max=config.streams.per_account_max,
        mints_max=config.streams.mints_max,
        behind_s_max=config.api.answer_timeout_s / 2,
        stale_after_s=config.api.stale_after_s,
    )


def market_parts(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    reports: Reports,
    series: SeriesReader,
    lists: list_cache.ListCache,
    streams: Streams,
    ledger: CreditLedger,
    limits: Limits,
    holders: HolderReader | None = None,
) -> MarketParts:
    """Return the services behind the web pages about tokens, with the limits of *config*."""
    return MarketParts(
        reports=reports,
        series=series,
        lists=lists,
        streams=streams,
        ledger=ledger,
        limits=limits,
        last_holders=no_holders if holders is None else holders.last,
        degraded_after_s=config.api.degraded_after_s,
        stale_after_s=config.api.stale_after_s,
        showcase=frozenset(map(Mint, config.web.showcase)),
        free_views_per_day=config.web.free_views_per_day,
        tracks_per_day=config.web.tracks_per_day,
        live_pages_max=config.web.live_pages_max,
        has_mcp=config.mcp.is_served,
    )
