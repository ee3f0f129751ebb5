"""A service for tests that kill it: it runs in a separate process and reports its port.

Its flushes and its answers can be recorded in order, as lines of a file.
"""

import asyncio
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
from typing_extensions import override

from mintscope.app.api import create_server
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.web_api import create_api
from mintscope.credits.ledger import CreditLedger, DebitWaiter, Empty, Spent
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.http.listening import listen
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import CreditAccount
from support.fakes.reports import FakeReports
from support.scenes.stores import PEPPER, config_in

RAISED = ApiConfig(rate_limit_requests=1_000_000_000)
FLUSH = "flush"


class FlushTrace:
    """A file to which all threads and processes can append whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


class TracedFiles(apsw.VFS):
    """The files of SQLite; each completed flush adds a line to *trace*.

    All connections that are opened later use these files while this object exists.
    """

    def __init__(self, trace: FlushTrace) -> None:
        self._base = apsw.vfs_names()[0]
        super().__init__("traced", self._base, makedefault=True)
        self._trace = trace

    @override
    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _TracedFile(self._base, name, flags, self._trace)


class _TracedFile(apsw.VFSFile):
    def __init__(self, base: str, name: Any, flags: Any, trace: FlushTrace) -> None:
        super().__init__(base, name, flags)
        self._trace = trace

    @override
    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._trace.note(FLUSH)


class AnswersFirst(SqliteCreditLedger):
    """A faulty ledger that answers before it writes the debit."""

    @override
    async def spend(self, account: CreditAccount) -> Spent | Empty:
        """Grant the credit, but write the debit only an hour later."""
        balance = await self.balance(account)
        asyncio.get_running_loop().call_later(3_600, super().spend, account)
        return Spent(balance - 1) if balance else Empty()

    @override
    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        left = vars(self._reading)["_database"].balance(account)
        asyncio.get_running_loop().call_later(3_600, super().spend_for, account, waiter)
        waiter.set_result(Spent(left - 1) if left else Empty())


class NeverFlushes(SqliteCreditLedger):
    """A faulty ledger that does not flush its commits, so a loss of power would undo them."""

    def __init__(self, path: Path, *, pepper: bytes, clock: Clock) -> None:
        super().__init__(path, pepper=pepper, clock=clock)
        vars(self._writing)["_db"].pragma("synchronous", "NORMAL")


Sound = SqliteCreditLedger


def serve(
    reported: Connection, folder: Path, ledger: type[Sound], trace: Path | None = None
) -> None:
    """Run a service that sells, with a ledger of the class *ledger*, until it is killed.

    trace   the file to which each flush to disk adds a line; None: flushes are not recorded
    """
    files = None if trace is None else TracedFiles(FlushTrace(trace))
    asyncio.run(_serve(folder, ledger, reported.send))
    del files  # files must exist until the service ends


async def _serve(folder: Path, open_ledger: type[Sound], tell: Callable[[int], object]) -> None:
    clock = SystemClock()
    ledger = open_ledger(folder / "money.sqlite", pepper=PEPPER, clock=clock)
    await serve_api(config_in(folder, api=RAISED), ledger, clock, tell)


async def serve_api(
    config: Config,
    ledger: CreditLedger,
    clock: Clock,
    tell: Callable[[int], object],
    **changes: Any,
) -> None:
    """Serve an API on a free port of the loopback address, after calling *tell* with the port."""
    parts: dict[str, Any] = {
        "reports": FakeReports(),
        "checks": [],
        "merchant": None,
        "accounts": None,
        "limits": MemoryLimits(clock),
    }
    app = create_api(config, ledger=ledger, clock=clock, **(parts | changes))
    listener = listen("127.0.0.1", 0)
    tell(listener.getsockname()[1])
    server = create_server(config.api, app, clock, app.fast_path)
    await server.serve(sockets=[listener])
