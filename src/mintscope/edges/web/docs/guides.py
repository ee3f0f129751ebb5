"""The guides: what each is about, and the programs in them that are too long for a template."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mintscope.base.solana import WSOL
from mintscope.edges.web.docs import alerts


class Guide(NamedTuple):
    """A guide: its part of the address, its title, and what it is about."""

    slug: str
    title: str
    about: str


GUIDES: Final = (
    Guide("start", "From nothing to the first call", "An answer in two minutes, in your language."),
    Guide("buying", "Buying credits", "Bundles, wallets, accounts, and what becomes of a payment."),
    Guide("x402", "How x402 works", "Paying by the request, without an account, in words."),
    Guide(
        "alerts", "Alerts by webhook", "Get notified when RSI crosses 30, and check the signature."
    ),
    Guide("errors", "Errors are free", "Errors that are never charged, and when to retry."),
    Guide("freshness", "How fresh the data is", "Slots, ages, unchanged answers and streams."),
    Guide("clients", "Clients and MCP", "Python, TypeScript, the command line, and agents."),
)
BUYING: Final = """\
from decimal import Decimal
from pathlib import Path

from mintscope.client import Client
from mintscope.client.auth import PaymentAuth
from mintscope.client.keypair import read_keypair
from mintscope.client.wallet import PayerWallet, Pin, SpendLimit

pin = Pin(
    network="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",  # mainnet
    asset="MINT_OF_THE_PAYMENT_TOKEN",
    decimals=6,
    pay_to="WALLET_OF_THE_SELLER",
    usd_per_token=Decimal(1),
)
wallet = PayerWallet(
    keypair=read_keypair(Path("id.json")),
    pin=pin,
    limit=SpendLimit.in_usd(pin, per_payment=Decimal("0.10"), in_all=Decimal(1)),
)
payer = PaymentAuth(wallet, rpc_url="https://your-node.example")
with Client("{origin}", payer=payer) as client:
    print(client.buy_credits(10).token)"""
OFFICIAL: Final = """\
import asyncio, os, secrets
from x402 import x402Client
from x402.http.clients import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

async def main():
    payer = x402Client()
    signer = KeypairSigner.from_base58(os.environ["SOLANA_PRIVATE_KEY"])
    register_exact_svm_client(payer, signer, rpc_url=os.environ.get("SOLANA_RPC_URL"))
    async with x402HttpxClient(payer, base_url="{origin}", timeout=90) as http:
        key = {"Idempotency-Key": secrets.token_hex(16)}
        answer = await http.get("/v1/token/{mint}", headers=key)
        answer.raise_for_status()
        print(answer.json()["data"]["indicators"]["m5"]["rsi"])

asyncio.run(main())"""
REPORT: Final = """\
{
  "success": true,
  "data": {
    "token": "So11111111111111111111111111111111111111112",
    "price": { "usd": 171.25, "sol": 1.0 },
    "indicators": {
      "m5": { "ema9": 171.1, "rsi": 56.3 },
      "h1": { "ema9": 170.2, "rsi": 61.8 },
      "buySellPressure": { "m5": 0.49, "h1": 0.51 }
    }
  }
}"""
ERROR: Final = """\
{
  "success": false,
  "error": {
    "code": "TOKEN_NOT_FOUND",
    "message": "This mint is not tracked here. Nothing was charged."
  },
  "meta": {
    "timestamp": "2025-11-18T10:00:00.000Z",
    "requestId": "5f0c1d2e0000002a"
  }
}"""


def facts_of(guide: Guide, origin: str) -> Mapping[str, str]:
    """Return what the template of *guide* shows beside its own text."""
    match guide.slug:
        case "buying":
            return {"buying_program": BUYING.replace("{origin}", origin)}
        case "x402":
            program = OFFICIAL.replace("{origin}", origin).replace("{mint}", WSOL)
            return {"official_program": program}
        case "alerts":
            return {
                "rule": alerts.RULE.replace("{origin}", origin).replace("{mint}", WSOL),
                "hook_python": alerts.HOOK_PYTHON,
                "hook_typescript": alerts.HOOK_TYPESCRIPT,
            }
        case "errors":
            return {"error_example": ERROR}
        case _:
            return {}
