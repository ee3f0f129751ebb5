"""Unmodified third-party tools and clients find, check and use the service."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import httpx
import pytest
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

from mintscope.solana.blocks import USDC
from support.fakes.reports import TRACKED
from support.processes.listening import listening
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import PURCHASE, opened
from support.scenes.payments.shop_at_its_address import shop_at_its_address

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / "tests" / "browser"
NODE: Final = Path(sys.executable).parent / "node"
PAID: Final = {("GET", "/v1/token/{tokenAddress}"), ("POST", "/v1/credits/purchase")}
# The operations that these clients pay for; an empty page is free.
TOKEN: Final = "GET /v1/token/{tokenAddress}"
READ: Final = (
    TOKEN, f"{TOKEN}/backtest", f"{TOKEN}/candles", f"{TOKEN}/holders", f"{TOKEN}/indicators",
    f"{TOKEN}/pools",
)  # fmt: skip
PAID_HEADER: Final = "payment-response"
BUNDLE_ATOMS, REQUEST_ATOMS = 25_000, 2_500

pytestmark = pytest.mark.skipif(
    not (TOOLS / "node_modules" / "@agentcash").exists(), reason="npm installed nothing"
)


async def node(*words: str, **environment: str) -> str:
    """Run Node with the arguments *words* in the folder of the tools; return its output.

    The output goes to a file: a Node program that exits loses output beyond 64 KiB in a pipe.
    """
    with TemporaryFile() as output:
        running = await asyncio.create_subprocess_exec(
            str(NODE),
            *words,
            cwd=TOOLS,
            env={"PATH": os.defpath, "REDOCLY_TELEMETRY": "off"} | environment,
            stdout=output,
            stderr=subprocess.PIPE,
        )
        _, trouble = await asyncio.wait_for(running.communicate(), 100)
        output.seek(0)
        printed = output.read().decode()
    assert running.returncode == 0, printed + trouble.decode()
    return printed


async def test_redocly_finds_no_error(world: World, tmp_path: Path) -> None:
    async with opened(world) as shop:
        document = tmp_path / "openapi.json"
        document.write_bytes((await shop.client.get("/openapi.json")).content)

    reported = await node(
        "node_modules/@redocly/cli/bin/cli.js", "lint", str(document), "--format", "json"
    )

    assert json.loads(reported)["totals"]["errors"] == 0


async def test_the_prober_of_x402scan_finds_and_classifies_every_paid_route(world: World) -> None:
    prober = "node_modules/@agentcash/discovery/bin/discovery.js"
    async with shop_at_its_address(world) as (origin, shop):
        found = json.loads(await node(prober, "discover", origin, "--json"))
        sold = (await shop.client.get("/.well-known/x402")).json()["endpoints"]
        # One process checks all: each start of the prober takes half a second of processor time.
        lines = await node("check_endpoints.mjs", *(each["url"] for each in sold))
        checked = [json.loads(line) for line in lines.splitlines()]

    paid = {(each["method"], each["path"]) for each in sold}
    classified = {
        (each["method"], each["path"])
        for each in found["resources"]
        if each.get("authHint") == "paid"
    }
    assert paid >= PAID
    assert classified == paid
    for each in found["resources"]:
        if (each["method"], each["path"]) in paid:
            assert each["protocols"] == ["x402"]
            assert each["priceHint"].endswith("USD")
    assert [each for each in found["warnings"] if each["severity"] == "error"] == []
    assert len(checked) == len(paid)
    for each in checked:
        assert each["found"] is True, each
        assert "x402" in json.dumps(each["advisories"]), each
        assert [one for one in each["warnings"] if one["severity"] == "error"] == [], each


@pytest.mark.usefixtures("official_client")
async def test_the_official_python_client_pays_in_usdc_without_any_setting(
    world: World,
) -> None:
    world.fund("buyer", usdc_atoms=10**6)
    selling = shop_at_its_address(world, also=[world.usdc_terms])
    async with selling as (origin, shop), listening(world.node) as rpc_url:

        async def visit() -> list[httpx.Response]:
            payer = x402Client()
            register_exact_svm_client(payer, KeypairSigner(world.buyer), rpc_url=rpc_url)
            async with x402HttpxClient(payer, base_url=origin, timeout=30) as http:
                return [await http.get(f"/v1/token/{TRACKED}"), await http.post(PURCHASE)]

        sold = (await shop.client.get("/.well-known/x402")).json()["payment"]
        # The client calls its node synchronously, so it needs its own thread and loop.
        answers = await asyncio.to_thread(lambda: asyncio.run(visit()))

    assert [each["asset"] for each in sold] == [world.terms.asset, USDC]
    assert [answer.status_code for answer in answers] == [200, 201]
    assert answers[1].json()["data"]["pricePaid"] == BUNDLE_ATOMS
    assert world.received(world.usdc_terms) == REQUEST_ATOMS + BUNDLE_ATOMS
    assert world.received() == 0


@pytest.mark.usefixtures("official_client")
async def test_the_official_python_client_needs_only_an_address(world: World) -> None:
    async with shop_at_its_address(world) as (origin, _), listening(world.node) as rpc_url:

        async def visit() -> dict[str, httpx.Response]:
            async with httpx.AsyncClient() as http:
                sold = (await http.get(f"{origin}/.well-known/x402")).json()
            payer = x402Client()
            register_exact_svm_client(payer, KeypairSigner(world.buyer), rpc_url=rpc_url)
            allowed: list[SpendControlAsset] = [
                {
                    "network": each["network"],
                    "asset": each["asset"],
                    "max_amount_per_payment": "1000000",
                }
                for each in sold["payment"]
            ]
            payer.set_spend_controls({"allowed_assets": allowed})
            async with x402HttpxClient(payer, timeout=30) as http:
                return {
                    f"{each['method']} {each['path']}": await http.request(
                        each["method"], each["url"]
                    )
                    for each in sold["endpoints"]
                }

        # The client calls its node synchronously, so it needs its own thread and loop.
        answers = await asyncio.to_thread(lambda: asyncio.run(visit()))

    bought = answers["POST /v1/credits/purchase"]
    read = answers["GET /v1/token/{tokenAddress}"]
    assert (bought.status_code, read.status_code) == (201, 200)
    assert bought.json()["data"]["token"].startswith("svc_credit_")
    assert {
        each
        for each, answer in answers.items()
        if answer.is_success and PAID_HEADER in answer.headers
    } == {*READ, "POST /v1/credits/purchase"}
    assert world.received() == BUNDLE_ATOMS + len(READ) * REQUEST_ATOMS


async def test_the_official_typescript_client_needs_only_an_address(world: World) -> None:
    async with shop_at_its_address(world) as (origin, _), listening(world.node) as rpc_url:
        reported = await node(
            "buy_with_x402.mjs",
            origin,
            SOLANA_PRIVATE_KEY=str(world.buyer),
            SOLANA_RPC_URL=rpc_url,
        )

    answers = json.loads(reported)
    assert answers["POST /v1/credits/purchase"]["status"] == 201
    assert {answers[each]["status"] for each in READ} == {200}
    assert world.received() == BUNDLE_ATOMS + len(READ) * REQUEST_ATOMS
