"""`mintscope buy` with a wallet file, against a shop and a chain on the loopback address."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from typer.testing import CliRunner, Result

from mintscope.app.cli.buy import app
from mintscope.kit.credentials import CredentialKind, is_well_formed
from support.processes.listening import listening
from support.scenes.payments.payment_shop import Shop
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import opened

MINT = "So11111111111111111111111111111111111111112"


def options(world: World, folder: Path, **changes: str) -> list[str]:
    wallet = folder / "id.json"
    wallet.write_text(world.buyer.to_json())
    given = {
        "url": "http://127.0.0.1:1",
        "rpc": "http://127.0.0.1:1",
        "wallet": str(wallet),
        "asset": world.terms.asset,
        "pay-to": world.terms.pay_to,
        "max": "0.5",
    } | changes
    return ["buy", *(part for name, value in given.items() for part in (f"--{name}", value))]


async def run(arguments: list[str]) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def test_credits_and_a_report_are_bought(world: World, tmp_path: Path) -> None:
    shop = Shop(world.facilitator(patience_s=5))
    async with listening(shop.app) as url, listening(world.node) as rpc:
        given = options(world, tmp_path, url=url, rpc=rpc)
        bought = await run([*given, "credits", "10"])
        report = await run([*given, "request", MINT])
        too_much = await run([*given[:-1], "0.001", "request", MINT])

    assert bought.exit_code == report.exit_code == 0
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.stdout.strip())
    assert "10 credits for 22500 atoms" in bought.stderr
    assert json.loads(report.stdout) == {"price": 1}
    assert too_much.exit_code == 1
    assert "at most 1000 atoms a payment; was 2500" in too_much.stderr


async def test_a_buyer_chooses_the_token_of_the_payment(world: World, tmp_path: Path) -> None:
    world.fund("buyer", usdc_atoms=10**6)
    async with (
        opened(world, also=[world.usdc_terms]) as shop,
        listening(shop.service.app) as url,
        listening(world.node) as rpc,
    ):
        for asset in (world.terms.asset, "usdc"):
            given = options(world, tmp_path, url=url, rpc=rpc, asset=asset)
            bought = await run([*given, "credits", "10"])
            assert bought.exit_code == 0, bought.stderr

    assert world.received() == world.received(world.usdc_terms) == 25_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asset": "nonsense"}, "expected an address"),
        ({"pay-to": "0" * 44}, "expected an address"),
        ({"max": "lots"}, "expected a number of whole tokens"),
        ({"max": "0"}, "expected a number of whole tokens"),
        ({"max": "NaN"}, "expected a number of whole tokens"),
        ({"max": "1e30"}, "expected a number of whole tokens"),
        ({"max": "1e999999"}, "expected a number of whole tokens"),
        ({"wallet": "/nowhere/id.json"}, "expected a Solana keypair file"),
    ],
)
async def test_bad_input_has_one_message(
    world: World, tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    result = await run([*options(world, tmp_path, **changes), "credits", "10"])

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("content", ["", "[1, 2]", "[-1]", "[999]", '"text"', "{}", "[1.5]"])
async def test_a_broken_wallet_is_refused(world: World, tmp_path: Path, content: str) -> None:
    given = options(world, tmp_path)
    (tmp_path / "id.json").write_text(content)
    result = await run([*given, "credits", "10"])

    assert result.exit_code == 2
    assert "keypair file" in result.stderr


class Spoils:
    """Passes requests to the shop, but answers each payment with a 429 and Retry-After: 3600."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop.app
        self.paid: list[bytes] = []
        self.is_spoiling = True
        self.on_paid: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        payment = dict(scope["headers"]).get(b"payment-signature")
        if payment is None or not self.is_spoiling:
            await self.shop(scope, receive, send)
            return
        self.paid.append(payment)
        await self.shop(scope, receive, _nowhere)
        self.on_paid()
        busy = Response("{}", 429, {"Retry-After": "3600"})
        await busy(scope, receive, send)


async def _nowhere(_: Message) -> None:
    pass


async def test_a_later_run_completes_a_pending_payment_without_paying_twice(
    world: World, tmp_path: Path
) -> None:
    shop = Spoils(Shop(world.facilitator(patience_s=5)))
    async with listening(shop) as url, listening(world.node) as rpc:
        given = options(world, tmp_path, url=url, rpc=rpc)
        pending = await run([*given, "credits", "10"])
        shop.is_spoiling = False
        other = await run([*given, "request", MINT])
        bought = await run([*given, "credits", "10"])

    assert pending.exit_code == 1
    assert "run this command again" in pending.stderr
    assert str(tmp_path / "id.json.payments") in pending.stderr
    assert other.exit_code == bought.exit_code == 0
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.stdout.strip())
    assert world.received() == 22_500 + 2_500
    assert list((tmp_path / "id.json.payments").iterdir()) == []


@pytest.mark.process
async def test_credits_paid_by_a_killed_run_are_delivered_to_the_next_run(
    world: World, tmp_path: Path
) -> None:
    shop = Spoils(Shop(world.facilitator(patience_s=5)))
    async with listening(shop) as url, listening(world.node) as rpc:
        given = [*options(world, tmp_path, url=url, rpc=rpc), "credits", "10"]
        command = [sys.executable, "-m", "mintscope", *given]
        killed = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        shop.on_paid = killed.kill
        async with asyncio.timeout(30):
            assert await killed.wait() == -signal.SIGKILL
        shop.is_spoiling = False
        bought = await run(given)

    assert bought.exit_code == 0
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.stdout.strip())
    assert len(shop.paid) == 1
    assert world.received() == 22_500


async def test_a_journal_that_is_not_a_folder_is_refused_before_anything_is_paid(
    world: World, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    shop = Shop(world.facilitator(patience_s=5))
    async with listening(shop.app) as url, listening(world.node) as rpc:
        given = options(world, tmp_path, url=url, rpc=rpc, journal=str(taken))
        refused = await run([*given, "credits", "10"])
        received = world.received()
        taken.unlink()
        bought = await run([*given, "credits", "10"])

    assert received == 0
    assert refused.exit_code == 1
    assert "expected a folder for payments on their way" in refused.stderr
    assert bought.exit_code == 0
    assert world.received() == 22_500


async def test_a_service_that_does_not_answer_is_exit_1_without_a_traceback(
    world: World, tmp_path: Path
) -> None:
    result = await run([*options(world, tmp_path, url="http://127.0.0.1:1"), "request", MINT])

    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
