"""The same history leaves the same market on every engine, to the last bit.

All engines get the same writes, and all their rows are compared.
"""

import os
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace
from typing_extensions import override

from mintscope.app.stores.market import Market
from mintscope.ingest.fold import FinalFold
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.market.coverage import NotRead, SlotCoverage, Tally
from mintscope.market.log import Appended, Event, Evidence, PricedSwap, SlotHeader, SwapDetail
from mintscope.market.ports import (
    MINUTES_S,
    Change,
    FinalSlot,
    Floor,
    NewSlot,
    OrphanedSlot,
    Retention,
    Unread,
)
from mintscope.market.sol_rate import Sample
from mintscope.market.standings import before_standing
from mintscope.market.timeframe import WIDTH_S, Timeframe
from mintscope.solana.blocks import WSOL, Gap
from support.scenes.market_engines import MARKET_ENGINES, execute_in, market_of

MINTS: Final = [Mint(f"{first}mint") for first in "zAyBxC"]
LISTED: Final = MINTS[:2]
START: Final = 1_700_000_000
FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
SEEDS: Final = 12 if FULL else 3
STEPS: Final = 60
RESTARTS: Final = 3
WEIGHTS: Final = [9, 1, 8, 1, 1, 1]
FLOOR: Final = Floor(swaps_min=3, volume_min=30, dead_after_days=1)
# The shortest retention, so that candles are dropped.
RETENTION: Final = Retention(
    {each: MINUTES_S if each is Timeframe.M1 else WIDTH_S[each] for each in Timeframe}
)

KEPT: Final = """
SELECT address, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count, provider,
       open_sol, high_sol, low_sol, close_sol
  FROM candle JOIN mint ON mint.id = mint ORDER BY 1, 2, 3;
SELECT address, timeframe, bucket, closed, acc
  FROM waypoint JOIN mint ON mint.id = mint ORDER BY 1, 2, 3;
SELECT address, state, last_swap, in_sol, pools, traders
  FROM state JOIN mint ON mint.id = mint ORDER BY 1;
SELECT address, bucket, pool, open, high, low, close, buy_volume, sell_volume, swaps
  FROM pool_candle JOIN mint ON mint.id = mint ORDER BY 1, 2, 3;
SELECT address, bucket, crowd.swaps, traders FROM crowd JOIN mint ON mint.id = mint ORDER BY 1, 2;
SELECT address, day, swaps, volume, lively_day FROM activity JOIN mint ON mint.id = mint ORDER BY 1;
SELECT address, since_slot, since_time, is_listed, is_removed FROM mint ORDER BY id;
SELECT finalized_slot, folded_seq, folded_slot, folded_day, trimmed_seq, follows_files
  FROM progress;
SELECT seq, kind, slot, mints FROM event ORDER BY seq;
SELECT seq, slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples, is_dead
  FROM header ORDER BY seq;
SELECT seq, address, swaps, deciding, bought, sold, details
  FROM swap JOIN mint ON mint.id = mint ORDER BY 1, 2;
SELECT address, deciding FROM deciding_pool JOIN mint ON mint.id = mint ORDER BY 1;
SELECT first, last, reason FROM gap ORDER BY 1, 2;
SELECT slot, signature, program, reason FROM quarantine ORDER BY id;
SELECT hour, program, reason, head, time, count, volume, signature
  FROM not_read ORDER BY 1, 2, 3, 4;
SELECT hour, program, outcome, calls, valued, volume FROM coverage ORDER BY 1, 2, 3;
SELECT hour, first_slot, blocks, skipped FROM coverage_slots ORDER BY 1;
SELECT hour, mint, calls, valued, volume FROM coverage_mint ORDER BY 1, 2
"""


class HurryingClock(ManualClock):
    """A clock that advances by 15 ms at each reading, so that a fold soon reaches its limit."""

    @override
    def monotonic_s(self) -> float:
        self.advance(15)
        return super().monotonic_s()


class History:
    """Invents a random history of slots, as a source reports it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._alive: list[SlotHeader] = []
        self._final = 0
        self._appends = 0
        self._pace_s = random.choice([20, 300, 2_000, 8_000])

    def changes(self) -> list[Change]:
        """Return orphaned slots, slots that replace them, final slots and records of lost data."""
        changes: list[Change] = []
        for _ in range(self._random.choice([1, 1, 4])):
            dead = self._random.choice([0, 0, 0, 1, 2])
            while dead and self._alive and self._alive[-1].slot > self._final:
                changes.append(OrphanedSlot(self._alive.pop().slot))
                dead -= 1
            appended = self._append()
            changes += [appended, self._covered(appended.header)]
            undecided = [header.slot for header in self._alive if header.slot > self._final]
            if undecided and self._random.random() < 0.4:
                self._final = self._random.choice(undecided)
                changes.append(FinalSlot(Slot(self._final)))
            changes += self._random.choices([[], [self._missed()]], [4, 1])[0]
        return changes

    def _append(self) -> NewSlot:
        self._appends += 1
        tip = self._alive[-1] if self._alive else None
        parent, time = (0, UnixS(START)) if tip is None else (tip.slot, tip.time)
        is_dated = self._random.random() < 0.8
        header = SlotHeader(
            slot=Slot(parent + self._random.choice([1, 1, 2])),
            parent_slot=Slot(parent),
            blockhash=f"hash-{self._appends}",
            time=UnixS(time + self._random.choice([0, 0, 1, 1, 1]) * self._pace_s),
            sol_usd=self._random.uniform(1, 300) if is_dated else None,
            sol_usd_time=time if is_dated else None,
            samples=(Sample(self._random.uniform(1, 300), 7),) * self._random.randrange(3),
        )
        self._alive.append(header)
        swaps = [self._swap(index) for index in range(self._random.randrange(12))]
        standings = {
            mint: before_standing(
                f"{self._appends}", 1.5, header.time, 0.5, header.time, is_direct=True
            )
            for mint in dict.fromkeys(swap.mint for swap in swaps)
            if self._random.random() < 0.5
        }
        return NewSlot(header, swaps, standings)

    def _covered(self, header: SlotHeader) -> SlotCoverage:
        return SlotCoverage(
            slot=header.slot,
            parent_slot=header.parent_slot,
            time=header.time,
            calls={
                (program, self._random.choice(["read", "unlisted", "no_movement"])): self._tally()
                for program in self._random.sample(["one", "Two", "three", "Vier"], 2)
            },
            missed={self._mint(): self._tally()} if self._random.random() < 0.3 else {},
        )

    def _tally(self) -> Tally:
        calls = self._random.randrange(1, 9)
        return Tally(calls, self._random.randrange(calls + 1), self._random.randrange(10**15))

    def _swap(self, index: int) -> PricedSwap:
        price = self._random.choice([None, 10 ** self._random.uniform(-12, 9)])
        return PricedSwap(
            mint=self._mint(),
            transaction_index=index,
            outer=0,
            inner=-1,
            leg=0,
            is_buy=self._random.random() < 0.5,
            volume=self._random.choice([0, 1, self._random.randrange(10**15)]),
            price_usd=price,
            price_sol=None if price is None else price / 3,
            pool=self._random.choice(["pool", f"pool-{self._random.randrange(40)}"]),
            detail=self._random.choice(
                [None, SwapDetail(Signature(f"{index}"), "made", 7, 6, WSOL, 8)]
            ),
            evidence=self._random.choice(
                [None, Evidence(None, index, f"{self._random.randrange(30)}", fee_bps=index % 3)]
            ),
        )

    def _mint(self) -> Mint:
        """Return a mint that trades often or, one time in ten, a new mint."""
        is_brief = self._random.random() < 0.1
        return Mint(f"mint-{self._appends}") if is_brief else self._random.choice(MINTS)

    def _missed(self) -> Change:
        slot = Slot(self._appends * 3)
        signature = self._random.choice([None, Signature(f"signature {slot}")])
        missed: list[Change] = [
            Gap(slot, Slot(slot + self._random.randrange(3)), "lost"),
            Unread(slot=slot, signature=signature, program="a program", reason="bad layout"),
            NotRead(
                time=UnixS(START + self._appends * self._pace_s),
                program=self._random.choice(["one", "Two"]),
                reason="unknown_program",
                head="",
                count=2,
                volume=self._random.randrange(10**6),
                signature=signature,
            ),
        ]
        return self._random.choice(missed)


async def lived(engine: str, folder: Path, seed: int, *, follows_all: bool) -> list[str]:
    """Write the history that *seed* determines; return the content of *engine* after each part."""
    random = Random(seed)
    history, reported, clock = History(random), [], HurryingClock(UnixMs(0))
    for _ in range(RESTARTS):
        async with market_of(
            engine, folder, follows_all=follows_all, retention=RETENTION
        ) as market:
            await market.store.start(mints=LISTED, follows_files=random.random() < 0.5)
            floor = FLOOR if follows_all else None
            mints_max = random.choice([1, 3, 100])
            fold = FinalFold(market.store, floor, clock, mints_max=mints_max)
            for _ in range(STEPS):
                await step(random, history, market, fold, clock)
            reported.append(await all_of(market, engine, folder))
            await fold.finish()
            reported.append(await all_of(market, engine, folder))
    return reported


async def step(
    random: Random, history: History, market: Market, fold: FinalFold, clock: ManualClock
) -> None:
    mint = random.choice(MINTS)
    match random.choices(["write", "fold", "fold a little", "trim", "add", "remove"], WEIGHTS):
        case ["write"]:
            await market.store.write(history.changes())
        case ["fold"]:
            await fold.finish()
        case ["fold a little"]:
            clock.advance(11_000)  # a batch is due, and there is time for one step of it
            await fold.go_on()
        case ["trim"]:
            await market.store.trim(random.choice([3, 1_000]))
        case ["add"]:
            await market.tracking.add(mint)
        case _:
            await market.tracking.remove(mint)


async def all_of(market: Market, engine: str, folder: Path) -> str:
    """Return as text all stored rows, and the answers of all readers, with exact floats."""
    ask = partial(execute_in, engine, folder)
    rows = [row for statement in KEPT.split(";") for row in ask(statement)]
    reader, trimmed = market.reader, ask("SELECT trimmed_seq FROM progress")[0][0]
    tracked_at, tracked = await reader.tracked()
    reported = [
        await reader.tip(),
        (tracked_at, sorted(tracked)),
        await reader.overview(),
        await reader.gaps(5),
        await market.reader.not_read(5),
        await market.reader.coverage(5),
        await market.reader.missed_mints(),
        [_ordered(event) for event in await reader.events(trimmed, 10_000)],
        [await reader.load(mint) for mint in MINTS],
        [await market.series.swaps(mint, None, 5, with_crowds=True) for mint in MINTS],
        await market.tracking.page("", 1_000),
        await market.tracking.found("", 1_000),
        [await market.tracking.one(mint) for mint in MINTS],
        sorted(await market.store.price_pools(), key=repr),
    ]
    return "\n".join(repr(each) for each in (*rows, *reported))


def _ordered(event: Event) -> Event:
    """Return *event* with sorted standings, because each engine returns them in another order."""
    if isinstance(event, Appended):
        return replace(event, standings=dict(sorted(event.standings.items())))
    return event


@pytest.mark.storm
@pytest.mark.parametrize("follows_all", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_engine_stores_and_returns_the_same_market(
    seed: int,
    follows_all: bool,  # noqa: FBT001 - pytest names it
    tmp_path: Path,
) -> None:
    first, *others = [
        await lived(engine, tmp_path / engine, seed, follows_all=follows_all)
        for engine in MARKET_ENGINES
    ]
    for other in others:
        for expected, found in zip(first, other, strict=True):
            assert found.splitlines() == expected.splitlines()
