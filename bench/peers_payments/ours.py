"""Runs an application that sells credits as `mintscope api` does, to measure payments.

`python -m bench.peers_payments.ours PORT FOLDER RPC_URL`
"""

import sys
from pathlib import Path

import uvloop
from pydantic import SecretStr

from bench.peers_payments.moments import SEED, Heart
from mintscope.api.failures import write_refusal
from mintscope.app.config.config import ApiConfig, ChainConfig, CreditsConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import open_sales
from mintscope.app.running.logging import configure_logging
from mintscope.app.stores.stores import open_market, open_money
from mintscope.app.web_api import create_api
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import TokenNotFound
from mintscope.kit.http.application import make_server
from mintscope.kit.http.listening import listen
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint
from mintscope.market.report import PLAIN, ReadReport, ReportKind
from mintscope_devchain.svm.genesis import Genesis

ROOT = bytes(range(32))
RAISED = ApiConfig(rate_limit_requests=1_000_000)


class NoReports:
    """Refuses all requests for reports, because only purchases of credits are measured."""

    def ready(self, _mint: str) -> ReadReport | None:
        return None

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:  # noqa: ARG002
        raise TokenNotFound(f"{mint} is not tracked")


def config_of(folder: Path, rpc_url: str) -> Config:
    genesis = Genesis(SEED)
    return Config(
        data_dir=folder,
        api=RAISED,
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
        app = create_api(
            config,
            reports=NoReports(),
            ledger=money.ledger,
            checks=[],
            limits=MemoryLimits(clock),
            clock=clock,
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
