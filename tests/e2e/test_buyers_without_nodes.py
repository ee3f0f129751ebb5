"""Clients pay with the blockhash of the 402, and request none from a Solana node."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from solders.pubkey import Pubkey
from starlette.types import Receive, Scope, Send
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.client import ExactSvmScheme
from x402.mechanisms.svm.mint_cache import MintMetadata
from x402.mechanisms.svm.signers import KeypairSigner

from mintscope_client.auth import PaymentAuth
from mintscope_client.wallet import WillNotPay
from support.fakes.reports import TRACKED
from support.processes.listening import listening
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import PURCHASE, SellingApi, opened
from support.scenes.payments.shop_at_its_address import shop_at_its_address

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / "tests" / "browser"
NODE: Final = Path(sys.executable).parent / "node"
NOWHERE: Final = "http://127.0.0.1:9"  # the port of discard: nothing listens there
PRICE: Final = 25_000

typescript = pytest.mark.skipif(
    not (TOOLS / "node_modules" / "@x402").exists(), reason="npm installed nothing"
)
official_client = pytest.mark.usefixtures("official_client")


@asynccontextmanager
async def shop(world: World) -> AsyncIterator[tuple[str, SellingApi]]:
    """Yield the address of a shop that keeps its 402s' blockhash fresh, and the shop."""
    async with shop_at_its_address(world) as (origin, opened_shop):
        refreshing = asyncio.create_task(refresh(world))
        await world.until_called("getLatestBlockhash")
        await asyncio.sleep(0)
        yield origin, opened_shop
        refreshing.cancel()


async def refresh(world: World) -> None:
    while True:
        await world.chains[-1].refresh_offer()
        await asyncio.sleep(0.01)


class MintAlone:
    """A node that answers only getAccountInfo, which returns the mint."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        method = json.loads(body)["method"]
        self.asked.append(method)
        if method != "getAccountInfo":
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return

        async def again() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.world.node(scope, again, send)


async def buy_by_python(world: World, origin: str, rpc_url: str, *, knows_mint: bool) -> Any:
    """Buy credits with the official client, in a thread: it calls its node synchronously."""

    async def visit() -> httpx.Response:
        terms = world.terms
        scheme = ExactSvmScheme(KeypairSigner(world.buyer), rpc_url)
        if knows_mint:
            program = Pubkey.from_string(terms.token_program)
            known = MintMetadata(decimals=terms.decimals, token_program=program)
            vars(scheme)["_mint_cache"][terms.network, terms.asset] = known
        payer = x402Client().register("solana:*", scheme)
        asset: SpendControlAsset = {
            "network": terms.network,
            "asset": terms.asset,
            "max_amount_per_payment": "1000000",
        }
        payer.set_spend_controls({"allowed_assets": [asset]})
        async with x402HttpxClient(payer, timeout=30) as http:
            return await http.post(f"{origin}{PURCHASE}")

    return await asyncio.to_thread(lambda: asyncio.run(visit()))


async def buy_by_typescript(origin: str, world: World, rpc_url: str, **environment: str) -> Any:
    running = await asyncio.create_subprocess_exec(
        str(NODE),
        "buy_without_node.mjs",
        origin,
        cwd=TOOLS,
        env={
            "PATH": os.defpath,
            "SOLANA_PRIVATE_KEY": str(world.buyer),
            "SOLANA_RPC_URL": rpc_url,
            **environment,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, trouble = await asyncio.wait_for(running.communicate(), 100)
    assert running.returncode == 0, (output + trouble).decode()
    return json.loads(output)


@official_client
async def test_the_official_python_client_asks_its_node_only_for_the_mint(world: World) -> None:
    node = MintAlone(world)
    async with shop(world) as (origin, _), listening(node) as rpc_url:
        answer = await buy_by_python(world, origin, rpc_url, knows_mint=False)

    assert answer.status_code == 201
    assert node.asked == ["getAccountInfo"]
    assert world.received() == PRICE


@official_client
async def test_the_official_python_client_that_knows_the_mint_needs_no_node(world: World) -> None:
    async with shop(world) as (origin, _):
        answer = await buy_by_python(world, origin, NOWHERE, knows_mint=True)

    assert answer.status_code == 201
    assert world.received() == PRICE


@typescript
async def test_the_official_typescript_client_asks_its_node_only_for_the_mint(
    world: World,
) -> None:
    node = MintAlone(world)
    async with shop(world) as (origin, _), listening(node) as rpc_url:
        answer = await buy_by_typescript(origin, world, rpc_url)

    assert answer["status"] == 201
    assert node.asked == ["getAccountInfo"]
    assert world.received() == PRICE


@typescript
async def test_the_official_typescript_client_that_knows_the_mint_needs_no_node(
    world: World,
) -> None:
    async with shop(world) as (origin, _):
        answer = await buy_by_typescript(origin, world, NOWHERE, KNOWS_MINT="yes")

    assert answer["status"] == 201
    assert world.received() == PRICE


def auth_of(world: World, **changes: Any) -> PaymentAuth:
    limits = {"atoms_per_payment": PRICE, "atoms_in_all": 2 * PRICE}
    return PaymentAuth(payer_wallet(world.terms, world.buyer, **limits), **changes)


@pytest.mark.parametrize("changes", [{}, {"rpc_url": NOWHERE}], ids=["no URL", "a dead one"])
async def test_our_client_needs_no_node(world: World, changes: dict[str, str]) -> None:
    async with (
        shop(world) as (origin, _),
        httpx.AsyncClient(base_url=origin, auth=auth_of(world, **changes), timeout=30) as http,
    ):
        bought = await http.post(PURCHASE)
        read = await http.get(f"/v1/token/{TRACKED}")

    assert (bought.status_code, read.status_code) == (201, 200)


async def test_our_client_pays_nothing_without_a_blockhash_from_seller_or_node(
    world: World,
) -> None:
    """Here nothing refreshes the seller's blockhash, so its 402 has none."""
    async with opened(world) as selling:
        with pytest.raises(WillNotPay, match="recentBlockhash in the demand, or an rpc_url"):
            await selling.client.post(PURCHASE, auth=auth_of(world))

    assert world.received() == 0
