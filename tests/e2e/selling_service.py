"""A service that sells like `mintscope api`, in separate processes that tests kill."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import apsw
import httpx
from paying_chain import RICH, SEED, Chain, chain_running
from paying_service import FlushTrace, TracedFiles, serve_api
from pydantic import SecretStr
from shopping import TIMEOUT_S, Shopper
from solders.pubkey import Pubkey
from typing_extensions import override

from mintscope.app.config.config import ApiConfig, ChainConfig, CreditsConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import Sales, open_sales
from mintscope.app.running.logging import configure_logging
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.stores import open_market, open_money
from mintscope.kit.checks import Check
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Signature
from mintscope.payments.merchant import Merchant
from mintscope.payments.payment import Landed, Reverted, Sighting, Unseen
from mintscope.payments.ports import Trial
from mintscope.payments.protocol.envelope import Envelope
from mintscope.payments.settlement import RpcSettlement
from mintscope_devchain.svm.genesis import Genesis
from support.processes.processes import running as running_process
from support.scenes.stores import PEPPER

RAISED = ApiConfig(rate_limit_requests=1_000_000_000, connections_per_client_max=2_000)


class SendsFirst(RpcSettlement):
    """A faulty settlement that sends the payment before the row of the payment is written."""

    @override
    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        trial = await super().simulate(envelope, source)
        await super().broadcast(envelope.sign(Genesis(SEED).fee_payer))
        # Most kills happen during this sleep; payments with an Idempotency-Key are found again
        await asyncio.sleep(0.5)
        return trial


class UnknownIsFailed(RpcSettlement):
    """A faulty settlement: a payment that is not seen in time counts as failed for good."""

    @override
    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        sighting = await super().wait(signature, patience_s=0.02)
        return Reverted(final=True) if isinstance(sighting, Unseen) else sighting


class TrustsEverybody(RpcSettlement):
    """A faulty settlement: a payment that reverted counts as received."""

    @override
    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        sighting = await super().wait(signature, patience_s=patience_s)
        return Landed(paid=10**9, final=False) if isinstance(sighting, Reverted) else sighting


CHAINS = {each.__name__: each for each in (SendsFirst, UnknownIsFailed, TrustsEverybody)}


@dataclass(frozen=True, kw_only=True)
class Manner:
    """The options of a service that sells.

    patience_s   seconds to wait for the outcome of a payment before the answer
    mistake      the name of a mistake: one of CHAINS, or NeverFlushes; empty: no mistake
    trace        the file for its flushes; None if flushes are not recorded
    """

    patience_s: float = 2.0
    mistake: str = ""
    trace: Path | None = None


PATIENT = Manner(patience_s=15)


@dataclass(frozen=True)
class Seller:
    url: str
    process: BaseProcess


@contextmanager
def seller_running(folder: Path, rpc_url: str, manner: Manner) -> Iterator[Seller]:
    """Run the service on *folder*, and yield it; kill it at the end of the block."""
    with running_process(_serve, folder, rpc_url, manner) as (port, process):
        yield Seller(f"http://127.0.0.1:{port}", process)


def config_of(folder: Path, rpc_url: str) -> Config:
    genesis = Genesis(SEED)
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
    config = config_of(folder, rpc_url)
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
        checks = [Check("store", money.ledger.expect_writable)]
        merchant = _shop(sales, manner)
        await serve_api(config, money.ledger, clock, tell, checks=checks, merchant=merchant)
    del files  # files must exist until the service ends


def _shop(sales: Sales, manner: Manner) -> Merchant:
    chain = sales.facilitator.chain
    if manner.mistake in CHAINS:
        chain.__class__ = CHAINS[manner.mistake]
    facilitator = replace(sales.facilitator, chain=chain, patience_s=manner.patience_s)
    return replace(sales.merchant("http://shop.example"), facilitator=facilitator)


@contextmanager
def market_town(
    folder: Path, *, processes: int = 1, atoms: int = RICH, manner: Manner = PATIENT
) -> Iterator[tuple[Chain, list[Seller]]]:
    """Run a devchain with a buyer who has *atoms*, and *processes* processes that sell on it."""
    with chain_running(buyers={"buyer": atoms}) as chain, ExitStack() as stack:
        running = [seller_running(folder, chain.url, manner) for _ in range(processes)]
        yield chain, [stack.enter_context(each) for each in running]


@asynccontextmanager
async def visiting(
    chain: Chain, sellers: list[Seller]
) -> AsyncIterator[tuple[Shopper, list[httpx.AsyncClient]]]:
    """Yield the buyer, and an HTTP client for each of *sellers*."""
    limits = httpx.Limits(max_connections=200)
    async with AsyncExitStack() as stack:
        rpc, *shops = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits)
            )
            for url in (chain.url, *(seller.url for seller in sellers))
        ]
        yield Shopper(chain.genesis.key("buyer"), chain.genesis, rpc), shops


def tokens_issued(folder: Path) -> int:
    return int(ask_books(folder, "SELECT count(*) FROM credit_account"))


def ask_books(folder: Path, question: str) -> Any:
    """Return the only value that the SQL *question* selects in `money.sqlite` of *folder*."""
    with closing(apsw.Connection(str(folder / MONEY_FILE))) as db:
        return db.execute(question).get
