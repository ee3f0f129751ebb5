"""A backup and a restore by docs/operating/back-up.md, with purchases before and after both."""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from paying_chain import RICH, Chain, chain_running
from selling_service import PATIENT, Manner, ask_books, config_of, seller_running
from shopping import CREDITS, TIMEOUT_S, Paid, Shopper, redeem, send
from solders.keypair import Keypair
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.app.config.groups import Config
from mintscope.app.payments import open_sales
from mintscope.app.stores.stores import open_market, open_money
from mintscope.kit.clock import SystemClock
from support.fakes.reports import TRACKED
from support.processes.processes import running
from support.scenes.payments.selling_api import decoded
from support.scenes.service import bearer
from support.scenes.stores import PEPPER

pytestmark = pytest.mark.process

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "operating" / "back-up.md"
REPORT: Final = f"/v1/token/{TRACKED}"
KEY: Final = "a-key-of-the-buyer-"
HASTY: Final = Manner(patience_s=0.05)
LATE_MS: Final = 1_500
DURING: Final = 6  # purchases while the copy is made
PRICE: Final = 25_000
NEWER_MIN: Final = 5  # purchases that no copy can have
CREDITS_SOLD: Final = (
    "SELECT coalesce(sum(value), 0) FROM operation_hour WHERE series = 'credits_sold'"
)
POLL_S: Final = 0.1
POLLS_MAX: Final = 1_200


@dataclass(frozen=True)
class Town:
    """A devchain, the folder of a service that sells on it, and a buyer."""

    chain: Chain
    folder: Path
    buyer: Shopper

    @property
    def config(self) -> Config:
        return config_of(self.folder, self.chain.url)


@dataclass(frozen=True, kw_only=True)
class Sold:
    """Payments before the backup and after it, named by the way their buyers get the credits."""

    before: Paid
    with_key: list[Paid]
    by_wallet: Paid
    adopted: Paid
    refunded: Paid


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    with chain_running(buyers={"buyer": RICH}) as chain:
        async with httpx.AsyncClient(base_url=chain.url) as rpc:
            buyer = Shopper(chain.genesis.key("buyer"), chain.genesis, rpc)
            town = Town(chain, folder, buyer)
            async with open_market(town.config) as market:  # ingest has started once
                await market.store.start(mints=[TRACKED], follows_files=False)
            yield town


def back_up(folder: Path) -> None:
    """Run the backup command of back-up.md on *folder*, while the service uses it."""
    _run(folder, *_command_of_page("backup"))


def restore(folder: Path) -> None:
    """Delete every file of *folder*, then run the restore command of back-up.md."""
    for lost in folder.iterdir():
        lost.unlink()
    command, _ = _command_of_page("restore")
    _, _, copies = _command_of_page("backup")
    (copy,) = (folder.parent / copies).glob("mintscope-*")
    _run(folder, command, str(copy))


def _command_of_page(command: str) -> list[str]:
    found = re.search(rf"^mintscope ({command} .+)", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def _run(folder: Path, *command: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        ran = CliRunner().invoke(app, command, env={"MINTSCOPE_DATA_DIR": str(folder)})
    assert ran.exit_code == 0, ran.output


async def claim(shop: httpx.AsyncClient, paid: Paid, wallet: Keypair) -> httpx.Response:
    """Request the credits of *paid* with the wallet that paid."""
    assert paid.answer is not None
    purchase = decoded(paid.answer, "payment-response")["transaction"]
    asked = {"purchase": purchase, "wallet": str(wallet.pubkey())}
    text = (await shop.post("/v1/credits/rotate/challenge", json=asked)).json()["data"]["challenge"]
    signed = {"challenge": text, "signature": str(wallet.sign_message(text.encode()))}
    return await shop.post("/v1/credits/rotate", json=asked | signed)


async def left(shop: httpx.AsyncClient, token: str | None) -> int:
    """Use a credit of *token*; return the balance before this use."""
    assert token is not None
    used = await shop.get(REPORT, headers=bearer(token))
    assert used.is_success, used.text
    return int(used.headers["x-credits-remaining"]) + 1


def environment(folder: Path, chain: Chain) -> Mapping[str, str]:
    """Return the environment variables for an operator's commands."""
    genesis = chain.genesis
    return {
        "MINTSCOPE_DATA_DIR": str(folder),
        "MINTSCOPE_CREDITS__PEPPER": PEPPER.hex(),
        "MINTSCOPE_CHAIN__RPC_URL": chain.url,
        "MINTSCOPE_PAYMENTS__ENABLED": "true",
        "MINTSCOPE_PAYMENTS__ASSET": str(genesis.mint),
        "MINTSCOPE_PAYMENTS__PAY_TO": str(genesis.treasury.pubkey()),
        "MINTSCOPE_PAYMENTS__FEE_PAYER_KEY": str(genesis.fee_payer),
    }


async def sales(town: Town, *words: str) -> Any:
    """Run `mintscope sales` with *words* and `--json`, as an operator does; return the output."""
    return json.loads(await asyncio.to_thread(output_of, town, "sales", *words, "--json"))


def output_of(town: Town, *words: str) -> str:
    """Run a command in a process of its own; return its output."""
    with running(run_command, environment(town.folder, town.chain), words) as (ended, _):
        exit_code, output, everything = ended
    assert exit_code == 0, everything
    return str(output)


def run_command(tells: Connection, variables: Mapping[str, str], words: Sequence[str]) -> None:
    """Run `mintscope` with *words*; send its exit code, its output, and that with errors."""
    done = CliRunner().invoke(app, words, env=variables)
    tells.send((done.exit_code, done.stdout, done.output))


async def orphans(town: Town, count: int) -> None:
    """Wait until audits have found *count* orphans, and expect no more."""
    for _ in range(POLLS_MAX):
        if ask_books(town.folder, "SELECT count(*) FROM orphan") >= count:
            break
        await asyncio.sleep(POLL_S)
    found = await sales(town, "orphans")
    assert len(found) == count, found


def signature_of(paid: Paid) -> str:
    assert paid.answer is not None
    return str(decoded(paid.answer, "payment-response")["transaction"])


async def all_final(chain: Chain, count: int) -> None:
    """Wait until *count* payments are final."""
    for _ in range(POLLS_MAX):
        options = {"commitment": "finalized", "limit": 1_000}
        tokens = str(chain.genesis.treasury_tokens)
        if len(chain.call("getSignaturesForAddress", tokens, options)) >= count:
            return
        await asyncio.sleep(POLL_S)
    pytest.fail(f"expected {count} payments to become final")


@asynccontextmanager
async def served(town: Town, manner: Manner) -> AsyncIterator[httpx.AsyncClient]:
    """Run the service, and kill it at the end of the block."""
    with seller_running(town.folder, town.chain.url, manner) as seller:
        async with httpx.AsyncClient(base_url=seller.url, timeout=TIMEOUT_S) as shop:
            yield shop
        seller.process.kill()


async def sell(town: Town) -> Sold:
    """Buy before, during and after a backup of the service; return the purchases."""
    buyer = town.buyer
    async with served(town, PATIENT) as shop:
        before = await buyer.buy(shop, KEY + "before")
        copying = asyncio.create_task(asyncio.to_thread(back_up, town.folder))
        during = await asyncio.gather(*(buyer.buy(shop, f"{KEY}during-{n}") for n in range(DURING)))
        await copying
        assert await left(shop, before.token) == CREDITS
        sold = Sold(
            before=before,
            with_key=[*during, await buyer.buy(shop, KEY + "after")],
            by_wallet=await buyer.buy(shop, None),
            adopted=await buyer.buy(shop, None),
            refunded=await buyer.buy(shop, KEY + "refunded"),
        )
    async with served(town, HASTY) as shop:
        town.chain.go_wrong(landing={"kind": "late", "ms": LATE_MS})
        pending = await buyer.buy(shop, None)
        assert pending.code == "PAYMENT_PENDING"
        assert pending.answer is not None
        pending.key = pending.answer.headers["idempotency-key"]
        sold.with_key.append(pending)
    town.chain.go_wrong()
    return sold


async def come_back(town: Town, sold: Sold, shop: httpx.AsyncClient) -> None:
    """Let every buyer redeem the credits repeatedly, and strangers send copies of the payments."""
    assert await left(shop, sold.before.token) == CREDITS  # the credit spent after the copy is back
    for each in (*sold.with_key[-2:], sold.refunded):
        stolen = await send(shop, each, key="a-guess-of-a-stranger")
        assert stolen.status_code == 409, stolen.text
    for each in sold.with_key:
        had = each.token
        tokens = set()
        for _ in range(2):
            await redeem(shop, each)
            tokens.add(each.token)
        assert len({had, *tokens} - {None}) == 1
        assert await left(shop, each.token) == CREDITS
    wallet = town.buyer.wallet
    for each in (sold.by_wallet, sold.adopted):
        moved = await claim(shop, each, wallet)
        assert moved.json()["data"]["credits"] == CREDITS
    assert (await claim(shop, sold.by_wallet, wallet)).status_code == 409
    assert (await send(shop, sold.refunded)).status_code == 409


async def test_buyers_after_the_backup_get_their_credits_exactly_once(town: Town) -> None:
    sold = await sell(town)
    count = len(town.buyer.paid)
    await all_final(town.chain, count)
    restore(town.folder)
    known = ask_books(town.folder, "SELECT count(*) FROM payment")

    async with served(town, PATIENT) as shop:
        await orphans(town, count - known)
        sold_before = ask_books(town.folder, CREDITS_SOLD)
        for _ in range(2):
            note = ("--note", "refunded")
            assert await sales(town, "acknowledge", signature_of(sold.refunded), *note)
            (row,) = await sales(town, "adopt", signature_of(sold.adopted))
            assert row["state"] == "issued"
        assert ask_books(town.folder, CREDITS_SOLD) == sold_before + CREDITS
        await come_back(town, sold, shop)
        await orphans(town, 0)

    assert count - known >= NEWER_MIN
    assert len(town.chain.landed()) == count
    assert town.chain.received() == PRICE * count
    assert ask_books(town.folder, "SELECT count(*) FROM payment") == count - 1
    clock, config = SystemClock(), town.config
    async with (
        open_market(config) as market,
        open_money(config, clock) as money,
        open_sales(config, money=money, reader=market.reader, clock=clock) as ours,
    ):
        assert await ours.maintenance.auditor.audit(full=True) == []
        assert await money.books.why_stopped() is None
