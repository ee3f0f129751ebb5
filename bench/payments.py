"""Compares paid requests with the facilitator of the x402 package, on the same chain.

A request to the node and its answer take 40 ms; a payment is confirmed after about 800 ms.  The
chain, mintscope and the peer are separate processes; payments are signed before the measurement.
The median of several rounds counts, also for stalls.  The peer stores nothing and checks less.
"""

import asyncio
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
from x402.http.utils import encode_payment_required_header
from x402.schemas import PaymentRequired, PaymentRequirements, ResourceInfo, SettleResponse

from bench.figure import Figure, tell
from bench.peers_payments.moments import SEED
from bench.peers_payments.stock import AMOUNT
from bench.process import python_running
from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.protocol.envelope import MAINNET
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit
from mintscope_devchain.svm.genesis import Genesis

AT_ONCE = 60
ONE_BY_ONE = 8
CROWDS = 5  # rounds with mintscope, whose median counts
TIMEOUT_S = 90.0
PURCHASE = "/v1/credits/purchase?bundle=10"
OURS, STOCK, THREADS = "mintscope", "x402 facilitator", "x402 facilitator in threads"
GENESIS = Genesis(SEED)


class Timed(NamedTuple):
    """A paid request: the times of its start and end, and the signature of its payment."""

    began_s: float
    ended_s: float
    signature: str


class Round(NamedTuple):
    """The times of requests sent together, and the longest stall of the event loop meanwhile."""

    timed: list[Timed]
    stall_s: float


class Moments(NamedTuple):
    """Three moments of each payment, by signature: sent, confirmed, reported as confirmed."""

    sent: dict[str, float]
    confirmed: dict[str, float]
    reported: dict[str, float]


def run() -> list[Figure]:
    """Compare payments of mintscope and the peer: latencies, 60 payments at once, and stalls."""
    with TemporaryDirectory() as name, _process("chain", str(AT_ONCE)) as chain:
        with _process("ours", name, chain) as ours:
            one_by_one = asyncio.run(_buy(ours, chain, PURCHASE, 1, ONE_BY_ONE))
            at_once = asyncio.run(_buy(ours, chain, PURCHASE, AT_ONCE, CROWDS))
        with _process("stock", name, chain) as stock:
            theirs = asyncio.run(_buy(stock, chain, "/purchase", 1, ONE_BY_ONE))
            their_at_once = asyncio.run(_buy(stock, chain, "/threads", AT_ONCE, 1))
        moments = Moments(*_ask(chain, "bench_moments"))
    return [
        *_pair(
            "answer after the RPC first reports confirmed",
            _after_report(one_by_one, moments),
            _after_report(theirs, moments),
            "goal <= 100 ms",
        ),
        *_pair(
            "paid request beyond its confirmation",
            _beyond(one_by_one, moments),
            _beyond(theirs, moments),
            "goal <= 250 ms",
        ),
        *_pair(
            f"{AT_ONCE} payments at once",
            _span_ms(at_once),
            _span_ms(their_at_once),
            "goal <= 2,000 ms",
            peer=THREADS,
        ),
        *_pair(
            "longest loop stall, one payment",
            _stall_ms(one_by_one),
            _stall_ms(theirs),
            "goal <= 5 ms",
        ),
        *_pair(
            f"longest loop stall, {AT_ONCE} at once",
            _stall_ms(at_once),
            _stall_ms(their_at_once),
            "goal <= 5 ms",
            peer=THREADS,
        ),
    ]


def _pair(what: str, ours: float, theirs: float, goal: str, *, peer: str = STOCK) -> list[Figure]:
    return [
        Figure(what=what, who=OURS, value=ours, unit="ms", goal=goal),
        Figure(what=what, who=peer, value=theirs, unit="ms", ratio=theirs / ours),
    ]


def _after_report(rounds: list[Round], moments: Moments) -> float:
    return median(
        (each.ended_s - moments.reported[each.signature]) * 1000
        for one in rounds
        for each in one.timed
    )


def _beyond(rounds: list[Round], moments: Moments) -> float:
    """Return the median ms of a paid request without the time to its payment's confirmation."""
    return median(
        1000 * (each.ended_s - each.began_s)
        - 1000 * (moments.confirmed[each.signature] - moments.sent[each.signature])
        for one in rounds
        for each in one.timed
    )


def _span_ms(rounds: list[Round]) -> float:
    return 1000 * median(
        max(each.ended_s for each in one.timed) - min(each.began_s for each in one.timed)
        for one in rounds
    )


def _stall_ms(rounds: list[Round]) -> float:
    return 1000 * median(one.stall_s for one in rounds)


async def _buy(url: str, chain: str, path: str, at_once: int, rounds: int) -> list[Round]:
    """Make *at_once* purchases at the same time, *rounds* times; return the times of each round."""
    limits = httpx.Limits(max_connections=at_once)
    done: list[Round] = []
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as shop:
        # A warm-up: it opens connections, and imports everything, before the measurement.
        await asyncio.gather(*(shop.get("/stall") for _ in range(at_once)))
        warm = await _sign(shop, chain, path, 0)
        await _pay(shop, path, warm)
        for _ in range(rounds):
            headers = [await _sign(shop, chain, path, number) for number in range(at_once)]
            await shop.get("/stall")
            timed = await asyncio.gather(*(_pay(shop, path, header) for header in headers))
            done.append(Round(timed, float((await shop.get("/stall")).text)))
    return done


async def _pay(shop: httpx.AsyncClient, path: str, header: str) -> Timed:
    began_s = time.monotonic()
    answer = await shop.post(path, headers={"PAYMENT-SIGNATURE": header})
    ended_s = time.monotonic()
    assert answer.status_code == httpx.codes.CREATED, answer.text
    receipt = answer.headers.get("PAYMENT-RESPONSE")
    if receipt is None:
        return Timed(began_s, ended_s, answer.text)
    settled = SettleResponse.model_validate_json(b64decode(receipt))
    return Timed(began_s, ended_s, settled.transaction)


async def _sign(shop: httpx.AsyncClient, chain: str, path: str, buyer: int) -> str:
    """Return the PAYMENT-SIGNATURE header with which buyer number *buyer* pays for *path*."""
    pay_to = Wallet(str(GENESIS.treasury.pubkey()))
    pin = Pin(network=MAINNET, asset=Mint(str(GENESIS.mint)), decimals=6, pay_to=pay_to)
    keypair = GENESIS.key(f"buyer {buyer}")
    wallet = PayerWallet(
        keypair=keypair, pin=pin, limit=SpendLimit(atoms_per_payment=10**9, atoms_in_all=10**12)
    )
    demand = _stock_demand() if path != PURCHASE else await _our_demand(shop)
    required, offer = wallet.choose(demand)
    latest = _ask(chain, "getLatestBlockhash", {"commitment": "confirmed"})
    return wallet.pay(required, offer, str(latest["value"]["blockhash"]))


async def _our_demand(shop: httpx.AsyncClient) -> str:
    return (await shop.post(PURCHASE)).headers["PAYMENT-REQUIRED"]


def _stock_demand() -> str:
    offer = PaymentRequirements(
        scheme="exact",
        network=MAINNET,
        asset=str(GENESIS.mint),
        amount=AMOUNT,
        pay_to=str(GENESIS.treasury.pubkey()),
        max_timeout_seconds=60,
        extra={
            "feePayer": str(GENESIS.fee_payer.pubkey()),
            "memo": f"{time.monotonic_ns():032}",
        },
    )
    resource = ResourceInfo(url="http://shop.example/purchase")
    return encode_payment_required_header(PaymentRequired(resource=resource, accepts=[offer]))


def _ask(chain: str, method: str, *params: object) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(chain, json=call, timeout=TIMEOUT_S).json()["result"]


@contextmanager
def _process(name: str, *arguments: str) -> Iterator[str]:
    """Run the module *name* of `bench.peers_payments` during the `with` block; yield its URL."""
    with python_running(f"bench.peers_payments.{name}", *arguments) as port:
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    for figure in run():
        tell(figure)
