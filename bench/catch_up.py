"""Measures the blocks a second that ingest stores, with and without a second decoding process.

`python -m bench.catch_up`: blocks without votes, of some 1,070 transactions and 940 swaps, wait in
memory; they are ingested completely, into a store in a temporary folder. Both variants take turns,
with two free cores each.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.figure import Figure, tell
from bench.mainnet.chain import Chain
from bench.pace import time_of
from bench.turns import spread
from mintscope.app.config.groups import DexConfig
from mintscope.app.running.decode_worker import decoder, decoding_ahead
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import SystemClock
from mintscope.kit.machine import expect_batches
from mintscope.kit.primitives import Slot
from mintscope.market.ports import Floor
from mintscope.solana.blocks import WSOL, Block, Finalized, Tip, Update
from mintscope.solana.wire import JsonTransactions

BLOCKS: Final = 350
WARM: Final = 150  # the number of blocks in which the other process starts
ROUNDS: Final = 3
START: Final = 1_700_000_000
ALONE, BESIDE = "one process", "mintscope"


class Waiting:
    """A source of blocks for ingest whose blocks are all available at once."""

    def __init__(self, entries: list[msgspec.Raw]) -> None:
        self._entries = entries
        self._size = sum(memoryview(entry).nbytes for entry in entries)
        self.begun_s = 0.0

    async def genesis_hash(self) -> str | None:
        return None

    async def updates(self, _tip: Tip | None) -> AsyncIterator[Update]:
        for slot in range(1, BLOCKS + 1):
            if slot == WARM:
                self.begun_s = time.perf_counter()
            yield Block(
                slot=Slot(slot),
                parent_slot=Slot(slot - 1),
                blockhash=str(slot),
                parent_blockhash=str(slot - 1),
                time=time_of(slot, START),
                transactions=JsonTransactions(self._entries),
                size=self._size,
            )
            if slot > 32:
                yield Finalized(Slot(slot - 32))


async def blocks_per_s(entries: list[msgspec.Raw], *, beside: bool) -> float:
    """Let ingest store blocks of *entries*; return the number of blocks per second.

    beside    whether a second process decodes
    """
    decode, source = decoder(DexConfig()), Waiting(entries)
    ahead = decoding_ahead(DexConfig(), decode) if beside else nullcontext()
    with TemporaryDirectory() as folder, ahead as helping:
        async with SqliteEngine(Path(folder)).open_market(follows_all=True) as market:
            await Ingest(
                source=source,
                store=market.store,
                decode=decode,
                clock=SystemClock(),
                mints=[WSOL],
                floor=Floor(swaps_min=1, volume_min=1, dead_after_days=7),
                ahead=helping,
            ).run()
            return (BLOCKS - WARM) / (time.perf_counter() - source.begun_s)


def main() -> None:
    entries = [msgspec.Raw(msgspec.json.encode(each)) for each in Chain().busy]
    expect_batches()
    rates: dict[str, list[float]] = {BESIDE: [], ALONE: []}
    for _ in range(ROUNDS):
        for who, measured in rates.items():
            measured.append(asyncio.run(blocks_per_s(entries, beside=who == BESIDE)))
    for who, measured in rates.items():
        tell(
            Figure(
                what="catching up, blocks of 940 swaps",
                who=who,
                value=median(measured),
                unit="blocks/s",
                ratio=None if who == BESIDE else median(map(truediv, rates[BESIDE], measured)),
                goal="" if who == BESIDE else ">= 1.7x",
                spread=spread(measured),
            )
        )


if __name__ == "__main__":
    main()
