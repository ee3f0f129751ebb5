"""The api process with its pages, and one report: `python -m bench.flooded PORT FOLDER`."""

import sys
from pathlib import Path

import uvloop

from bench.peers_http.ours import OneReport
from mintscope.base.clock import SystemClock
from mintscope.base.limits import MemoryLimits
from mintscope.edges.maintenance.memory import freeze_startup_objects, give_memory_back
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.protocol.listening import listen
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.accounts import open_accounts
from mintscope.shell.wiring.api import create_api, create_server, other_limit
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.processes.log_lines import configure_logging
from mintscope.shell.wiring.site import Pages
from mintscope.shell.wiring.stores import open_money


async def serve(port: int, folder: Path) -> None:
    configure_logging("error", json_lines=True)
    clock, config = SystemClock(), Config(data_dir=folder)
    limits, origin = MemoryLimits(clock), f"http://127.0.0.1:{port}"
    async with (
        open_money(config, clock) as money,
        open_accounts(
            config,
            store=money.accounts,
            pepper=money.pepper,
            origin=origin,
            limits=limits,
            clock=clock,
        ) as accounts,
        running(accounts.run, "accounts"),
        running(give_memory_back, "memory"),
    ):
        api = create_api(
            config,
            reports=OneReport((folder / "report.json").read_bytes()),
            ledger=money.ledger,
            checks=[],
            merchant=None,
            accounts=accounts,
            limits=limits,
            clock=clock,
        )
        by_address = AddressLimits(limits, ClientAddresses())
        pages = Pages(config.web, accounts, by_address, other_limit(config.api), clock)
        server = create_server(config.api, pages.beside(api, [origin]), clock, api.express)
        freeze_startup_objects()
        await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
