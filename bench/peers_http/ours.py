"""Runs mintscope's HTTP API with one report that never changes, to measure its responses.

`python -m bench.peers_http.ours PORT FOLDER`
"""

import sys
from pathlib import Path

import uvloop

from mintscope.api.failures import write_refusal
from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import open_money
from mintscope.app.web_api import create_api
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.http.application import HttpApplication, make_server
from mintscope.kit.http.listening import listen
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint, Slot
from mintscope.market.report import PLAIN, ReadReport, ReportKind
from mintscope.solana.blocks import WSOL


class OneReport:
    """A source of reports, for the API, that returns the same stored report for every request."""

    def __init__(self, body: bytes) -> None:
        self._report = ReadReport(body, Slot(350_000_000), 412)

    def ready(self, mint: str) -> ReadReport | None:
        return self._report if mint == WSOL else None

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:  # noqa: ARG002
        return self._report


async def serve(port: int, folder: Path) -> None:
    clock = SystemClock()
    config = Config(data_dir=folder)
    async with open_money(config, clock) as money:
        app = create_api(
            config,
            reports=OneReport((folder / "report.json").read_bytes()),
            ledger=money.ledger,
            checks=[],
            limits=MemoryLimits(clock),
            clock=clock,
        )
        await serve_app(app, clock, port)


async def serve_app(app: HttpApplication, clock: Clock, port: int) -> None:
    """Serve *app* on *port* until the process is killed, as `mintscope api` does."""
    server = make_server(
        app,
        clock=clock,
        addresses=ClientAddresses(),
        bounds=Bounds(),
        write_refusal=write_refusal,
        fast_path=app.fast_path,
    )
    freeze_startup_objects()
    await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
