"""Gaps that ingest fills later: its attempts, its waits, and backfills that it leaves alone."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.stores import Market
from mintscope.history import mending as tested
from mintscope.history.backfill import (
    BackfillIsRead,
    CallsSpent,
    Cost,
    GapCounts,
    GapMend,
    IncompleteBackfill,
    Kind,
    ListPage,
    MendPlan,
    NotMendable,
    Survey,
)
from mintscope.history.mending import DailyCalls, GapMending
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS
from mintscope.market.ports import MarketOverview
from mintscope.solana.blocks import WSOL, Gap, SourceError
from support.deployment import rule_of
from support.fakes.made_chain import MINTS
from support.promtool import by_promtool, values_at
from support.scenes.stores import market_in

A, B, *_ = MINTS
NOW = UnixMs(1_790_000_000_000)
GAP = Gap(Slot(5), Slot(9), "lost")
REACHED = Slot(5_000)


@dataclass
class StandingAt:
    """A fake market reader that has folded up to slot *folded*, with a slot every 0.1 s."""

    folded: Slot = REACHED

    async def overview(self) -> MarketOverview:
        time = UnixS(NOW // 1_000)
        return MarketOverview(
            slot=self.folded, time=time, folded_slot=self.folded, follows_files=False,
            tracked_count=2, gap_count=1, gap_slots=5, newest_gap=GAP.last,
        )  # fmt: skip

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        return [(Slot(10 * n), UnixS(1_000 + n)) for n in range(span_s)]


@dataclass
class SourceInWords:
    """A source of backfills without a node.

    troubles    by mint, the errors that its reads raise, one in each read
    untracked   a mint that is untracked during its read
    """

    market: Market
    mints: Collection[Mint] = (WSOL, A, B)
    no_blocks: Exception | None = None
    troubles: dict[Mint, list[Exception]] = field(default_factory=dict)
    reads: list[Mint] = field(default_factory=list)
    untracked: Mint | None = None

    async def traded(self, _gap: Gap) -> Collection[Mint]:
        if self.no_blocks is not None:
            raise self.no_blocks
        return self.mints

    async def begin(self, _mint: Mint, since: UnixS) -> UnixS:
        return since

    async def survey(self, _mint: Mint, from_time: UnixS) -> Survey:
        return Survey(from_time, {"pool": Kind.POOL}, Cost(120, 130, 13.0))

    async def read(self, mint: Mint, _from_time: UnixS) -> None:
        self.reads.append(mint)
        if self.troubles.get(mint):
            raise self.troubles[mint].pop(0)
        await self.market.history.round(mint, REACHED)
        if mint == self.untracked:
            await self.market.tracking.remove(mint)
        await self.market.history.listed(mint, ListPage("pool", [], None, None, is_last=True))
        await self.market.history.finish(mint, None)


@dataclass
class Scene:
    market: Market
    source: SourceInWords
    clock: ManualClock
    mending: GapMending

    async def attempt(self) -> list[str]:
        """Make the attempt to mend a gap that is due; return the names of the logged events."""
        with capture_logs() as lines:
            assert await self.mending.mend_one()
        return [str(line["event"]) for line in lines]

    async def noted(self) -> GapMend:
        return (await self.market.gap_mends.newest(1))[0]


@asynccontextmanager
async def no_lock() -> AsyncIterator[None]:
    yield


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with market_in(tmp_path) as market:
        await market.store.start(mints=[WSOL], follows_files=False)
        await market.store.write([GAP])
        for mint in (A, B):
            await market.tracking.add(mint)
        clock, source, standing = ManualClock(NOW), SourceInWords(market), StandingAt()

        async def join(_: float) -> None:
            """Mark backfills that are ready as joined, as ingest does between two blocks."""
            db = apsw.Connection(str(tmp_path / MARKET_FILE))
            db.execute("UPDATE history_job SET stage = 'joined' WHERE stage = 'ready'")
            db.close()

        reader: Any = standing
        mending = GapMending(
            mends=market.gap_mends, reader=reader, tracking=market.tracking,
            jobs=market.history, source=source,
            lock=no_lock, plan=MendPlan(300, 8, 1_000), clock=clock, pause=join,
        )  # fmt: skip
        assert not await mending.mend_one(), "it was seen now"
        clock.advance(300_000)
        yield Scene(market, source, clock, mending)


async def test_each_tracked_token_is_read_once_and_sol_is_not(scene: Scene) -> None:
    await scene.market.tracking.remove(B)
    assert await scene.attempt() == ["gap_mending", "gap_mended"]
    assert scene.source.reads == [A]
    assert await scene.market.gap_mends.counts() == GapCounts(0, 0)
    assert not await scene.mending.mend_one()


async def test_tokens_joined_before_a_failure_are_not_read_again(scene: Scene) -> None:
    first, second = sorted((A, B))
    scene.source.troubles = {
        second: [IncompleteBackfill("2 transactions"), SourceError("no answer")]
    }
    assert await scene.attempt() == ["gap_mending", "gap_not_mended"]
    assert (await scene.noted()).words == "2 transactions"
    scene.clock.advance(600_000)
    assert await scene.attempt() == ["gap_mending", "gap_not_mended"]
    assert (await scene.noted()).attempts == 2
    scene.clock.advance(1_200_000)
    assert await scene.attempt() == ["gap_mending", "gap_mended"]
    assert scene.source.reads == [first, second, second, second]


async def test_a_token_that_is_untracked_while_it_is_read_is_no_failure(scene: Scene) -> None:
    scene.source.untracked = min(A, B)
    assert await scene.attempt() == ["gap_mending", "gap_mended"]
    assert scene.source.reads == sorted((A, B))


async def test_a_token_that_cannot_be_read_does_not_stop_other_tokens(scene: Scene) -> None:
    first, second = sorted((A, B))
    scene.source.troubles = {first: [IncompleteBackfill("2 transactions")]}
    assert await scene.attempt() == ["gap_mending", "gap_not_mended"]
    assert scene.source.reads == [first, second]


@pytest.mark.parametrize(
    ("reason", "words", "wait_ms"),
    [(BackfillIsRead(), tested.ANOTHER, 60_000), (CallsSpent("spent"), tested.SPENT, None)],
)
async def test_waiting_for_a_lock_or_for_calls_is_not_counted_as_an_attempt(
    reason: Exception, words: str, wait_ms: int | None, scene: Scene
) -> None:
    scene.source.troubles = {min(A, B): [reason]}
    now = scene.clock.now()
    assert await scene.attempt() == ["gap_mending", "gap_mending_waits"]
    tomorrow = (now // DAY_MS + 1) * DAY_MS
    noted = await scene.noted()
    assert (noted.attempts, noted.words) == (0, words)
    assert noted.next_at == (tomorrow if wait_ms is None else now + wait_ms)
    scene.clock.advance(DAY_MS)
    assert await scene.attempt() == ["gap_mended"], "it goes on, and says no second time that it is"


async def test_a_gap_of_the_current_minute_is_not_read_yet(scene: Scene) -> None:
    reader: Any = StandingAt(Slot(300))
    mending = replace(scene.mending, reader=reader)
    assert await mending.mend_one()
    assert (await scene.noted()).words == tested.TOO_NEW
    assert scene.source.reads == []


async def test_mending_waits_until_ingest_has_joined_the_backfill_of_a_token(scene: Scene) -> None:
    async def pause(_: float) -> None:
        """Replace a pause: return at once, and join no backfill."""

    mending = replace(scene.mending, pause=pause)
    assert await mending.mend_one()
    assert (await scene.noted()).words == tested.NOT_JOINED
    scene.clock.advance(60_000)
    assert await scene.attempt() == ["gap_mended"]
    assert scene.source.reads == sorted((A, B))


async def test_a_backfill_that_an_operator_began_is_left_unchanged(scene: Scene) -> None:
    first, second = sorted((A, B))
    await scene.market.history.begin(first, UnixS(7), {"pool": Kind.POOL})
    assert await scene.attempt() == ["gap_mending", "gap_not_mended"]
    assert f"mintscope history {first}" in (await scene.noted()).words
    assert scene.source.reads == [second]
    job = await scene.market.history.one(first)
    assert job is not None
    assert job.from_time == 7


# The gap has 5 blocks, more than half of 9; the survey estimates 130 calls, more than 100.
@pytest.mark.parametrize("calls_per_day", [9, 100])
async def test_a_gap_that_needs_more_calls_than_a_day_has_is_given_up_at_once(
    calls_per_day: int, scene: Scene
) -> None:
    scene.mending = replace(scene.mending, plan=MendPlan(300, 8, calls_per_day))
    assert (await scene.attempt())[-1] == "gap_given_up"
    assert f"chain.gap_calls_per_day, {calls_per_day}" in (await scene.noted()).words
    assert scene.source.reads == []


async def test_a_gap_that_is_too_long_is_given_up_at_once(scene: Scene) -> None:
    scene.source.no_blocks = NotMendable("expected at most 2000 slots")
    assert await scene.attempt() == ["gap_mending", "gap_given_up"]


async def test_a_bug_is_noted_as_a_failed_attempt(scene: Scene) -> None:
    scene.source.no_blocks = KeyError("none")
    assert (await scene.attempt())[-1] == "gap_not_mended"
    assert (await scene.noted()).words == tested.BUG


async def test_a_gap_is_mended_after_the_store_was_unavailable(scene: Scene) -> None:
    scene.source.no_blocks = ServiceUnavailable("away")
    with pytest.raises(ServiceUnavailable):
        await scene.mending.mend_one()
    scene.source.no_blocks = None
    assert (await scene.attempt())[-1] == "gap_mended"


async def test_nothing_is_mended_if_no_request_is_allowed(scene: Scene) -> None:
    mending = replace(scene.mending, plan=MendPlan(300, 8, 0))
    assert not await mending.mend_one()
    assert (await scene.noted()).attempts == 0


async def test_metrics_show_the_numbers_of_open_and_given_up_gaps(scene: Scene) -> None:
    def reported() -> list[float | None]:
        return [
            REGISTRY.get_sample_value(f"mintscope_gaps_{each}") for each in ("open", "given_up")
        ]

    scene.source.no_blocks = NotMendable("never")
    await scene.attempt()
    assert not await scene.mending.count()
    assert reported() == [1, 1]
    await scene.market.history.filled(GAP, NOW)
    await scene.mending.count()
    assert reported() == [0, 0]


@pytest.mark.process
@by_promtool
async def test_the_alert_fires_while_a_gap_is_given_up(scene: Scene, tmp_path: Path) -> None:
    rule = rule_of("MintscopeGapGivenUp")

    async def fires() -> bool:
        await scene.mending.count()
        gauge = REGISTRY.get_sample_value("mintscope_gaps_given_up")
        return bool(values_at(tmp_path, rule["expr"], {"mintscope_gaps_given_up": f"{gauge}"}, [0]))

    assert "for" not in rule
    assert not await fires()
    scene.source.no_blocks = NotMendable("never")
    await scene.attempt()
    assert await fires()
    await scene.market.history.filled(GAP, NOW)
    assert not await fires()


async def test_the_daily_limit_of_requests_holds_after_a_kill(scene: Scene) -> None:
    mends = scene.market.gap_mends
    clock = scene.clock
    calls = DailyCalls(mends, clock, 220)
    for _ in range(120):
        await calls.take()
    after_a_kill = DailyCalls(mends, clock, 220)
    for _ in range(20):  # 200 were reserved, in hundreds; the kill lost the 80 that were not used
        await after_a_kill.take()
    with pytest.raises(CallsSpent):
        await after_a_kill.take()
    clock.advance(DAY_MS)
    await calls.take()
