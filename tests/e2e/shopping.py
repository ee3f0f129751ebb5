"""A buyer that buys step by step and records each step."""

import asyncio
import json
import time
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

import httpx
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from mintscope_devchain.svm.genesis import Genesis
from support.scenes.payments.payment_build import payer_wallet, terms_of

PURCHASE = "/v1/credits/purchase?bundle=10"
CREDITS = 10
TIMEOUT_S = 90  # seconds; the service can take a minute to answer
PENDING_S = 0.05
PENDING_MAX = 600
UNSENT_S = 2.0


@dataclass
class Paid:
    """A signed payment for a bundle of ten credits.

    answer    the last answer of the shop; None if there was none so far
    """

    header: str
    key: str | None
    answer: httpx.Response | None = None

    @property
    def payer_signature(self) -> str:
        """Return the payer's signature in the payment's transaction, as it is on the chain."""
        payload = json.loads(b64decode(self.header))["payload"]
        transaction = VersionedTransaction.from_bytes(b64decode(payload["transaction"]))
        return str(transaction.signatures[1])

    @property
    def token(self) -> str | None:
        if self.answer is None or self.answer.status_code != 201:
            return None
        return str(self.answer.json()["data"]["token"])

    @property
    def code(self) -> str:
        assert self.answer is not None
        return "" if self.answer.is_success else str(self.answer.json()["error"]["code"])


@dataclass
class Shopper:
    wallet: Keypair
    genesis: Genesis
    rpc: httpx.AsyncClient
    paid: list[Paid] = field(default_factory=list)

    def __post_init__(self) -> None:
        limits = {"atoms_per_payment": 10**9, "atoms_in_all": 10**15}
        self._wallet = payer_wallet(terms_of(self.genesis), self.wallet, **limits)

    async def prepare(self, shop: httpx.AsyncClient, key: str | None) -> Paid:
        """Request terms with the Idempotency-Key *key*, and sign a payment, but do not send it."""
        headers = {} if key is None else {"Idempotency-Key": key}
        for _ in range(PENDING_MAX):
            demand = await shop.post(PURCHASE, headers=headers)
            if demand.status_code != 503:  # 503: there is no price yet
                break
            await asyncio.sleep(PENDING_S)
        assert demand.status_code == 402, demand.text
        required, offer = self._wallet.choose(demand.headers["PAYMENT-REQUIRED"])
        return Paid(self._wallet.pay(required, offer, await self._blockhash()), key)

    async def buy(self, shop: httpx.AsyncClient, key: str | None) -> Paid:
        """Buy ten credits; the purchase is added to `paid` before it is sent."""
        paid = await self.prepare(shop, key)
        self.paid.append(paid)
        paid.answer = await send(shop, paid)
        return paid

    async def _blockhash(self) -> str:
        params = [{"commitment": "confirmed"}]
        call = {"jsonrpc": "2.0", "id": 1, "method": "getLatestBlockhash", "params": params}
        answer: Any = {}
        for _ in range(20):  # a node can refuse a call: try again
            response = await self.rpc.post("/", json=call)
            if response.is_success and "result" in (answer := response.json()):
                break
        return str(answer["result"]["value"]["blockhash"])


async def send(shop: httpx.AsyncClient, paid: Paid, *, key: str | None = None) -> httpx.Response:
    """Send the payment once, with *key*, or with the key of *paid* if *key* is None."""
    given = key or paid.key
    headers = {"PAYMENT-SIGNATURE": paid.header}
    headers |= {} if given is None else {"Idempotency-Key": given}
    return await shop.post(PURCHASE, headers=headers)


async def redeem(shop: httpx.AsyncClient, paid: Paid) -> None:
    """Send the payment again until its outcome is known.

    If the shop answers for two seconds that it has not sent the payment, assume that it never does.
    """
    unsent_since_s: float | None = None
    for _ in range(PENDING_MAX):
        now_s = time.monotonic()
        paid.answer = await send(shop, paid)
        if paid.answer.status_code != 503:
            return
        if paid.answer.json()["error"]["code"] == "PAYMENT_UNAVAILABLE":
            unsent_since_s = now_s if unsent_since_s is None else unsent_since_s
            if time.monotonic() - unsent_since_s > UNSENT_S:
                return
        await asyncio.sleep(PENDING_S)
