"""A service that sells reports, batches, series and streams, for tests that kill it."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from paying_service import RAISED, Sound, serve_api

from mintscope.api import events as periods
from mintscope.api.events import Streams
from mintscope.app.config.groups import StreamsConfig
from mintscope.app.following import stream_bounds
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Debit, DebitOutcome
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.store import GroupCreditLedger
from mintscope.kit.clock import SystemClock
from support.fakes.holders import FakeHolders
from support.fakes.log import FakeLog
from support.fakes.reports import FakeReports
from support.fakes.series import MadeUpSeries
from support.scenes.conversations import append_swap
from support.scenes.live_market import SECOND, TRADED, following, trade, traded_log
from support.scenes.stores import PEPPER, config_in

TRADES = 100
EVERY_S = 0.02
SWAPS_EVERY_S = 1.0
QUIET_S = 0.1


def serve_all(reported: Connection, folder: Path) -> None:
    asyncio.run(_serve(reported, folder, trading=_trades))


def serve_answers(reported: Connection, folder: Path, dsn: str = "") -> None:
    """Serve until killed, and add swaps all the time, so that pages of swaps are never stale.

    dsn   the database of the credits; "" if they are in the folder
    """
    asyncio.run(_serve(reported, folder, dsn, trading=_swaps))


def serve_quiet(reported: Connection, folder: Path, dsn: str = "") -> None:
    """Serve a stream of a market without trades; die when the third paid period is charged.

    dsn   the database of the credits; "" if they are in the folder
    """
    vars(periods)["PERIOD_S"] = QUIET_S
    asyncio.run(_serve(reported, folder, dsn, dies=True))


def _die_at_the_third_period(ledger: GroupCreditLedger) -> None:
    """Let *ledger* kill the process when the third period is charged, before its data is sent.

    The charge is committed before the process is killed.
    """
    prepay, minutes_left = ledger.prepay, iter((2, 1, 0))

    async def prepay_and_die(debit: Debit) -> DebitOutcome:
        outcome = await prepay(debit)
        if not next(minutes_left):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    vars(ledger)["prepay"] = prepay_and_die


async def _trades(log: FakeLog) -> None:
    for _ in range(TRADES):
        await asyncio.sleep(EVERY_S)
        trade(log, *TRADED)


async def _swaps(log: FakeLog) -> None:
    while True:
        append_swap(log, SystemClock().now() // 1000)
        await asyncio.sleep(SWAPS_EVERY_S)


async def _serve(
    reported: Connection,
    folder: Path,
    dsn: str = "",
    *,
    trading: Callable[[FakeLog], Coroutine[Any, Any, None]] | None = None,
    dies: bool = False,
) -> None:
    clock = SystemClock()
    config = config_in(folder, api=RAISED, streams=StreamsConfig(per_account_max=1_000))
    log, reports = traded_log(clock.now() // 1000), FakeReports()
    reports.others.add(SECOND)
    follower, broadcaster = await following(log, clock)
    streams = Streams(broadcaster, clock, stream_bounds(config))
    ledger: GroupCreditLedger = (
        PostgresCreditLedger(dsn, pepper=PEPPER, clock=clock)
        if dsn
        else Sound(folder / MONEY_FILE, pepper=PEPPER, clock=clock)
    )
    if dies:
        _die_at_the_third_period(ledger)
    serving = serve_api(
        config,
        ledger,
        clock,
        reported.send,
        reports=reports,
        series=MadeUpSeries(log),
        holders=FakeHolders(),
        streams=streams,
    )
    trades = [] if trading is None else [trading(log)]
    await asyncio.gather(follower.run(), streams.run(), serving, *trades)
