"""A process that evaluates alerts over the stores of an installation, round by round.

Tests kill it: before a statement with a given number, it sends SIGKILL to itself.
"""

import asyncio
import os
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from mintscope.alerts.alerts import AlertWriter
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from support.scenes.account_stores import CountedAccounts
from support.scenes.market_engines import market_of
from support.scenes.watching import TRACKS

NEVER: Final = 1 << 60


class Watched(NamedTuple):
    """The stores that a process evaluates, and the moment at which it kills itself.

    holder       the number that names the process
    firings_max  the maximum number of firings of an alert in an hour
    left         the process kills itself before the statement with this number on the accounts
    """

    folder: Path
    bounds: EmailBounds
    holder: int
    firings_max: int
    left: int = NEVER


def watch(watched: Watched, parent: Connection) -> None:
    """Evaluate alerts at each time that *parent* sends, and send it back; end at the time 0."""
    asyncio.run(_watch(watched, parent))


async def _watch(watched: Watched, parent: Connection) -> None:
    left = watched.left

    def count(_statement: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqlAccountStore(CountedAccounts(watched.folder / MONEY_FILE, count))
    clock = ManualClock(UnixMs(parent.recv()))

    async def next_look() -> None:
        parent.send(clock.now())
        if not (now := parent.recv()):
            raise asyncio.CancelledError
        clock.advance(now - clock.now())

    async with market_of("sqlite", watched.folder) as market:
        evaluator = AlertEvaluator(
            reader=market.reader,
            writer=AlertWriter(
                store=store,
                clock=clock,
                holder=watched.holder.to_bytes(2, "big"),
                bounds=watched.bounds,
            ),
            evaluation=Evaluation(tracks=TRACKS[0], firings_hour_max=watched.firings_max),
            clock=clock,
            wait=next_look,
        )
        with suppress(asyncio.CancelledError):
            await evaluator.run()
