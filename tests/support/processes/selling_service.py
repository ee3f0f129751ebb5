"""A service that sells, in a separate process, like that of `mintscope api`; tests kill it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from pydantic import SecretStr
from solders.pubkey import Pubkey
from typing_extensions import override

from mintscope.app.api import create_api
from mintscope.app.config.config import ApiConfig, ChainConfig, CreditsConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import Sales, open_sales
from mintscope.app.running.logging import configure_logging
from mintscope.app.stores.stores import open_market, open_money
from mintscope.kit.checks import Check
from mintscope.kit.clock import SystemClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Signature
from mintscope.payments.merchant import Merchant
from mintscope.payments.payment import Landed, Reverted, Sighting, Unseen
from mintscope.payments.ports import Trial
from mintscope.payments.protocol.envelope import Envelope
from mintscope.payments.settlement import RpcSettlement
from mintscope_devchain.svm.genesis import Genesis
from support.fakes.reports import FakeReports
from support.processes.flush_trace import FlushTrace, TracedFiles
from support.processes.paying_service import serve_app
from support.processes.processes import running as running_process
from support.scenes.stores import PEPPER

RAISED = ApiConfig(rate_limit_requests=1_000_000_000, connections_per_client_max=2_000)


class SendsFirst(RpcSettlement):
    """The mistake: the payment is sent before its row is written."""

    @override
    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        trial = await super().simulate(envelope, source)
        await super().broadcast(envelope.sign(Genesis(7).fee_payer))
        # Most kills happen during this sleep; payments with an Idempotency-Key are found again
        await asyncio.sleep(0.5)
        return trial


class UnknownIsFailed(RpcSettlement):
    """The mistake: a payment that was not seen in time counts as failed, permanently."""

    @override
    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        sighting = await super().wait(signature, patience_s=0.02)
        return Reverted(final=True) if isinstance(sighting, Unseen) else sighting


class TrustsEverybody(RpcSettlement):
    """The mistake: a payment that reverted counts as received."""

    @override
    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        sighting = await super().wait(signature, patience_s=patience_s)
        return Landed(paid=10**9, final=False) if isinstance(sighting, Reverted) else sighting


CHAINS = {each.__name__: each for each in (SendsFirst, UnknownIsFailed, TrustsEverybody)}


@dataclass(frozen=True, kw_only=True)
class Manner:
    """The options of the service.

    patience_s   seconds to wait for the outcome of a payment before the answer
    mistake      the name of a mistake: one of CHAINS, or NeverFlushes; empty: no mistake
    trace        the file for its flushes; None if flushes are not recorded
    """

    patience_s: float = 2.0
    mistake: str = ""
    trace: Path | None = None


@dataclass(frozen=True)
class Seller:
    """A running seller: its address and its process."""

    url: str
    process: BaseProcess


@contextmanager
def seller_running(
    folder: Path,
    rpc_url: str,
    manner: Manner = Manner(),
) -> Iterator[Seller]:
    """Run the service on *folder*; kill it at the end of the block."""
    with running_process(_serve, folder, rpc_url, manner) as (port, process):
        yield Seller(f"http://127.0.0.1:{port}", process)


def config_of(folder: Path, rpc_url: str, genesis: Genesis) -> Config:
    return Config(
        data_dir=folder,
        api=RAISED,
        credits=CreditsConfig(pepper=SecretStr(PEPPER.hex())),
        chain=ChainConfig(rpc_url=SecretStr(rpc_url)),
        payments=PaymentsConfig(
            enabled=True,
            asset=str(genesis.mint),
            pay_to=str(genesis.treasury.pubkey()),
            fee_payer_key=SecretStr(str(genesis.fee_payer)),
            failures_per_hour_max=1_000_000,
            in_flight_per_new_payer_max=1_000_000,
            in_flight_per_payer_max=1_000_000,
            in_flight_per_address_max=1_000_000,
            fees_per_hour_lamports=10**15,
            fees_in_flight_lamports=10**15,
        ),
    )


def _serve(reported: Connection, folder: Path, rpc_url: str, manner: Manner) -> None:
    asyncio.run(_run(reported.send, folder, rpc_url, manner))


async def _run(tell: Callable[[int], object], folder: Path, rpc_url: str, manner: Manner) -> None:
    configure_logging("error", json_lines=False)
    clock = SystemClock()
    config = config_of(folder, rpc_url, Genesis(7))
    files = None if manner.trace is None else TracedFiles(FlushTrace(manner.trace))
    async with (
        open_market(config) as market,
        open_money(config, clock) as money,
        open_sales(config, money=money, reader=market.reader, clock=clock) as sales,
        running(sales.maintenance.run, "sales"),
    ):
        await sales.expect_ready()
        if manner.mistake == "NeverFlushes":
            vars(money.payments)["_writing"].connection.pragma("synchronous", "NORMAL")
        ledger = money.ledger
        app = create_api(
            config,
            reports=FakeReports(),
            ledger=ledger,
            checks=[Check("store", ledger.expect_writable)],
            merchant=_shop(sales, manner),
            accounts=None,
            limits=MemoryLimits(clock),
            clock=clock,
        )
        await serve_app(config, app, clock, tell)
    del files  # files must exist until the service ends


def _shop(sales: Sales, manner: Manner) -> Merchant:
    chain = sales.facilitator.chain
    if manner.mistake in CHAINS:
        chain.__class__ = CHAINS[manner.mistake]
    facilitator = replace(sales.facilitator, chain=chain, patience_s=manner.patience_s)
    return replace(sales.merchant("http://shop.example"), facilitator=facilitator)
