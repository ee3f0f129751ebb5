"""Measures a slot of the whole market, stage by stage, for ingest and for an api that follows it.

`python -m bench.slots [SLOTS]`: 400 swaps a slot over 20,000 mints, all tracked; the n-th most
traded mint has 1/n of the swaps of the first.  Decoding is measured by `bench.decode`.
"""

import asyncio
import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import apsw
import numpy as np
from based58 import b58encode

from bench.figure import Figure, tell
from bench.pace import time_of
from bench.slots_engines import engines
from bench.slots_floors import floors
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.market import Market
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.dex.outcome import Swap
from mintscope.ingest.fold import FinalFold
from mintscope.kit.clock import SystemClock
from mintscope.kit.machine import expect_batches
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.engine.fold import read_state
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import Change, FinalSlot, NewSlot
from mintscope.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.solana.blocks import WSOL

SWAPS: Final = 400
MINTS: Final = 20_000
SIGNATURES: Final = [b58encode(hashlib.sha512(b"%d" % n).digest()).decode() for n in range(SWAPS)]
SLOTS: Final = 500
FINAL_LAG: Final = 32
TRIM_EVERY: Final = 64
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))
FLOORS: Final = {
    "price": "floor: make its records",
    "append": "floor: SQLite, the same rows",
    "fold": "floor: SQLite, each row once",
    "follow": "floor: read and decode the rows",
}


class Slots:
    """Generates slots with random swaps of *mints* mints, the same in every run."""

    def __init__(self, mints: int = MINTS) -> None:
        made = random.Random(1)
        self.mints = [Mint(b58encode(made.randbytes(32)).decode()) for _ in range(mints)]
        shares = 1 / np.arange(1, mints + 1)
        self._cumulative = np.cumsum(shares / shares.sum())
        self._random = np.random.default_rng(1)

    def swaps(self, count: int = SWAPS) -> list[Swap]:
        """Return *count* random swaps for the next slot."""
        at = np.searchsorted(self._cumulative, self._random.random(count))
        amounts = self._random.integers(10**9, 11 * 10**8, count)
        picked = zip(np.minimum(at, len(self.mints) - 1).tolist(), amounts.tolist(), strict=True)
        return [_swap(n, self.mints[mint], amount) for n, (mint, amount) in enumerate(picked)]

    def priced(self, count: int = SWAPS) -> Sequence[PricedSwap]:
        """Return *count* random swaps for the next slot, with their prices."""
        return price_slot(self.swaps(count), RATE).swaps


def one_each(mints: Sequence[Mint]) -> Sequence[PricedSwap]:
    """Return one swap for each of *mints*, with the price that it sets."""
    swaps = [_swap(n, mint, 10**9) for n, mint in enumerate(mints)]
    return price_slot(swaps, RATE).swaps


def _swap(n: int, mint: Mint, amount: int) -> Swap:
    sides = [(WSOL, 10**8 + n, 9), (mint, amount, 6)]
    if n % 2:
        sides.reverse()
    pool = f"pool of {mint}"
    at = Signature(SIGNATURES[n % SWAPS]), n, 0, -1, 0
    return Swap(*at, "pumpswap", pool, *sides[0], *sides[1], "signer")


class Stages:
    """The processor time of this thread in each stage of a slot: the total, and the longest."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self.longest_ns: Counter[str] = Counter()

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Add the processor time of the `with` block to that of *stage*."""
        begun = time.thread_time_ns()
        yield
        took = time.thread_time_ns() - begun
        self.ns[stage] += took
        self.longest_ns[stage] = max(self.longest_ns[stage], took)


async def measure(market: Market, slots: int) -> Stages:
    """Store *slots* slots of swaps, and return the processor time of each stage.

    The stages are: price the swaps, append them to the log, fold final slots, and follow the log.
    """
    stages, made = Stages(), Slots()
    await market.store.start(mints=[WSOL, *made.mints], follows_files=True)
    follower = LogTailer(market.reader, LiveMarket(10_000), SystemClock())
    await follower.catch_up()
    fold = FinalFold(market.store, None, SystemClock())
    for slot in range(1, slots + 1):
        swaps, at = made.swaps(), time_of(slot, START)
        with stages.of("price"):
            sol_usd_samples(swaps)
            priced = price_slot(swaps, RATE).swaps
        header = SlotHeader(Slot(slot), Slot(slot - 1), str(slot), at, RATE.usd, at)
        changes: list[Change] = [NewSlot(header, priced)]
        if slot > FINAL_LAG:
            changes.append(FinalSlot(Slot(slot - FINAL_LAG)))
        with stages.of("append"):
            await market.store.write(changes)
        with stages.of("fold"):
            await fold.go_on()
        if slot % TRIM_EVERY == 0:
            await market.store.trim(2_500)
        with stages.of("follow"):
            await follower.catch_up()
    await fold.finish()
    return stages


def kept(file: Path) -> str:
    """Return a digest of all candles and indicator states in the market file *file*."""
    db, digest = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY), hashlib.sha256()
    for row in db.execute("SELECT * FROM candle ORDER BY 1, 2, 3"):
        digest.update(repr(row).encode())
    for mint, state, last_swap in db.execute("SELECT mint, state, last_swap FROM state ORDER BY 1"):
        record = read_state(state)[0]
        head = (mint, last_swap, int(record["first"]), float(record["price_sol"]))
        digest.update(repr(head).encode())
        for name in ("acc", "count", "bucket", "buy", "sell"):
            digest.update(record["frames"][name].tobytes())
    db.close()
    return digest.hexdigest()[:16]


async def main(slots: int) -> None:
    with TemporaryDirectory() as folder:
        async with SqliteEngine(Path(folder)).open_market(follows_all=False) as market:
            expect_batches()
            stages = await measure(market, slots)
        least = floors(Path(folder) / MARKET_FILE, Slots().priced(), slots=slots)
        for stage, ns in stages.ns.items():
            mean, longest = ns / slots / 1e6, stages.longest_ns[stage] / 1e6
            what, floor = f"{stage}, CPU a slot", least[stage]
            tell(Figure(what=what, who="mintscope", value=mean, unit="ms"))
            tell(Figure(what=what, who="mintscope", value=longest, unit="ms at most"))
            tell(Figure(what=what, who=FLOORS[stage], value=floor, unit="ms", ratio=floor / mean))
        print(f"candles and states after {slots} slots: {kept(Path(folder) / MARKET_FILE)}")
    for figure in await engines(Slots):
        tell(figure)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else SLOTS))
