"""Runs an api process to flood, with pages and one report.

`python -m bench.flooded PORT FOLDER`
"""

import sys
from pathlib import Path

import uvloop

from bench.peers_http.ours import OneReport
from mintscope.app.accounts import open_accounts
from mintscope.app.api import create_server
from mintscope.app.config.groups import Config
from mintscope.app.maintenance import running
from mintscope.app.running.logging import configure_logging
from mintscope.app.site import Pages
from mintscope.app.stores.stores import open_money
from mintscope.app.web_api import create_api, other_limit
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.listening import listen
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.machine import freeze_startup_objects, give_memory_back


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
        server = create_server(config.api, pages.beside(api, [origin]), clock, api.fast_path)
        freeze_startup_objects()
        await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
