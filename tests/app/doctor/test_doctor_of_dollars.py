"""The doctor names each dollar token that has left its peg, because such a token sets no price."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.config.groups import Config
from mintscope.app.doctor.chain import check_dollars
from mintscope.app.doctor.chain import dollar_findings as findings
from mintscope.app.doctor.finding import Level
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import NewSlot
from mintscope.solana.blocks import DOLLARS, PYUSD, USD1, USDC, USDT
from support.scenes.stores import market_in

TIME: Final = UnixS(1_800_000_000)
FOLLOWED: Final = (USDC, USDT, PYUSD, USD1)


def reported(prices: Mapping[Mint, float]) -> list[tuple[Level, str]]:
    return [(one.level, one.what) for one in findings(prices, DOLLARS)]


def test_dollars_on_their_peg_are_fine() -> None:
    prices = {USDC: 1.0, USDT: 0.9995, PYUSD: 1.0005, USD1: 1.009}
    assert reported(prices) == [
        (Level.OK, "dollars: the 4 that traded lately are within 1 % of their median")
    ]


@pytest.mark.parametrize(("price", "where"), [(0.88, "12.0 % below"), (1.03, "3.0 % above")])
def test_a_dollar_that_left_its_peg_is_named(price: float, where: str) -> None:
    prices = {USDC: 1.0, USDT: 1.0, PYUSD: 1.0, USD1: price}
    (found,) = findings(prices, DOLLARS)

    assert found.level is Level.WARN
    assert found.what == f"dollars: {USD1} is {where} the median of all"
    assert "prices nothing" in found.fix


def test_a_single_dollar_is_too_few_to_judge() -> None:
    ((level, what),) = reported({USDC: 0.5})
    assert level is Level.OK
    assert "too few" in what


def traded(prices: Mapping[Mint, float]) -> list[PricedSwap]:
    return [
        PricedSwap(mint, index, 0, -1, 0, True, 10, price, price / 150)  # noqa: FBT003
        for index, (mint, price) in enumerate(prices.items())
    ]


async def fill(folder: Path, prices: Mapping[Mint, float]) -> None:
    async with market_in(folder) as market:
        await market.store.start(mints=list(FOLLOWED), follows_files=False)
        header = SlotHeader(Slot(5), Slot(4), "five", TIME)
        await market.store.write([NewSlot(header, traded(prices))])


def test_the_prices_of_dollars_are_read_from_the_market(tmp_path: Path) -> None:
    prices = {USDC: 1.0, USDT: 1.0, PYUSD: 1.0, USD1: 0.95}
    asyncio.run(fill(tmp_path, prices))
    (found,) = check_dollars(Config(data_dir=tmp_path))

    assert found.what == f"dollars: {USD1} is 5.0 % below the median of all"


def test_a_missing_market_has_no_findings_of_dollars(tmp_path: Path) -> None:
    assert list(check_dollars(Config(data_dir=tmp_path))) == []
