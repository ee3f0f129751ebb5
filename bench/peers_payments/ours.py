"""mintscope selling credits, made as `mintscope api` makes it.

`python -m bench.peers_payments.ours PORT FOLDER RPC_URL`
"""

import sys
from pathlib import Path

import uvloop
from pydantic import SecretStr

from bench.peers_payments.moments import SEED, Heart
from mintscope.base.clock import SystemClock
from mintscope.base.errors import TokenNotFound
from mintscope.base.limits import Limit, MemoryLimits
from mintscope.base.primitives import Mint
from mintscope.core.market.report import PLAIN, ReadReport, ReportKind
from mintscope.devchain.svm.genesis import Genesis
from mintscope.edges.api.app import create_app
from mintscope.edges.api.failures import write_refusal
from mintscope.edges.maintenance.memory import freeze_startup_objects
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.protocol.bounds import Bounds
from mintscope.edges.server.protocol.listening import listen
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.server import make_server
from mintscope.shell.config.config import Config
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.sections import ChainConfig, CreditsConfig
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.payments import open_sales
from mintscope.shell.wiring.processes.log_lines import configure_logging
from mintscope.shell.wiring.stores import open_market, open_money

ROOT = bytes(range(32))
RAISED = Limit(name="public", count=1_000_000, window_s=60)


class NoReports:
    """Tracks nothing: credits are sold here."""

    def ready(self, _mint: str) -> ReadReport | None:
        return None

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:  # noqa: ARG002
        raise TokenNotFound(f"{mint} is not tracked")


def config_of(folder: Path, rpc_url: str) -> Config:
    genesis = Genesis(SEED)
    return Config(
        data_dir=folder,
        credits=CreditsConfig(pepper=SecretStr(ROOT.hex())),
        chain=ChainConfig(rpc_url=SecretStr(rpc_url)),
        payments=PaymentsConfig(
            enabled=True,
            asset=str(genesis.mint),
            pay_to=str(genesis.treasury.pubkey()),
            fee_payer_key=SecretStr(str(genesis.fee_payer)),
        ),
    )


async def serve(port: int, folder: Path, rpc_url: str) -> None:
    configure_logging("error", json_lines=True)
    clock = SystemClock()
    config = config_of(folder, rpc_url)
    async with (
        open_market(config) as market,
        open_money(config, clock) as money,
        open_sales(config, money=money, reader=market.reader, clock=clock) as sales,
        running(sales.maintenance.run, "sales"),
    ):
        await sales.expect_ready()
        app = create_app(
            reports=NoReports(),
            ledger=money.ledger,
            checks=[],
            limits=AddressLimits(MemoryLimits(clock), ClientAddresses()),
            clock=clock,
            public_limit=RAISED,
            merchant=sales.merchant("http://shop.example"),
        )
        server = make_server(
            Heart(app),
            clock=clock,
            addresses=ClientAddresses(),
            bounds=Bounds(),
            write_refusal=write_refusal,
        )
        freeze_startup_objects()
        await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
