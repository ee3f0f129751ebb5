"""mintscope's API with one report that never changes.

`python -m bench.peers_http.ours PORT FOLDER`
"""

import sys
from pathlib import Path

import uvloop

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.limits import MemoryLimits
from mintscope.base.primitives import Mint, Slot
from mintscope.base.solana import WSOL
from mintscope.core.market.report import PLAIN, ReadReport, ReportKind
from mintscope.edges.api.app import create_app
from mintscope.edges.api.failures import write_refusal
from mintscope.edges.maintenance.memory import freeze_startup_objects
from mintscope.edges.server.application import HttpApplication
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.protocol.bounds import Bounds
from mintscope.edges.server.protocol.listening import listen
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.server import make_server
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.stores import open_money


class OneReport:
    """Knows one report."""

    def __init__(self, body: bytes) -> None:
        self._report = ReadReport(body, Slot(350_000_000), 412)

    def ready(self, mint: str) -> ReadReport | None:
        return self._report if mint == WSOL else None

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:  # noqa: ARG002
        return self._report


async def serve(port: int, folder: Path) -> None:
    clock = SystemClock()
    async with open_money(Config(data_dir=folder), clock) as money:
        app = create_app(
            reports=OneReport((folder / "report.json").read_bytes()),
            ledger=money.ledger,
            checks=[],
            limits=AddressLimits(MemoryLimits(clock), ClientAddresses()),
            clock=clock,
        )
        await serve_app(app, clock, port)


async def serve_app(app: HttpApplication, clock: Clock, port: int) -> None:
    """Serve *app* until killed, as `mintscope api` does."""
    server = make_server(
        app,
        clock=clock,
        addresses=ClientAddresses(),
        bounds=Bounds(),
        write_refusal=write_refusal,
        express=app.express,
    )
    freeze_startup_objects()
    await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
