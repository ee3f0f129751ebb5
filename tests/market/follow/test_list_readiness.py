"""An api process is not ready while its list is loaded for the first time."""

from pathlib import Path

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import NewSlot
from mintscope.market.quotes import RATE_LATE_S
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import execute_in
from support.scenes.stores import market_in

START = 1_700_000_000


class Ended(Exception):
    """Raised when the list cache would wait, to end its `run`."""


async def end() -> None:
    raise Ended


async def test_the_list_is_not_ready_until_it_is_loaded(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:2], follows_files=False)
        lister = ListCache(market.lists, ManualClock(UnixMs(START * 1_000)), wait=end)
        with pytest.raises(ServiceUnavailable, match="being loaded"):
            await lister.expect_loaded()
        with pytest.raises(Ended):
            await lister.run()
        await lister.expect_loaded()
        assert lister.newest() is not None


async def test_a_list_that_cannot_be_read_does_not_prevent_readiness(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:2], follows_files=False)
        execute_in("sqlite", tmp_path, "DROP TABLE mint_fact")
        lister = ListCache(market.lists, ManualClock(UnixMs(START * 1_000)), wait=end)
        with pytest.raises(Ended):
            await lister.run()
        await lister.expect_loaded()
        with pytest.raises(ServiceUnavailable, match="being loaded"):
            lister.newest()


async def test_the_check_fails_once_the_rate_of_sol_is_late(tmp_path: Path) -> None:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:1], follows_files=False)
        follower = LogTailer(market.reader, LiveMarket(3), ManualClock(UnixMs(START * 1_000)))
        await follower.catch_up()
        for slot, rated_at in ((1, 1), (RATE_LATE_S + 1, 1), (RATE_LATE_S + 2, None)):
            await follower.expect_rate()
            time = UnixS(START + slot)
            rated = None if rated_at is None else UnixS(START + rated_at)
            header = SlotHeader(Slot(slot), Slot(0), f"{slot}", time, rated and 150.0, rated)
            swaps = [PricedSwap(MINTS[0], 0, 0, -1, 0, True, 10, 1.0, 0.01, "pool")]  # noqa: FBT003
            await market.store.write([NewSlot(header, swaps)])
            await follower.catch_up()
        with pytest.raises(ServiceUnavailable, match=f"{RATE_LATE_S + 1} s ago, so prices"):
            await follower.expect_rate()
