"""A service that sells reports, batches, series and streams, for tests that kill it."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mintscope.api import events as periods
from mintscope.api.events import Streams
from mintscope.app.api import create_api
from mintscope.app.config.groups import StreamsConfig
from mintscope.app.following import stream_bounds
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Debit, DebitOutcome
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import SystemClock
from mintscope.kit.limits import MemoryLimits
from support.fakes.holders import FakeHolders
from support.fakes.log import FakeLog
from support.fakes.reports import FakeReports
from support.fakes.series import MadeUpSeries
from support.processes.paying_service import RAISED, serve_app
from support.scenes.conversations import append_swap
from support.scenes.live_market import SECOND, TRADED, following, trade, traded_log
from support.scenes.stores import PEPPER, config_in

TRADES = 100
EVERY_S = 0.02
SWAPS_EVERY_S = 1.0
QUIET_S = 0.1


def serve_all(folder: Path, reported: Connection) -> None:
    """Serve until killed."""
    asyncio.run(_serve(folder, reported.send, _trades, _on_sqlite))


def serve_answers(reported: Connection, folder: Path, dsn: str = "") -> None:
    """Serve until killed; the page of swaps is never stale.

    dsn   the database of the credits; "" if they are in the folder
    """
    asyncio.run(_serve(folder, reported.send, _swaps, partial(_ledger_on, dsn)))


def serve_quiet(folder: Path, reported: Connection, dsn: str = "") -> None:
    """Serve a stream of a market without trades; die when the third paid period is charged.

    dsn   the database of the credits; "" if they are in the folder
    """
    vars(periods)["PERIOD_S"] = QUIET_S
    asyncio.run(_serve(folder, reported.send, _nothing, partial(_ledger_that_dies, dsn)))


def _ledger_that_dies(dsn: str, folder: Path) -> GroupCreditLedger:
    """Return a ledger that kills the process when the third period is charged, before its data.

    The charge is committed then, and no data of the period was sent.
    """
    ledger = _ledger_on(dsn, folder)
    prepay, minutes_left = ledger.prepay, iter((2, 1, 0))

    async def prepay_and_die(debit: Debit) -> DebitOutcome:
        outcome = await prepay(debit)
        if not next(minutes_left):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    vars(ledger)["prepay"] = prepay_and_die
    return ledger


def _ledger_on(dsn: str, folder: Path) -> GroupCreditLedger:
    if dsn:
        return PostgresCreditLedger(dsn, pepper=PEPPER, clock=SystemClock())
    return _on_sqlite(folder)


def _on_sqlite(folder: Path) -> GroupCreditLedger:
    return SqliteCreditLedger(folder / MONEY_FILE, pepper=PEPPER, clock=SystemClock())


async def _trades(log: FakeLog) -> None:
    for _ in range(TRADES):
        await asyncio.sleep(EVERY_S)
        trade(log, *TRADED)


async def _swaps(log: FakeLog) -> None:
    while True:
        append_swap(log, SystemClock().now() // 1000)
        await asyncio.sleep(SWAPS_EVERY_S)


async def _nothing(_log: FakeLog) -> None:
    """Add no trades to the log."""


async def _serve(
    folder: Path,
    tell: Callable[[int], object],
    trading: Callable[[FakeLog], Coroutine[Any, Any, None]],
    open_ledger: Callable[[Path], GroupCreditLedger],
) -> None:
    clock = SystemClock()
    config = config_in(folder, api=RAISED, streams=StreamsConfig(per_account_max=1_000))
    log, reports = traded_log(clock.now() // 1000), FakeReports()
    reports.others.add(SECOND)
    follower, broadcaster = await following(log, clock)
    streams = Streams(broadcaster, clock, stream_bounds(config))
    app = create_api(
        config,
        reports=reports,
        ledger=open_ledger(folder),
        checks=[],
        merchant=None,
        accounts=None,
        series=MadeUpSeries(log),
        holders=FakeHolders(),
        streams=streams,
        limits=MemoryLimits(clock),
        clock=clock,
    )
    serving = serve_app(config, app, clock, tell)
    await asyncio.gather(follower.run(), streams.run(), trading(log), serving)
