"""Runs the part of an api process that reads shards: `python -m bench.whole_market.replica`.

Its arguments are TIMES and the places of the shards, in order.  It has some mints of each shard in
memory, and writes a line to the file TIMES for each slot of each shard: the shard, the slot, and
the time from which its reports included this slot.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, TextIO

import uvloop
from typing_extensions import override

from bench.slots import Slots
from bench.whole_market.shard_tailers import ShardTailers
from bench.whole_market.writer import MINTS, READY, opened
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import InsufficientData
from mintscope.kit.machine import expect_batches
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import LogTailer, Observer
from mintscope.market.log import Appended, Event

LIVE_MINTS: Final = 5_000
READ_MINTS: Final = 2_000  # the number of mints in memory, the most traded ones


class Times(Observer):
    """Writes a line to *file* for each slot of the shard *number*, when its events are applied."""

    def __init__(self, number: int, file: TextIO) -> None:
        self._number = number
        self._file = file
        self._slots: list[int] = []

    @override
    def note(self, event: Event) -> None:
        if isinstance(event, Appended):
            self._slots.append(event.header.slot)

    @override
    def note_restart(self) -> None:
        self._slots.clear()

    @override
    def flush(self) -> None:
        at_s = time.monotonic()
        for slot in self._slots:
            self._file.write(f"{self._number} {slot} {at_s}\n")
        self._slots.clear()
        self._file.flush()


async def follow(places: Sequence[str], file: TextIO) -> None:
    """Read the logs of the shards at *places* until cancelled; write a line to *file* per slot."""
    async with AsyncExitStack() as stack:
        followers = []
        for number, place in enumerate(places, 1):
            market = await stack.enter_async_context(opened(place))
            follower = LogTailer(market.reader, LiveMarket(LIVE_MINTS), SystemClock())
            follower.observe(Times(number, file))
            followers.append(follower)
        reports = ShardTailers(followers)
        await reports.catch_up()
        for mint in Slots(MINTS).mints[:READ_MINTS]:
            with suppress(InsufficientData):  # the mint is then in memory, too
                await reports.read(mint)
        expect_batches()
        print(READY, flush=True)
        await reports.run()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as times:
        uvloop.run(follow(sys.argv[2:], times))
