"""A reader of the market waits at most for its time limit."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.sql.database import Database
from mintscope.market.store.log_reader import MarketReading


class StuckAccess:
    """A `DatabaseAccess` whose database never answers."""

    async def run(self, _work: Callable[[Database], Any]) -> Any:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("verb", ["run", "in_snapshot"])
async def test_a_read_that_takes_too_long_raises_service_unavailable(verb: str) -> None:
    reading = MarketReading(StuckAccess(), timeout_s=0.0)
    with pytest.raises(ServiceUnavailable, match="try again"):
        await getattr(reading, verb)(lambda _: None)
