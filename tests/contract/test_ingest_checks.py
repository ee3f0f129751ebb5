"""Every api shows the failing checks of ingest, on both engines."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.stores.market import Market
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from support.scenes.market_engines import MARKET_ENGINES, market_of

NOW = UnixMs(1_800_000_000_000)


@pytest.fixture(params=MARKET_ENGINES)
async def market(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
    async with market_of(request.param, tmp_path) as opened:
        await opened.store.start(mints=[], follows_files=False)
        yield opened


async def test_a_failing_check_of_ingest_is_read_until_it_passes(market: Market) -> None:
    written = market.ingest_checks
    read = market.failing_ingest_checks
    await read.expect_none()
    await written.keep({"venues": "b is silent"}, UnixMs(NOW + 1))
    await written.keep({"node": "it stands still", "venues": "b is silent"}, UnixMs(NOW + 5))
    assert await read.failing() == {"venues": "b is silent", "node": "it stands still"}
    with pytest.raises(ServiceUnavailable, match=r"^b is silent; it stands still$"):
        await read.expect_none()

    await written.keep({"node": "it is behind"}, UnixMs(NOW + 10))
    assert await read.failing() == {"node": "it is behind"}
    await written.keep({}, UnixMs(NOW + 15))
    assert await read.failing() == {}
    await read.expect_none()
