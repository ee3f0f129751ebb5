"""A gap in the data of the last day is shown by a check of the api and by `gaps list`."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mintscope.app.api import GAP_SHOWN_S, gap_check
from mintscope.app.cli.app import app
from mintscope.history.mending import settled as settled_after
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot
from mintscope.market.ports import NewSlot
from mintscope.solana.blocks import WSOL, Gap
from mintscope.solana.pace import Pace
from support.scenes.stores import market_in
from support.scenes.traded import new_slot

GAP = Gap(Slot(5), Slot(9), "asked in vain for 120 s")


async def fill(folder: Path, *changes: NewSlot | Gap, follows_files: bool = False) -> None:
    async with market_in(folder) as market:
        await market.store.start(mints=[WSOL], follows_files=follows_files)
        await market.store.write(changes)


def at(slot: int, time: int = 1) -> NewSlot:
    return new_slot(slot, time)


async def ready(folder: Path, slot_s: float | None = 0.2) -> None:
    pace = None if slot_s is None else Pace(slot_s, 170.0)
    async with market_in(folder) as market:
        await gap_check(market.reader, lambda: pace).probe()


async def test_a_gap_of_the_last_day_degrades_the_service(tmp_path: Path) -> None:
    await fill(tmp_path, at(4))
    await ready(tmp_path)
    await fill(tmp_path, GAP, at(10))

    with pytest.raises(ServiceUnavailable, match="slots 5 to 9 are missing: asked in vain"):
        await ready(tmp_path)
    async with market_in(tmp_path) as market:
        assert not gap_check(market.reader, lambda: None).is_vital


@pytest.mark.parametrize("slot_s", [0.1, 0.2, 0.4, 0.8])
async def test_a_gap_older_than_a_day_does_not_degrade_the_service(
    tmp_path: Path, slot_s: float
) -> None:
    day = round(GAP_SHOWN_S / slot_s)
    await fill(tmp_path, GAP, at(9 + day - 1))
    with pytest.raises(ServiceUnavailable):
        await ready(tmp_path, slot_s)

    await fill(tmp_path, at(9 + day))
    await ready(tmp_path, slot_s)


async def test_a_gap_is_reported_while_the_pace_is_unknown(tmp_path: Path) -> None:
    await fill(tmp_path, GAP, at(10_000_000))
    with pytest.raises(ServiceUnavailable):
        await ready(tmp_path, None)


async def test_a_gap_does_not_degrade_a_service_that_reads_block_files(tmp_path: Path) -> None:
    await fill(tmp_path, GAP, at(10), follows_files=True)
    await ready(tmp_path)


@pytest.mark.parametrize("slot_ms", [100, 200, 400, 800])
async def test_a_gap_is_settled_after_a_minute_of_chain_time(tmp_path: Path, slot_ms: int) -> None:
    """A minute of swaps sets the rate of SOL, so a gap affects the rate for a minute."""
    slots = range(1, 100_000 // slot_ms)
    await fill(tmp_path, *(at(slot, slot * slot_ms // 1_000) for slot in slots))
    async with market_in(tmp_path) as market:
        settled = await settled_after(market.reader, Slot(9))

    assert settled is not None
    assert settled - 9 == pytest.approx(60_000 / slot_ms, rel=0.05)


async def test_no_gap_is_settled_while_the_pace_is_not_known(tmp_path: Path) -> None:
    await fill(tmp_path, at(4), GAP, at(10_000))
    async with market_in(tmp_path) as market:
        assert await settled_after(market.reader, Slot(9)) is None


def test_the_command_lists_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    asyncio.run(fill(tmp_path, GAP, at(10)))
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))

    listed = CliRunner().invoke(app, ["gaps", "list", "--json"])

    assert json.loads(listed.stdout) == [
        {
            "first": 5,
            "last": 9,
            "slots": 5,
            "reason": "asked in vain for 120 s",
            "attempts": 0,
            "given_up": False,
            "words": "",
        }
    ]
