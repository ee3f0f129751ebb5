"""Buying from processes that sell: together, at once, frozen, on a full disk, on a slow chain."""

import asyncio
import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from typing_extensions import override
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.http.clients.httpx import x402_httpx_transport
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

from fake_reports import TRACKED
from mintscope.credentials import CredentialKind, is_well_formed
from mintscope.payments.requirement import MAINNET
from mintscope.storage.sqlite.credits import MONEY_FILE
from paying_chain import RICH, Chain, chain_running
from selling_service import Manner, Seller, seller_running
from shopping import PURCHASE, TIMEOUT_S, Paid, Shopper, redeem, send

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
TOKEN = f"/v1/token/{TRACKED}"
PRICE, BUNDLE_PRICE = 2_500, 25_000
FEE_LAMPORTS = 10_001
ROUNDS = 20 if FULL else 4
FREEZES, FROZEN_S = (15, 2.2) if FULL else (3, 1.0)
FLUSHED = 5
PATIENT = Manner(patience_s=15)


@contextmanager
def market_town(
    folder: Path,
    *,
    processes: int = 1,
    atoms: int = RICH,
    manner: Manner = PATIENT,
) -> Iterator[tuple[Chain, list[Seller]]]:
    """Run a chain with a buyer who has *atoms*, and so many processes that sell together."""
    with chain_running(buyers={"buyer": atoms}) as chain, ExitStack() as stack:
        yield (
            chain,
            [
                stack.enter_context(seller_running(folder, chain.url, manner))
                for _ in range(processes)
            ],
        )


@asynccontextmanager
async def visiting(
    chain: Chain, sellers: list[Seller]
) -> AsyncIterator[tuple[Shopper, list[httpx.AsyncClient]]]:
    """Let the buyer stand in front of the sellers."""
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
    return int(_ask(folder, "SELECT count(*) FROM credit_account"))


def _ask(folder: Path, question: str) -> Any:
    db = apsw.Connection(str(folder / MONEY_FILE))
    answer = db.execute(question).get
    db.close()
    return answer


class Wire(httpx.AsyncHTTPTransport):
    """Goes under the official client, and remembers the payments that it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += request.headers.get_list("PAYMENT-SIGNATURE")
        return await super().handle_async_request(request)


async def official(
    chain: Chain,
    url: str,
    visit: Callable[[httpx.AsyncClient], Awaitable[list[httpx.Response]]],
    sent: list[str] | None = None,
) -> list[httpx.Response]:
    """Let the official client, unmodified but for being allowed our token, make *visit*.

    sent    receives the payments it sends
    """
    wire = Wire()

    async def run() -> list[httpx.Response]:
        client = x402Client()
        signer = KeypairSigner(chain.genesis.key("buyer"))
        register_exact_svm_client(client, signer, rpc_url=chain.url)
        asset: SpendControlAsset = {
            "network": MAINNET,
            "asset": str(chain.genesis.mint),
            "max_amount_per_payment": "1000000",
        }
        client.set_spend_controls({"allowed_assets": [asset]})
        transport = x402_httpx_transport(client, wire)
        async with httpx.AsyncClient(transport=transport, base_url=url, timeout=TIMEOUT_S) as http:
            return await visit(http)

    # It asks its node synchronously, so it needs a thread and a loop of its own.
    answers = await asyncio.to_thread(lambda: asyncio.run(run()))
    gc.collect()  # now, while what it leaves open is ignored
    if sent is not None:
        sent += wire.sent
    return answers


# The x402 client uses what solana-py has deprecated, and leaves its connections open.
official_client = pytest.mark.filterwarnings("ignore:.* is deprecated", "ignore:unclosed")


@official_client
async def test_the_official_client_buys_both_and_twice_in_the_same_second(tmp_path: Path) -> None:
    async def visit(http: httpx.AsyncClient) -> list[httpx.Response]:
        twice = (http.get(TOKEN), http.get(TOKEN), http.post(PURCHASE), http.post(PURCHASE))
        return list(await asyncio.gather(*twice))

    with market_town(tmp_path) as (chain, [seller]):
        answers = await official(chain, seller.url, visit)

        assert [answer.status_code for answer in answers] == [200, 200, 201, 201]
        receipts = [json.loads(b64decode(each.headers["PAYMENT-RESPONSE"])) for each in answers]
        assert {receipt["transaction"] for receipt in receipts} == chain.landed()
        assert len(chain.landed()) == 4
        assert chain.received() == 2 * PRICE + 2 * BUNDLE_PRICE
        tokens = {answer.json()["data"]["token"] for answer in answers[2:]}
        assert len(tokens) == tokens_issued(tmp_path) == 2
        assert all(is_well_formed(CredentialKind.CREDIT_TOKEN, token) for token in tokens)


@official_client
async def test_a_slow_chain_is_waited_for(tmp_path: Path) -> None:
    async def visit(http: httpx.AsyncClient) -> list[httpx.Response]:
        return [await http.post(PURCHASE)]

    with market_town(tmp_path, manner=PATIENT) as (chain, [seller]):
        chain.go_wrong(landing={"kind": "late", "ms": 3_000})
        (answer,) = await official(chain, seller.url, visit)

        assert answer.status_code == 201
        assert chain.received() == BUNDLE_PRICE


@official_client
async def test_a_slower_chain_is_redeemed_with_the_key_that_was_given(tmp_path: Path) -> None:
    async def visit(http: httpx.AsyncClient) -> list[httpx.Response]:
        return [await http.post(PURCHASE)]

    with market_town(tmp_path, manner=Manner(patience_s=0.5)) as (chain, [seller]):
        chain.go_wrong(landing={"kind": "late", "ms": 3_000})
        sent: list[str] = []
        (pending,) = await official(chain, seller.url, visit, sent)
        assert pending.status_code == 503
        assert pending.json()["error"]["code"] == "PAYMENT_PENDING"
        assert int(pending.headers["Retry-After"]) > 0
        paid = Paid(sent[-1], pending.headers["Idempotency-Key"])
        async with httpx.AsyncClient(base_url=seller.url, timeout=TIMEOUT_S) as shop:
            await redeem(shop, paid)
            stranger = await send(shop, Paid(paid.header, None))

        assert paid.token is not None
        assert stranger.status_code == 409
        assert chain.received() == BUNDLE_PRICE
        assert tokens_issued(tmp_path) == 1


@pytest.mark.parametrize("processes", [1, 2])
async def test_twenty_payments_with_funds_for_one(tmp_path: Path, processes: int) -> None:
    """One is served and one fee is paid, however many processes there are."""
    with market_town(tmp_path, processes=processes, atoms=BUNDLE_PRICE) as (chain, sellers):
        async with visiting(chain, sellers) as (shopper, shops):
            paid = [await shopper.prepare(shops[0], key=None) for _ in range(20)]
            answers = await asyncio.gather(
                *(send(shops[n % processes], each) for n, each in enumerate(paid))
            )

        assert Counter(answer.status_code for answer in answers) == {201: 1, 402: 19}
        assert tokens_issued(tmp_path) == 1
        assert chain.fees() == FEE_LAMPORTS
        assert chain.received() == BUNDLE_PRICE


@pytest.mark.parametrize("processes", [1, 2])
async def test_one_payment_sent_a_hundred_times(tmp_path: Path, processes: int) -> None:
    """Half of them know the key: they get one and the same token, the others none."""
    with market_town(tmp_path, processes=processes) as (chain, sellers):
        async with visiting(chain, sellers) as (shopper, shops):
            for number in range(ROUNDS):
                paid = await shopper.prepare(shops[0], key=f"the-secret-of-round-{number:04}")
                await send(shops[0], paid) if number % 2 else None
                answers = await asyncio.gather(
                    *(
                        send(
                            shops[n % processes], paid, key=None if n % 4 < 2 else f"a-guess-{n:08}"
                        )
                        for n in range(100)
                    )
                )
                issued = [answer for answer in answers if answer.status_code == 201]
                assert len({answer.json()["data"]["token"] for answer in issued}) <= 1
                assert {answer.status_code for answer in answers} <= {201, 409}
                assert len(issued) in {0, 1, 50}  # a guess that came first owns the payment
                assert tokens_issued(tmp_path) == number + 1

        assert chain.fees() == ROUNDS * FEE_LAMPORTS


async def test_four_processes_settle_one_payment(tmp_path: Path) -> None:
    with market_town(tmp_path, processes=4) as (chain, sellers):
        async with visiting(chain, sellers) as (shopper, shops):
            paid = await shopper.prepare(shops[0], key=None)
            answers = await asyncio.gather(*(send(shop, paid) for shop in shops))

        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 3}
        assert tokens_issued(tmp_path) == 1
        assert chain.received() == BUNDLE_PRICE


@pytest.mark.storm
@pytest.mark.timeout(180)
async def test_a_frozen_service_loses_nothing(tmp_path: Path) -> None:
    with market_town(tmp_path) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            pid = seller.process.pid
            assert pid is not None
            for number in range(FREEZES):
                buying = [
                    asyncio.create_task(shopper.buy(shop, f"the-secret-{number:04}-{n:04}"))
                    for n in range(10)
                ]
                await asyncio.sleep(0.05 * (number % 4))
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(FROZEN_S)
                os.kill(pid, signal.SIGCONT)
                await asyncio.gather(*buying)
            for each in shopper.paid:
                if each.token is None:
                    await redeem(shop, each)

        tokens = {each.token for each in shopper.paid}
        assert None not in tokens
        assert len(tokens) == len(chain.landed()) == tokens_issued(tmp_path) == 10 * FREEZES


async def test_a_full_disk_sells_nothing_and_heals(tmp_path: Path) -> None:
    with market_town(tmp_path) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            assert (await shopper.buy(shop, None)).token is not None
            landed = chain.landed()
            with disk_full(seller):
                refused = [await shopper.buy(shop, None) for _ in range(20)]
                ready = await shop.get("/readyz")
            assert {each.answer.status_code for each in refused if each.answer} == {503}
            assert chain.landed() == landed
            assert ready.status_code == 503
            healed = await shopper.buy(shop, None)

        assert healed.token is not None
        assert len(chain.landed()) == 2
        assert _ask(tmp_path, "PRAGMA integrity_check") == "ok"


@contextmanager
def disk_full(seller: Seller) -> Iterator[None]:
    """Let no write of the process reach a file, as on a disk without room."""
    pid = seller.process.pid
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def flushes_before_each_sale(folder: Path, mistake: str) -> list[int]:
    """Return how often the disk was flushed before each 201."""
    trace = folder / "trace"
    with (
        chain_running(buyers={"buyer": RICH}) as chain,
        traced(folder, chain, mistake, trace) as url,
    ):
        async with httpx.AsyncClient(base_url=chain.url, timeout=TIMEOUT_S) as rpc:
            shopper = Shopper(chain.genesis.key("buyer"), chain.genesis, rpc)
            async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as shop:
                for _ in range(FLUSHED):
                    assert (await shopper.buy(shop, None)).token is not None
    between = re.split("HTTP/1.1 201", trace.read_text())[:FLUSHED]
    return [
        len(re.findall(r"(?:fsync|fdatasync)\(", calls.rpartition("HTTP/1.1 402")[2]))
        for calls in between
    ]


@contextmanager
def traced(folder: Path, chain: Chain, mistake: str, trace: Path) -> Iterator[str]:
    """Run the service under strace, which writes its flushes and its answers to *trace*."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("did not run: strace is not installed")
    calls = "trace=fsync,fdatasync,write,writev,sendto,sendmsg"
    options = [strace, "-f", "-qq", "-s", "16", "-e", calls, "-o", str(trace)]
    command = [*options, sys.executable, "-m", "selling_service", str(folder), chain.url, mistake]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        if not said:
            pytest.skip("did not run: strace may not trace here")
        try:
            yield f"http://127.0.0.1:{int(said[0])}"
        finally:
            os.kill(int(said[1]), signal.SIGKILL)  # the service; strace ends with it
            process.communicate(timeout=20)


async def test_every_sale_waits_for_the_disk_twice(tmp_path: Path) -> None:
    """Once for the pending row, before the broadcast, and once for what was sold."""
    assert min(await flushes_before_each_sale(tmp_path, "")) >= 2


async def test_the_trace_finds_a_store_that_does_not_flush(tmp_path: Path) -> None:
    assert min(await flushes_before_each_sale(tmp_path, "NeverFlushes")) < 2
