"""Purchases from one or several processes: at once, while frozen, and on a slow chain."""

import asyncio
import json
import os
import signal
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from paying_chain import SLOT_MS, Chain
from selling_service import Manner, ask_books, market_town, tokens_issued, visiting
from shopping import PURCHASE, TIMEOUT_S, Paid, redeem, send
from typing_extensions import override
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.http.clients.httpx import x402_httpx_transport
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope.payments.protocol.envelope import HELD_OPEN_S, MAINNET
from mintscope.solana.pace import BLOCKHASH_BLOCKS
from support.fakes.reports import TRACKED

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
TOKEN = f"/v1/token/{TRACKED}"
PRICE, BUNDLE_PRICE = 2_500, 25_000
FEE_LAMPORTS = 10_001
ROUNDS = 20 if FULL else 4
FREEZES, FROZEN_S = (15, 2.2) if FULL else (3, 1.0)
AT_ONCE = 8  # as many as a buyer without a history may have in flight


class Wire(httpx.AsyncHTTPTransport):
    """The transport of the official client, which records the payments that it sends."""

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
    """Call *visit* with the unmodified official client, which may pay with the payment token.

    sent   a list to which the sent payments are added
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

    # The client calls its node synchronously, so it needs its own thread and loop.
    answers = await asyncio.to_thread(lambda: asyncio.run(run()))
    if sent is not None:
        sent += wire.sent
    return answers


official_client = pytest.mark.usefixtures("official_client")


@official_client
async def test_the_official_client_buys_two_reports_and_two_bundles_at_once(tmp_path: Path) -> None:
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
        worths = "SELECT group_concat(worth) FROM (SELECT worth FROM payment ORDER BY worth)"
        assert ask_books(tmp_path, worths) == "2500,2500,25000,25000"
        assert all(is_well_formed(CredentialKind.CREDIT_TOKEN, token) for token in tokens)


@official_client
async def test_the_seller_waits_for_a_slow_chain(tmp_path: Path) -> None:
    async def visit(http: httpx.AsyncClient) -> list[httpx.Response]:
        return [await http.post(PURCHASE)]

    with market_town(tmp_path) as (chain, [seller]):
        chain.go_wrong(landing={"kind": "late", "ms": 3_000})
        (answer,) = await official(chain, seller.url, visit)

        assert answer.status_code == 201
        assert chain.received() == BUNDLE_PRICE


@official_client
async def test_a_pending_payment_is_redeemed_with_the_returned_idempotency_key(
    tmp_path: Path,
) -> None:
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


async def test_an_expired_blockhash_is_refused_and_a_lost_payment_fails_at_expiry(
    tmp_path: Path,
) -> None:
    """A blockhash expires after 6 s with slots of 40 ms, and after 30 s at the pace of mainnet."""
    life_s = BLOCKHASH_BLOCKS * SLOT_MS / 1000
    with market_town(tmp_path, manner=Manner(patience_s=HELD_OPEN_S)) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            late = await shopper.prepare(shop, key="the-secret-of-the-late-one")
            await asyncio.sleep(life_s + 1)
            began_s = time.monotonic()
            answer = await send(shop, late)
            took_s = time.monotonic() - began_s
            assert (answer.status_code, answer.json()["error"]["code"]) == (402, "PAYMENT_FAILED")
            assert "blockhash_not_found" in answer.json()["error"]["message"]
            assert took_s < life_s  # at once; on a quiet machine within a second
            assert chain.received() == 0

            chain.go_wrong(landing={"kind": "never"})
            began_s = time.monotonic()
            lost = await shopper.buy(shop, key="the-secret-of-the-lost-one")
            took_s = time.monotonic() - began_s

        assert lost.answer is not None
        assert lost.answer.status_code == 402, lost.answer.text
        assert "transaction_expired" in lost.answer.json()["error"]["message"]
        assert life_s < took_s < life_s + 9  # expiry, finality, and a check
        assert chain.fees() == 0


@pytest.mark.parametrize("processes", [1, 2])
async def test_one_of_twenty_payments_with_funds_for_one_is_served(
    tmp_path: Path, processes: int
) -> None:
    """One payment is served and one fee is paid, with any number of processes."""
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
async def test_a_payment_sent_a_hundred_times_is_issued_once(
    tmp_path: Path, processes: int
) -> None:
    """All requests with the key that comes first get the token; requests with other keys do not."""
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


async def test_four_processes_settle_one_payment_once(tmp_path: Path) -> None:
    with market_town(tmp_path, processes=4) as (chain, sellers):
        async with visiting(chain, sellers) as (shopper, shops):
            paid = await shopper.prepare(shops[0], key=None)
            answers = await asyncio.gather(*(send(shop, paid) for shop in shops))

        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 3}
        assert tokens_issued(tmp_path) == 1
        assert chain.received() == BUNDLE_PRICE


@pytest.mark.storm
async def test_a_frozen_service_loses_no_payment(tmp_path: Path) -> None:
    with market_town(tmp_path) as (chain, [seller]):
        async with visiting(chain, [seller]) as (shopper, [shop]):
            pid = seller.process.pid
            assert pid is not None
            for number in range(FREEZES):
                buying = [
                    asyncio.create_task(shopper.buy(shop, f"the-secret-{number:04}-{n:04}"))
                    for n in range(AT_ONCE)
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
        assert len(tokens) == len(chain.landed()) == tokens_issued(tmp_path) == AT_ONCE * FREEZES
