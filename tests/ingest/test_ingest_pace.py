"""Ingest measures the pace of the chain from the blocks of the log, also after a restart."""

from pathlib import Path

import pytest

from mintscope.ingest.pipeline import Ingest
from mintscope.ingest.slots import Slots
from mintscope.kit.clock import ManualClock
from mintscope.kit.metrics import SLOT_SECONDS
from mintscope.kit.primitives import UnixMs
from mintscope.solana.blocks import Block
from support.fakes.made_chain import START, ListSource, block, decode_made
from support.scenes.stores import market_in


def chain(slot_ms: int, seconds: int) -> list[Block]:
    """Return the blocks of *seconds* seconds; every eighth slot is skipped."""
    made: list[Block] = []
    for slot in range(1, seconds * 1_000 // slot_ms):
        if slot % 8:
            time = START + slot * slot_ms // 1_000
            made.append(block(slot, made[-1] if made else None, time=time))
    return made


@pytest.mark.parametrize("slot_ms", [100, 200, 400, 800])
async def test_the_pace_is_measured_and_known_after_a_restart(tmp_path: Path, slot_ms: int) -> None:
    async with market_in(tmp_path) as market:
        clock = ManualClock(UnixMs(START * 1_000))
        source = ListSource(chain(slot_ms, 100))
        await Ingest(source=source, store=market.store, decode=decode_made, clock=clock).run()
        shown = SLOT_SECONDS._value.get()  # noqa: SLF001 - it has no other reader
    assert shown == pytest.approx(slot_ms / 1_000, rel=0.05)

    async with market_in(tmp_path) as market:
        restarted = Slots(await market.store.start(mints=[], follows_files=False), decode_made)
    assert restarted.pace is not None
    assert restarted.pace.slot_s == pytest.approx(slot_ms / 1_000, rel=0.05)
