"""The cache of mint numbers is bounded; whatever it drops, swaps keep the right mint."""

from pathlib import Path

import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import NewSlot
from mintscope.market.store import mints as mint_numbers
from support.fakes.made_chain import MINTS
from support.scenes.stores import market_in


def trades(slot: int, mint: Mint) -> NewSlot:
    swap = PricedSwap(mint, 0, 0, -1, 0, is_buy=True, volume=slot, price_usd=1.0, price_sol=0.01)
    header = SlotHeader(Slot(slot), Slot(slot - 1), str(slot), UnixS(1_700_000_000 + slot))
    return NewSlot(header, [swap])


@pytest.mark.parametrize("follows_all", [False, True])
@pytest.mark.parametrize("known_max", [1, 2, 100])
async def test_every_swap_is_logged_with_its_mint(
    known_max: int,
    follows_all: bool,  # noqa: FBT001 - pytest names it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mint_numbers, "KNOWN_MAX", known_max)
    followed = MINTS[:4]
    async with market_in(tmp_path, follows_all=follows_all) as market:
        await market.store.start(mints=followed, follows_files=True)
        for slot in range(1, 25):
            await market.store.write([trades(slot, MINTS[slot % len(MINTS)])])
        for number, mint in enumerate(MINTS):
            loaded = await market.reader.load(mint)
            slots = [slot for slot in range(1, 25) if slot % len(MINTS) == number]
            if mint in followed:
                assert loaded is not None
                assert [one.slot for one in loaded.tail] == slots
            else:
                assert loaded is None


async def test_a_mint_that_an_operator_adds_is_logged_from_then_on(tmp_path: Path) -> None:
    mint = MINTS[-1]
    async with market_in(tmp_path) as market:
        await market.store.start(mints=[], follows_files=True)
        await market.store.write([trades(1, mint)])
        await market.tracking.add(mint)
        await market.store.write([trades(2, mint)])
        await market.tracking.remove(mint)
        await market.store.write([trades(3, mint)])
        await market.tracking.add(mint)
        await market.store.write([trades(4, mint)])
        loaded = await market.reader.load(mint)

    assert loaded is not None
    assert [one.slot for one in loaded.tail] == [4]
