"""docs/clients.md: its programs run as they stand, against a service on the loopback."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mintscope.base.credentials import CredentialKind, is_well_formed
from mintscope.client import errors
from support.fakes import reports
from support.scenes.payments.payment_shop import listening
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, opened
from support.scenes.whole_report import whole_report

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(places: dict[str, str]) -> dict[str, Any]:
    """Run the programs of the page one after the other; return what they leave behind."""
    left: dict[str, Any] = {}
    for program in PROGRAMS:
        text = program
        for written, meant in places.items():
            text = text.replace(written, meant)
        exec(compile(text, "clients.md", "exec"), left)
    return left


async def reads(shop: SellingApi, world: World, folder: Path) -> dict[str, Any]:
    wallet = folder / "id.json"
    wallet.write_text(world.buyer.to_json())
    token = await shop.service.issue(10)
    async with listening(shop.service.app) as url, listening(world.node) as rpc:
        places = {
            "https://api.example": url,
            "https://your-node.example": rpc,
            "svc_credit_...": token,
            "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v": world.terms.asset,
            "THE_SELLERS_WALLET": world.terms.pay_to,
            'Path("id.json")': f"Path({str(wallet)!r})",
        }
        return await asyncio.to_thread(run, places)


async def test_the_programs_of_the_page_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with opened(world, patience_s=5) as shop:
        left = await reads(shop, world, tmp_path)

    assert len(PROGRAMS) == 4
    assert left["left"] == 9
    assert left["report"].token == reports.TRACKED
    assert left["budget"].spent == 2
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, left["bought"].token)
    assert left["wallet"].limit.atoms_in_all == 1_000_000


def test_every_exception_of_a_kind_is_named() -> None:
    kinds = {each.__name__ for each in errors.ClientError.__subclasses__()}
    kinds |= {each.__name__ for each in errors.RefusedError.__subclasses__()}

    assert kinds - set(re.findall(r"`(\w+)`", PAGE)) == set()
