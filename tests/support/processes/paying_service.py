"""A service for tests that kill it: it runs in a separate process and reports its port."""

import asyncio
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from typing_extensions import override

from mintscope.app.api import create_api, create_server
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.credits.ledger import DebitWaiter, Empty, Spent
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.listening import listen
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import CreditAccount
from support.fakes.reports import FakeReports
from support.processes.flush_trace import FlushTrace, TracedFiles
from support.scenes.stores import PEPPER, config_in

RAISED = ApiConfig(rate_limit_requests=1_000_000_000)


class AnswersFirst(SqliteCreditLedger):
    """The mistake: the answer is sent before the commit."""

    @override
    async def spend(self, account: CreditAccount) -> Spent | Empty:
        """Grant the credit, but write the debit only an hour later."""
        balance = await self.balance(account)
        asyncio.get_running_loop().call_later(3_600, super().spend, account)
        return Spent(balance - 1) if balance else Empty()

    @override
    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        """Grant the credit to *waiter*, but write the debit only an hour later."""
        left = vars(self._reading)["_database"].balance(account)
        asyncio.get_running_loop().call_later(3_600, super().spend_for, account, waiter)
        waiter.set_result(Spent(left - 1) if left else Empty())


class NeverFlushes(SqliteCreditLedger):
    """The mistake: a commit is not flushed, so a loss of power would undo it."""

    def __init__(self, path: Path, *, pepper: bytes, clock: Clock) -> None:
        super().__init__(path, pepper=pepper, clock=clock)
        vars(self._writing)["_db"].pragma("synchronous", "NORMAL")


LEDGERS = {
    "Sound": SqliteCreditLedger,
    "AnswersFirst": AnswersFirst,
    "NeverFlushes": NeverFlushes,
}


def serve(folder: Path, reported: Connection, ledger: str, trace: Path | None) -> None:
    """Serve until killed, with the ledger LEDGERS[*ledger*].

    trace   the file to which each flush adds a line; None: flushes are not recorded
    """
    files = None if trace is None else TracedFiles(FlushTrace(trace))
    asyncio.run(_serve(folder, ledger, reported.send))
    del files  # files must exist until the service ends


async def _serve(folder: Path, ledger_name: str, tell: Callable[[int], object]) -> None:
    clock = SystemClock()
    ledger = LEDGERS[ledger_name](folder / "money.sqlite", pepper=PEPPER, clock=clock)
    config = config_in(folder, api=RAISED)
    app = create_api(
        config,
        reports=FakeReports(),
        ledger=ledger,
        checks=[],
        merchant=None,
        accounts=None,
        limits=MemoryLimits(clock),
        clock=clock,
    )
    await serve_app(config, app, clock, tell)


async def serve_app(
    config: Config, app: HttpApplication, clock: Clock, tell: Callable[[int], object]
) -> None:
    """Serve *app* on a free port of the loopback address, after calling *tell* with the port."""
    listener = listen("127.0.0.1", 0)
    tell(listener.getsockname()[1])
    server = create_server(config.api, app, clock, app.fast_path)
    await server.serve(sockets=[listener])
