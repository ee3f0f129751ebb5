"""`mintscope ingest`: the process that reads the chain, and stores the market data."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Final

import structlog

from mintscope.app import maintenance
from mintscope.app.config.groups import Config, MarketConfig
from mintscope.app.engine import address_of, engine_of
from mintscope.app.running.decode_worker import decoder, decoding_ahead, programs_read
from mintscope.app.running.kernels import load_ingest_kernels, telling_what_is_compiled
from mintscope.app.running.list_worker import Order, store_apart
from mintscope.app.running.logging import logs_json, set_level
from mintscope.app.running.processes import Apply, Backoff, Reread, held, reloading
from mintscope.app.sources import backfill_queue, backfills_beside, following, gap_mending
from mintscope.app.stores.stores import Market, expect_own_stores, open_market
from mintscope.ingest.coverage import VenueWatch, show_programs
from mintscope.ingest.pipeline import Ingest, Writing, WrongChain, newest_stored
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.errors import StoreUnavailable
from mintscope.kit.machine import expect_batches
from mintscope.kit.primitives import MICRO_USD, Mint, Slot
from mintscope.market.follow.list_cache import keep_snapshot
from mintscope.market.mint_accounts import keep_facts
from mintscope.market.ports import Floor
from mintscope.market.quotes import QuoteMints
from mintscope.market.shard import parse_shard
from mintscope.solana.blocks import WSOL, Source
from mintscope.solana.files import FileSource, Progress
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import WatchedNode, WatchedSource
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from mintscope.solana.yellowstone.block_buffer import StreamWatch

__all__ = ["WrongChain"]

log = structlog.get_logger()

# "" stands for the settings outside sections.
OURS: Final = {"", "chain", "geyser", "dex", "market", "log", "metrics", "watch"}
APPLIED: Final[Mapping[str, Apply]] = {"log.level": lambda config: set_level(config.log.level)}


async def run_ingest(
    config: Config, progress: Progress, *, is_new: bool, reread: Reread
) -> int | None:
    """Follow the chain, and store its swaps and prices, until the source ends or a signal arrives.

    Return the number of the signal; None if the source has ended.

    progress   called with (done, total), in slots, or in bytes of block files
    is_new     whether to accept an emptied store, or a store of another installation
    reread     reads the configuration again on SIGHUP
    Raises     FolderInUse, FolderOpen, UnusableStore, errors of the source that need an operator,
               and OSError if it cannot listen on the port of the metrics
    """
    clock = SystemClock()
    with held(config, "ingest"), maintenance.serving_metrics(config.metrics, "ingest"):
        with telling_what_is_compiled():
            load_ingest_kernels()
        work = _run(config, progress, clock, is_new=is_new)
        with reloading(config, reread, APPLIED, ours=_is_ours):
            return await maintenance.run_until_signalled(work)


def _is_ours(key: str) -> bool:
    """Return whether ingest uses the setting *key*, so that its change matters at a reload."""
    section, _, _ = key.rpartition(".")
    return section in OURS


async def _run(config: Config, progress: Progress, clock: Clock, *, is_new: bool) -> None:
    """Read the chain; if the store cannot be written, wait, and resume after its newest block."""
    writing, backoff = Writing(), Backoff()
    checks = [*maintenance.machine_checks(config), Check("market", writing.expect_stored)]
    async with maintenance.watching(checks, clock, has_readiness=False):
        while True:
            start_s = clock.monotonic_s()
            try:
                # In the loop, because the store may be unavailable from the start.
                expect_own_stores(config, is_new=is_new, writes=True)
                is_new = False  # only once: a store that is exchanged later is refused
                return await _run_once(config, progress, clock)
            except StoreUnavailable as trouble:
                wait_s = backoff.after(clock.monotonic_s() - start_s)
                writing.note(trouble)
                log.warning("market cannot be written", reason=str(trouble), wait_s=wait_s)
                await asyncio.sleep(wait_s)


async def _run_once(config: Config, progress: Progress, clock: Clock) -> None:
    """Run ingest while this process holds the write lock, for which it waits first."""
    own = engine_of(config).write_lock()
    async with own.held():
        working = asyncio.create_task(_ingest(config, progress, clock, own.epoch))
        keeping = asyncio.create_task(own.keep())
        try:
            # If the lock is lost, `keep` raises an error; then this process must no longer write.
            done, _ = await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (working, keeping):
                task.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)


async def _ingest(config: Config, progress: Progress, clock: Clock, epoch: int | None) -> None:
    meter = FinalityMeter()
    async with (
        open_market(config, epoch=epoch) as market,
        nullcontext() if config.chain.source == "files" else _beside(config, market, clock),
        _source(config, clock, progress, meter) as (source, checks),
        AsyncExitStack() as stack,
    ):
        venues = VenueWatch()
        checks.append(Check("venues", venues.expect_none_silent))
        kept = market.ingest_checks
        watch = maintenance.watching(
            checks,
            clock,
            has_readiness=False,
            keep=lambda failing: kept.keep(failing, clock.now()),
        )
        await stack.enter_async_context(watch)
        expect_batches()
        show_programs(program.name for program in programs_read(config.dex))
        decode = decoder(config.dex)
        ahead = stack.enter_context(decoding_ahead(config.dex, decode)) if has_two(config) else None
        await Ingest(
            source=source,
            store=market.store,
            decode=decode,
            clock=clock,
            mints=_first_mints(config),
            floor=_floor(config.market),
            shard=parse_shard(config.market.shard),
            follows_files=config.chain.source == "files",
            quote_mints=QuoteMints(
                frozenset(map(Mint, config.market.dollars)),
                frozenset(map(Mint, config.market.staking_tokens)),
            ),
            history=market.history_join,
            ahead=ahead,
            finality=lambda: meter.behind,
            venues=venues,
        ).run()


def has_two(config: Config) -> bool:
    """Return whether a second process may decode: if enabled, on Linux, with two processors."""
    is_possible = sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1
    return config.chain.decode_ahead and is_possible


def _first_mints(config: Config) -> list[Mint]:
    """Return the mints that a new installation tracks: SOL and those of the configuration.

    If payments are taken, the payment token is among them, because its price is needed.
    """
    payments = config.payments
    sold_for = [payments.asset] if payments.enabled else []
    return [*dict.fromkeys(map(Mint, [WSOL, *sold_for, *config.market.mints]))]


@asynccontextmanager
async def _beside(config: Config, market: Market, clock: Clock) -> AsyncIterator[None]:
    """During the block, do the work of ingest besides swaps: facts, backfills, gaps, and the list.

    The node is asked over separate connections.  The list of all tokens is stored while no api
    process stores it, so that a starting one finds a list.
    """
    is_json = logs_json(config.log)
    order = Order(str(config.data_dir), address_of(config), config.log.level, is_json)
    keep = partial(keep_snapshot, market.list_snapshots, partial(store_apart, order))
    async with (
        Rpc(backfills_beside(config.chain), clock=clock) as rpc,
        maintenance.running(partial(keep_facts, rpc, market.facts, clock), "mint facts"),
        maintenance.running(keep, "list"),
        backfill_queue(config, market, clock) as backfills,
        maintenance.running(backfills.run, "backfills"),
        gap_mending(config, market, clock) as mending,
        maintenance.running(mending.run, "gaps"),
    ):
        yield


def _floor(market: MarketConfig) -> Floor | None:
    if market.track == "list":
        return None
    return Floor(
        swaps_min=market.floor_swaps_per_day,
        volume_min=market.floor_usd_per_day * MICRO_USD,
        dead_after_days=market.dead_after_days,
    )


@asynccontextmanager
async def _source(
    config: Config, clock: Clock, progress: Progress, meter: FinalityMeter
) -> AsyncIterator[tuple[Source, list[Check]]]:
    """Open the configured source of blocks; yield it with the health checks of it."""
    chain = config.chain
    if chain.source == "files":
        yield FileSource(chain.files, progress=progress), []
        return
    async with following(chain, clock) as asked:
        node = WatchedNode(asked, clock)
        polling = Polling(
            start=chain.start if isinstance(chain.start, str) else Slot(chain.start),
            backfill_s=chain.backfill_s,
            requests_in_flight=chain.requests_in_flight,
            poll_interval_ms=chain.poll_interval_ms,
            gap_after_s=chain.gap_after_s,
            max_gap_s=chain.max_gap_s,
        )
        checks = [Check("node", lambda: node.expect_current(*newest_stored()))]
        if chain.source == "geyser":
            # Imported only here, because grpcio and protobuf are an optional extra.
            from mintscope.app.stream import stream_of  # noqa: PLC0415 - see above

            watch = StreamWatch(clock)
            checks.append(Check("geyser", watch.expect_blocks))
            source: Source = stream_of(
                config, node, polling, clock=clock, progress=progress, meter=meter, watch=watch
            )
        else:
            source = Poller(node, polling, clock=clock, progress=progress, meter=meter)
        watched = WatchedSource(
            source=source, node=node, clock=clock, stall_after_s=chain.stall_after_s
        )
        yield watched, checks
