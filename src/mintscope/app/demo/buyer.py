"""The demo's buyer: an agent with a wallet and without an account.

It pays with the official x402 client if that is installed, as it is under
`make demo`; else with `mintscope_client`.  Nothing it sends is made by the seller.
"""

import asyncio
import warnings
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

import httpx
import typer
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from x402.http.utils import decode_payment_required_header
from x402.schemas import PaymentRequired, SettleResponse

from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.payments.protocol.headers import PAYMENT_REQUIRED, PAYMENT_RESPONSE
from mintscope.solana.blocks import WSOL
from mintscope_client.auth import PaymentAuth
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, PAYMENT_SYMBOL, Genesis

TIMEOUT_S: Final = 60.0
LOOK_S: Final = 0.1
LOOKS_MAX: Final = 300
PRICE_LOOK_S: Final = 1.0
PRICE_LOOKS_MAX: Final = 15  # half of what a client may ask in a minute
LAMPORTS: Final = 10**9
ATOMS: Final = 1_000 * 10**PAYMENT_DECIMALS
USDC_ATOMS: Final = 10**6
ATOMS_PER_PAYMENT: Final = 10 * 10**PAYMENT_DECIMALS
BUNDLE: Final = 10
OFFICIAL: Final = find_spec("solana") is not None  # without it the official client cannot pay


class DemoFailed(Exception):
    """The demo did not run as expected; the message is the response of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuyerTask:
    """The settings of a demo buyer: the seller's address, and the buyer's wallet."""

    origin: str
    rpc_url: str
    genesis: Genesis
    paid_in: Pubkey | None = None

    @property
    def asset(self) -> Pubkey:
        """The mint that the buyer pays with: the payment token by default."""
        return self.paid_in or self.genesis.mint

    @property
    def wallet(self) -> Keypair:
        """The buyer's key; its wallet has 1 SOL, 1,000 tokens and 1 USDC from the faucet."""
        return self.genesis.key("buyer")


def buy(task: BuyerTask) -> None:
    """Request, pay, buy credits and spend them; print every step.  Raises DemoFailed, HTTPError."""
    with warnings.catch_warnings():
        # The official client uses what its Solana library has deprecated.
        warnings.simplefilter("ignore")
        asyncio.run(_buy(task))


async def _buy(task: BuyerTask) -> None:
    await _fund(task)
    who = f"the official x402 client, x402 {version('x402')}" if OFFICIAL else "mintscope_client"
    typer.echo(f"\nA buyer with a wallet and no account, paying by {who}:\n")
    path = f"/v1/token/{WSOL}"
    async with httpx.AsyncClient(base_url=task.origin, timeout=TIMEOUT_S) as http:
        await _expect_price(http, task.asset)
        _tell_demand(path, await http.get(path))
        async with _paying(task) as paying:
            _tell_report(path, await paying.get(path))
            token = _tell_purchase(await paying.post(f"/v1/credits/purchase?bundle={BUNDLE}"))
        async with _paying(replace(task, paid_in=task.genesis.usdc)) as paying:
            _tell_report(path, await paying.get(path), "in USDC")
        bearer = {"Authorization": f"Bearer {token}"}
        left = [_left(await http.get(path, headers=bearer)) for _ in range(BUNDLE)]
        typer.echo(f"  GET the same {BUNDLE} times with the token\n    200, credits left: {left}")
        empty = await http.get(path, headers=bearer)
        _expect(empty, httpx.codes.PAYMENT_REQUIRED, "INSUFFICIENT_CREDITS")
        typer.echo("  GET it once more\n    402 INSUFFICIENT_CREDITS")


async def _expect_price(http: httpx.AsyncClient, asset: Pubkey) -> None:
    """Wait until the payment token *asset* has a price; USDC always has one."""
    for _ in range(PRICE_LOOKS_MAX):
        answer = await http.get("/v1/credits/bundles")
        if answer.is_success and answer.json()["data"]["currency"]["asset"] == str(asset):
            return
        await asyncio.sleep(PRICE_LOOK_S)
    raise DemoFailed(f"{asset} has no price: {answer.text:.300}")


async def _fund(task: BuyerTask) -> None:
    """Request money for the buyer from the faucet, and wait until it arrives."""
    tokens = str(task.genesis.tokens_of(task.wallet.pubkey()))
    confirmed = {"commitment": "confirmed", "encoding": "base64"}
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as http:
        await _give(http, task.rpc_url, task.wallet.pubkey(), USDC_ATOMS)
        for _ in range(LOOKS_MAX):
            found = await _call(http, task.rpc_url, "getAccountInfo", tokens, confirmed)
            if found["value"] is not None:
                return
            await asyncio.sleep(LOOK_S)
    raise DemoFailed("the faucet's gift did not arrive")


def fund(rpc_url: str, wallet: Pubkey) -> None:
    """Give *wallet* 1 SOL, 1,000 payment tokens and 100 USDC.  Raises DemoFailed, HTTPError."""

    async def give() -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as http:
            await _give(http, rpc_url, wallet, 100 * USDC_ATOMS)

    asyncio.run(give())


async def _give(http: httpx.AsyncClient, rpc_url: str, wallet: Pubkey, usdc_atoms: int) -> None:
    await _call(http, rpc_url, "devchain_faucet", str(wallet), LAMPORTS, ATOMS, usdc_atoms)


async def _call(http: httpx.AsyncClient, url: str, method: str, *params: object) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await http.post(url, json=call)).json()
    if "result" not in answer:
        raise DemoFailed(f"{method}: {answer}")
    return answer["result"]


@asynccontextmanager
async def _paying(task: BuyerTask) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that pays the demanded amounts, within limits."""
    if OFFICIAL:
        async with _official(task) as client:
            yield client
        return
    pin = Pin(
        network=MAINNET,
        asset=Mint(str(task.asset)),
        decimals=PAYMENT_DECIMALS,
        pay_to=Wallet(str(task.genesis.treasury.pubkey())),
    )
    wallet = PayerWallet(
        keypair=task.wallet,
        pin=pin,
        limit=SpendLimit(atoms_per_payment=ATOMS_PER_PAYMENT, atoms_in_all=ATOMS),
    )
    auth = PaymentAuth(wallet, rpc_url=task.rpc_url)
    async with httpx.AsyncClient(base_url=task.origin, timeout=TIMEOUT_S, auth=auth) as client:
        yield client


def _official(task: BuyerTask) -> httpx.AsyncClient:
    """Return the official client, changed only to allow payments in the demo's token."""
    # Not among what the service itself needs.
    from x402 import x402Client  # noqa: PLC0415
    from x402.client_base import SpendControlAsset  # noqa: PLC0415
    from x402.http.clients.httpx import x402HttpxClient  # noqa: PLC0415
    from x402.mechanisms.svm.exact.register import register_exact_svm_client  # noqa: PLC0415
    from x402.mechanisms.svm.signers import KeypairSigner  # noqa: PLC0415

    client = x402Client()
    register_exact_svm_client(client, KeypairSigner(task.wallet), rpc_url=task.rpc_url)
    asset = SpendControlAsset(
        network=MAINNET, asset=str(task.asset), max_amount_per_payment=str(ATOMS_PER_PAYMENT)
    )
    client.set_spend_controls({"allowed_assets": [asset]})
    return x402HttpxClient(client, base_url=task.origin, timeout=TIMEOUT_S)


def _tell_demand(path: str, answer: httpx.Response) -> None:
    _expect(answer, httpx.codes.PAYMENT_REQUIRED, "PAYMENT_REQUIRED")
    if PAYMENT_REQUIRED not in answer.headers:
        raise DemoFailed(f"expected {PAYMENT_REQUIRED}; was {answer.text:.300}")
    required = decode_payment_required_header(answer.headers[PAYMENT_REQUIRED])
    if not isinstance(required, PaymentRequired):
        raise DemoFailed("expected x402 version 2")
    offer, *_ = required.accepts
    typer.echo(f"  GET {path}\n    402 PAYMENT_REQUIRED, and PAYMENT-REQUIRED says")
    for name, value in {
        "amount": f"{offer.amount} atoms, {_tokens(int(offer.amount))}",
        "asset": offer.asset,
        "payTo": offer.pay_to,
        "network": offer.network,
        "feePayer": f"{offer.extra['feePayer']} (the seller pays the network fee)",
        "memo": f"{offer.extra['memo']} (the quote, good for two minutes)",
    }.items():
        typer.echo(f"      {name:9} {value}")


def _tell_report(path: str, answer: httpx.Response, how: str = "") -> None:
    _expect(answer, httpx.codes.OK)
    price = answer.json()["data"]["price"]["usd"]
    paid = f"paid {how}".strip()
    typer.echo(
        f"  GET {path}, {paid}\n    200, price {price:.2f} USD, settled by {_receipt(answer)}"
    )


def _tell_purchase(answer: httpx.Response) -> str:
    _expect(answer, httpx.codes.CREATED)
    bought = answer.json()["data"]
    typer.echo(
        f"  POST /v1/credits/purchase?bundle={BUNDLE}, paid\n    201, {bought['credits']} credits"
        f" for {_tokens(bought['pricePaid'])}, settled by {_receipt(answer)}"
    )
    return str(bought["token"])


def _left(answer: httpx.Response) -> int:
    _expect(answer, httpx.codes.OK)
    return int(answer.headers["X-Credits-Remaining"])


def _receipt(answer: httpx.Response) -> str:
    receipt = b64decode(answer.headers[PAYMENT_RESPONSE])
    return SettleResponse.model_validate_json(receipt).transaction


def _tokens(atoms: int) -> str:
    return f"{atoms / 10**PAYMENT_DECIMALS:g} {PAYMENT_SYMBOL}"


def _expect(answer: httpx.Response, status: int, code: str = "") -> None:
    if answer.status_code != status or (code and answer.json()["error"]["code"] != code):
        raise DemoFailed(f"expected {status} {code}; was {answer.status_code} {answer.text:.300}")
