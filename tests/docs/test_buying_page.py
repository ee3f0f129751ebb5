"""The programs of docs/buying.md run as written, against a shop and a chain on this machine."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mintscope.kit.credentials import CredentialKind, is_well_formed
from support.fakes.reports import TRACKED
from support.processes.listening import listening
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, opened

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "buying.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(places: dict[str, str]) -> dict[str, Any]:
    """Run the programs of the page, one after the other; return their variables.

    places   the replacement of each placeholder
    """
    left: dict[str, Any] = {}
    for program in PROGRAMS:
        text = program
        for written, meant in places.items():
            text = text.replace(written, meant)
        exec(compile(text, "buying.md", "exec"), left)
    return left


async def buys(shop: SellingApi, world: World, folder: Path) -> dict[str, Any]:
    wallet = folder / "id.json"
    wallet.write_text(world.buyer.to_json())
    async with listening(shop.service.app) as url, listening(world.node) as rpc:
        places = {
            "https://api.example": url,
            "https://your-node.example": rpc,
            "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v": world.terms.asset,
            "THE_SELLERS_WALLET": world.terms.pay_to,
            'Path("id.json")': f"Path({str(wallet)!r})",
            'Path("payments")': f"Path({str(folder / 'payments')!r})",
            "So11111111111111111111111111111111111111112": TRACKED,
        }
        return await asyncio.to_thread(run, places)


async def keep_offering(world: World) -> None:
    """Refresh the blockhash of 402 answers until cancelled, as a running service does."""
    while True:
        await world.chains[-1].refresh_offer()
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("official_client")
async def test_the_programs_of_the_page_run(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(world, patience_s=5) as shop:
        refreshing = asyncio.create_task(keep_offering(world))
        left = await buys(shop, world, tmp_path)
        refreshing.cancel()

    assert len(PROGRAMS) == 6
    assert left["report"]["token"] == TRACKED
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, left["token"])
    assert left["answer"].status_code == 200
    assert left["official"]["token"] == TRACKED
    assert left["wallet"].limit.spent == 25_000 + 3 * 2_500
    assert world.received() == 25_000 + 4 * 2_500
    assert list(world.ledger().values()) == [9]
    assert list((tmp_path / "payments").iterdir()) == []
    assert TRACKED in capsys.readouterr().out
