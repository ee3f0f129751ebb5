"""An api process is not ready while its list is loaded for the first time."""

from pathlib import Path

import pytest

from mintscope.base.clock import ManualClock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Slot, UnixMs, UnixS
from mintscope.core.market.engine.live import LiveMarket
from mintscope.core.market.log import PricedSwap, SlotHeader
from mintscope.core.market.rate_age import RATE_LATE_S
from mintscope.core.market.store import NewSlot
from mintscope.edges.follow.follower import Follower
from mintscope.edges.follow.lister import Lister
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import execute_in
from support.scenes.stores import market_in

START = 1_700_000_000


class Ended(Exception):
    """Raised where the lister would wait."""


async def end() -> None:
    raise Ended


async def test_the_list_is_not_ready_until_it_is_loaded(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:2], follows_files=False)
        lister = Lister(market.lists, ManualClock(UnixMs(START * 1_000)), wait=end)
        with pytest.raises(ServiceUnavailable, match="being loaded"):
            await lister.expect_loaded()
        with pytest.raises(Ended):
            await lister.run()
        await lister.expect_loaded()
        assert lister.newest() is not None


async def test_a_list_that_cannot_be_read_holds_up_nothing(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:2], follows_files=False)
        execute_in("sqlite", tmp_path, "DROP TABLE mint_fact")
        lister = Lister(market.lists, ManualClock(UnixMs(START * 1_000)), wait=end)
        with pytest.raises(Ended):
            await lister.run()
        await lister.expect_loaded()
        with pytest.raises(ServiceUnavailable, match="being loaded"):
            lister.newest()


async def test_a_process_says_that_prices_stand_still(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:1], follows_files=False)
        follower = Follower(market.reader, LiveMarket(3), ManualClock(UnixMs(START * 1_000)))
        await follower.catch_up()
        for slot, rated_at in ((1, 1), (RATE_LATE_S + 1, 1), (RATE_LATE_S + 2, None)):
            await follower.expect_rate()
            time = UnixS(START + slot)
            rated = None if rated_at is None else UnixS(START + rated_at)
            header = SlotHeader(Slot(slot), Slot(0), f"{slot}", time, rated and 150.0, rated)
            swaps = [PricedSwap(MINTS[0], 0, 0, -1, 0, True, 10, 1.0, 0.01, "pool")]  # noqa: FBT003
            await market.store.write([NewSlot(header, swaps)])
            await follower.catch_up()
        with pytest.raises(ServiceUnavailable, match=f"{RATE_LATE_S + 1} s ago: prices stand"):
            await follower.expect_rate()
