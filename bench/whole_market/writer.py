"""Prices, stores and folds generated slots as ingest does, in a separate process.

`python -m bench.whole_market.writer sqlite:FOLDER|DSN SECONDS SLOT_S TIMES [SHARD] [RATE]`:
generates a slot every SLOT_S seconds, with RATE swaps a second, and writes a line to the file TIMES
for each slot: its number, and the times at which it was due and committed.  With a SHARD, such as
`1/2`, it prices all swaps, and logs the swaps of its mints, as in the ingest of a shard.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Final, TextIO

import uvloop

from bench.slots import RATE, Slots, one_each
from bench.slots_engines import Market
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.postgres import PostgresEngine
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.ingest.fold import FinalFold
from mintscope.ingest.pipeline import TRIM_EVENTS_MAX, TRIM_EVERY
from mintscope.kit.clock import SystemClock
from mintscope.kit.machine import expect_batches
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.sql.database import Batch
from mintscope.kit.sql.postgres import PostgresDatabase, WriteLock
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.kit.time import MINUTE_S
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import Change, FinalSlot, NewSlot
from mintscope.market.shard import Shard, parse_shard
from mintscope.market.store.mints import BEFORE_ALL
from mintscope.solana.blocks import WSOL

MINTS: Final = 100_000
SWAPS_A_SECOND: Final = 5_000
FINAL_LAG: Final = 2  # in slots, as under Alpenglow
# Minutes in which every mint trades before the start: a report needs nine
MINUTES_BEFORE: Final = 12
READY: Final = "ready"
LISTED: Final = Batch("mint", {"address": "text", "since_slot": "bigint", "is_listed": "bigint"})


def opened(where: str) -> AbstractAsyncContextManager[Market]:
    """Return a context manager that opens a market: "sqlite:FOLDER", or a PostgreSQL URL."""
    kind, _, folder = where.partition(":")
    engine = SqliteEngine(Path(folder)) if kind == "sqlite" else PostgresEngine(where)
    return engine.open_market()


def follow(where: str, mints: Sequence[Mint]) -> None:
    """Track *mints* in the market at *where*, before its first slot.

    One statement does this, because mint by mint takes minutes.
    """
    kind, _, folder = where.partition(":")
    db: SqliteDatabase | PostgresDatabase
    if kind == "sqlite":
        db = SqliteDatabase(Path(folder) / MARKET_FILE, "market")
    else:
        db = PostgresDatabase(where, WriteLock.MARKET)
    with closing(db), db.transaction():
        db.executemany(LISTED, [(mint, BEFORE_ALL, 1) for mint in mints])


def swaps_of_a_slot(slot_s: float, rate: int = SWAPS_A_SECOND) -> int:
    """Return the number of swaps in a slot of *slot_s* seconds, at *rate* swaps per second."""
    return round(rate * slot_s)


async def write(  # noqa: PLR0913, PLR0917 - the arguments of the command line
    where: str, seconds: float, slot_s: float, times: TextIO, shard: Shard, rate: int
) -> None:
    """Store a slot of *rate* swaps a second every *slot_s* seconds, for *seconds*.

    A slot that is late is written at once.  A line of *times* has the slot, and when it was due and
    committed.
    """
    made, clock = Slots(MINTS), SystemClock()
    swaps = swaps_of_a_slot(slot_s, rate)
    async with opened(where) as market:
        follow(where, [mint for mint in made.mints if shard.owns(mint)])
        await market.store.start(mints=[WSOL], follows_files=False)
        fold = FinalFold(market.store, None, clock)
        expect_batches()
        now = UnixS(clock.now() // 1000)
        for slot in range(1, MINUTES_BEFORE + 1):
            mints = [made.mints[0], *made.mints[slot - 1 :: MINUTES_BEFORE]]
            at = UnixS(now - MINUTE_S * (MINUTES_BEFORE + 1 - slot))
            await market.store.write(
                [_slot(slot, at, shard.own(one_each(list(dict.fromkeys(mints)))))]
            )
        await market.store.write([FinalSlot(Slot(MINUTES_BEFORE))])
        await fold.finish()
        print(READY, flush=True)
        begin_s = time.monotonic()
        for number in range(1, int(seconds / slot_s) + 1):
            slot, due_s = MINUTES_BEFORE + number, begin_s + number * slot_s
            priced = shard.own(made.priced(swaps))
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            changes: list[Change] = [_slot(slot, UnixS(clock.now() // 1000), priced)]
            if number > FINAL_LAG:
                changes.append(FinalSlot(Slot(slot - FINAL_LAG)))
            await market.store.write(changes)
            times.write(f"{slot} {due_s} {time.monotonic()}\n")
            times.flush()
            await fold.go_on()
            if slot % TRIM_EVERY == 0:
                await market.store.trim(TRIM_EVENTS_MAX)


def _slot(number: int, at: UnixS, swaps: Sequence[PricedSwap]) -> NewSlot:
    header = SlotHeader(Slot(number), Slot(number - 1), f"{number}", at, RATE.usd, at)
    return NewSlot(header, swaps)


if __name__ == "__main__":
    with Path(sys.argv[4]).open("w") as file:
        part = sys.argv[5] if len(sys.argv) > 5 else "1/1"
        swaps_a_second = int(sys.argv[6]) if len(sys.argv) > 6 else SWAPS_A_SECOND
        arguments = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), file
        uvloop.run(write(*arguments, parse_shard(part), swaps_a_second))
