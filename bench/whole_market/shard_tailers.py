"""The reports of a market in several shards; only benchmarks use them."""

import asyncio
from collections.abc import Sequence

from mintscope.kit.primitives import Mint, Slot
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.report import PLAIN, ReadReport, ReportKind
from mintscope.market.shard import shard_of


class ShardTailers:
    """The reports of a market in shards, from one log tailer for each shard."""

    def __init__(self, followers: Sequence[LogTailer]) -> None:
        self._followers = followers

    async def run(self) -> None:
        """Read the logs of all shards, independently of each other, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers:
                group.create_task(follower.run())

    async def catch_up(self) -> None:
        """Apply all events of all shards that were committed before this call."""
        await asyncio.gather(*(follower.catch_up() for follower in self._followers))

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:
        """Return the report of *mint* and *kind* after the last applied slot of its shard."""
        return await self._of(mint).read(mint, kind)

    def ready(self, mint: str) -> ReadReport | None:
        """Return the report of *mint* without options; None if the mint is not in memory."""
        return self._of(Mint(mint)).ready(mint)

    def age_ms(self) -> int | None:
        """Return the age of the newest slot in ms, in the shard where it is oldest.

        Return None if a shard has no slot yet.
        """
        ages = [follower.age_ms() for follower in self._followers]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    def folded(self) -> Slot | None:
        """Return the newest slot in the candles of all shards; None if a shard has no candles."""
        slots = [follower.folded() for follower in self._followers]
        known = [slot for slot in slots if slot is not None]
        return min(known) if len(known) == len(slots) else None

    def _of(self, mint: Mint) -> LogTailer:
        return self._followers[shard_of(mint, len(self._followers)) - 1]
