"""Both folds of a log return the reports of an oracle, while slots die and mints are untracked.

The oracle has the living slots in a list and applies all of them again for each report.
"""

from pathlib import Path
from random import Random

import msgspec
import pytest
from typing_extensions import override

from mintscope.ingest.fold import FinalFold
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData, TokenNotFound
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.engine.engine import Engine, LiveMarket, as_trades
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import Change, FinalSlot, NewSlot, OrphanedSlot
from mintscope.market.report import token_report
from support.scenes.stores import market_in

MINTS = [Mint(f"mint{number}") for number in range(5)]
START = 1_700_000_000
STEPS = 120


class Oracle:
    """Computes the expected reports from all slots that did not die.

    followed   by mint, the number of slots that were appended before the mint was tracked
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._engine = Engine(1)
        self._alive: list[tuple[int, NewSlot]] = []
        self._final = 0
        self._appends = 0
        self.followed: dict[Mint, int] = {}

    def changes(self) -> list[Change]:
        """Return random changes of a source: dead slots, slots that replace them, finality."""
        changes: list[Change] = []
        for _ in range(self._random.choice([1, 1, 3])):
            dead = self._random.choice([0, 0, 0, 1, 2, 3])
            while dead and self._alive and self._alive[-1][1].header.slot > self._final:
                changes.append(OrphanedSlot(self._alive.pop()[1].header.slot))
                dead -= 1
            changes.append(self._append())
        undecided = [new.header.slot for _, new in self._alive if new.header.slot > self._final]
        if undecided and self._random.random() < 0.4:
            self._final = self._random.choice(undecided)
            changes.append(FinalSlot(Slot(self._final)))
        return changes

    def track(self, mint: Mint) -> None:
        self.followed.setdefault(mint, self._appends)

    def report(self, mint: Mint) -> bytes:
        if mint not in self.followed:
            raise TokenNotFound("not followed")
        if not self._alive:
            raise InsufficientData("no slot yet")
        now = self._alive[-1][1].header.time
        self._engine.clear(0)
        counted = [new for number, new in self._alive if number > self.followed[mint]]
        trades = [(0, n.header.time, s) for n in counted for s in n.swaps if s.mint == mint]
        self._engine.apply(as_trades(trades))
        return msgspec.json.encode(token_report(mint, self._engine.snapshot(0, now), now))

    def _append(self) -> NewSlot:
        self._appends += 1
        tip = self._alive[-1][1].header if self._alive else None
        parent, time = (0, START) if tip is None else (tip.slot, tip.time)
        header = SlotHeader(
            slot=Slot(parent + self._random.choice([1, 1, 2])),
            parent_slot=Slot(parent),
            blockhash=f"hash-{self._appends}",
            time=UnixS(time + self._random.choice([0, 0, 1, 30, 61, 400, 4_000])),
        )
        new = NewSlot(header, [self._swap(index) for index in range(self._random.randrange(12))])
        self._alive.append((self._appends, new))
        return new

    def _swap(self, index: int) -> PricedSwap:
        price = self._random.choice([None, 1 + self._random.random()])
        return PricedSwap(
            mint=self._random.choice(MINTS),
            transaction_index=index,
            outer=0,
            inner=-1,
            leg=0,
            is_buy=self._random.random() < 0.5,
            volume=self._random.randrange(1, 10**7),
            price_usd=price,
            price_sol=None if price is None else price / 100,
        )


VERBS = {"write": 9, "fold": 2, "fold a little": 8, "trim": 1, "add": 2, "remove": 1, "read": 3}


class HurryingClock(ManualClock):
    """A clock that advances by 15 ms each time it is read, so that the fold often pauses."""

    @override
    def monotonic_s(self) -> float:
        self.advance(15)
        return super().monotonic_s()


async def compare(follower: LogTailer, oracle: Oracle, mint: Mint) -> None:
    try:
        expected = oracle.report(mint)
    except (TokenNotFound, InsufficientData) as refusal:
        with pytest.raises(type(refusal)):
            await follower.read(mint)
    else:
        assert (await follower.read(mint)).body == expected


@pytest.mark.storm
@pytest.mark.parametrize("follows_all", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_reports_agree_with_the_oracle(seed: int, follows_all: bool, tmp_path: Path) -> None:  # noqa: FBT001 - pytest names it
    random = Random(seed)
    oracle = Oracle(random)
    async with market_in(tmp_path, follows_all=follows_all) as market:
        store, tracking = market.store, market.tracking
        clock = HurryingClock(UnixMs(0))
        beside = FinalFold(store, None, clock)
        follower = LogTailer(market.reader, LiveMarket(3), ManualClock(UnixMs(START * 1000)))
        for _ in range(STEPS):
            mint = random.choice(MINTS)
            match random.choices([*VERBS], [*VERBS.values()]):
                case ["write"]:
                    await store.write(oracle.changes())
                case ["fold"]:
                    await beside.finish()
                case ["fold a little"]:
                    clock.advance(11_000)  # a batch is due, and there is time for one step of it
                    await beside.go_on()
                case ["trim"]:
                    await store.trim(random.choice([3, 1_000]))
                case ["add"]:
                    await tracking.add(mint)
                    oracle.track(mint)
                case ["remove"]:
                    await tracking.remove(mint)
                    oracle.followed.pop(mint, None)
                case ["read"]:
                    await follower.catch_up()
                    for one in random.sample(MINTS, 3):
                        await compare(follower, oracle, one)
                case other:
                    raise AssertionError(f"expected a verb; was {other}")
