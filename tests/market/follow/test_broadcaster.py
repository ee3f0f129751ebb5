"""A listener that merges all its updates has the current report, whatever happens to the log."""

import asyncio
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceError, ServiceUnavailable, StoreUnavailable
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.engine.engine import Engine, LiveMarket, as_trades
from mintscope.market.engine.frames import Frames
from mintscope.market.follow.broadcaster import (
    PAUSE_S,
    RENEWED_IN_A_TURN,
    TOLD_IN_A_TURN,
    Broadcaster,
)
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap
from mintscope.market.report import PLAIN, ReportKind, token_report
from support.fakes.log import FakeLog, frames_after
from support.oracles.merging import merged
from support.scenes.live_market import TRADED, trade, traded_log
from support.scenes.made_transactions import address
from support.scenes.standings import packed_pool

NOW_S = 1_750_000_000
CLOSED = ReportKind(is_closed=True)
FRAMES = ("d1", "h4", "m30", "s15")
KINDS = [PLAIN, CLOSED, ReportKind(is_partial=True), ReportKind(timeframes=FRAMES)]


@dataclass(eq=False)
class Reported:
    """A listener that merges each update into the report that it had before."""

    kind: ReportKind = PLAIN
    reports: dict[Mint, dict[str, Any]] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)

    def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
        self.events.append(event)
        name, number, data, *_ = event.decode().split("\n")
        self.names.append(name)
        self.ids.append(int(number.removeprefix("id: ")))
        reported = json.loads(data.removeprefix("data: "))
        assert is_whole == (name == "event: snapshot")
        self.reports[mint] = reported if is_whole else merged(self.reports[mint], reported)

    def lose(self, mint: Mint, failure: ServiceError) -> None:
        self.lost.append(f"{failure.code} {mint}")


@dataclass
class Scene:
    log: FakeLog
    clock: ManualClock
    follower: LogTailer
    broadcaster: Broadcaster

    async def settle(self) -> None:
        """Wait until all due updates are sent and all loads have ended."""
        for _ in range(4):
            self.clock.advance(int(PAUSE_S * 1000))
            await self.follower.catch_up()
            for _ in range(8):
                await asyncio.sleep(0)

    def expected(self, mint: Mint, kind: ReportKind = PLAIN) -> dict[str, Any]:
        """Return the current report of *mint*, computed from all swaps of the log."""
        engine, tip = Engine(1), self.log.tip_at(self.log.seq)
        assert tip.time is not None
        swaps = self.log.swaps_at(self.log.seq, mint)
        engine.apply(as_trades([(0, time, swap) for time, swap in swaps]))
        values = engine.snapshot(0, tip.time, leaves_out_open=kind.is_closed)
        frames = Frames(frames_after(swaps, FRAMES))
        read = frames.read(kind.timeframes, tip.time, leaves_out_open=kind.is_closed)
        report = token_report(mint, values, tip.time, is_partial=kind.is_partial, frames=read)
        return {"slot": tip.slot, **json.loads(msgspec.json.encode(report))}


@pytest.fixture
async def scene() -> Scene:
    log, clock = traded_log(NOW_S), ManualClock(UnixMs(NOW_S * 1000))
    market = LiveMarket(2)
    follower = LogTailer(log, market, clock)
    broadcaster = Broadcaster(follower, market, clock)
    await follower.catch_up()
    return Scene(log, clock, follower, broadcaster)


@pytest.mark.parametrize("seed", range(20))
async def test_updates_add_up_to_the_report(scene: Scene, seed: int) -> None:
    random, log = Random(seed), scene.log
    listeners = [Reported()]
    await scene.broadcaster.prepare(TRADED, None)
    scene.broadcaster.join(listeners[0], TRADED)
    for _ in range(60):
        match random.choice(["trade"] * 4 + ["retract", "finalize", "join", "leave", "catch up"]):
            case "trade":
                at_s = (log.tip_at(log.seq).time or 0) + random.choice([0, 0, 1, 60])
                trade(log, *random.sample(TRADED, random.randint(1, 2)), at_s=at_s)
            case "retract" if len(log.slots_at(log.seq)) > 15:
                log.retract()
            case "finalize":
                log.finalize(random.randint(1, 8))
            case "join":
                listeners.append(Reported(random.choice(KINDS)))
                scene.broadcaster.join(listeners[-1], TRADED)
            case "leave" if len(listeners) > 1:
                scene.broadcaster.leave(listeners.pop(), TRADED)
            case _:
                scene.clock.advance(random.choice([10, 100, 250]))
                await scene.follower.catch_up()
                await asyncio.sleep(0)
    trade(log, *TRADED)  # so that every report is sent as of the tip
    await scene.settle()

    for listener in listeners:
        assert listener.ids == sorted(listener.ids)
        assert listener.reports == {mint: scene.expected(mint, listener.kind) for mint in TRADED}


async def test_closed_candles_are_sent_as_their_minute_ends_without_a_swap(scene: Scene) -> None:
    closed, plain, log = Reported(CLOSED), Reported(), scene.log
    trade(log, TRADED[0])
    await scene.settle()
    await scene.broadcaster.prepare(TRADED[:1], None, CLOSED)
    for each in (closed, plain):
        scene.broadcaster.join(each, TRADED[:1])
    before = closed.reports[TRADED[0]]["indicators"]["m1"]

    tip = log.tip_at(log.seq)
    assert tip.slot is not None
    assert tip.time is not None
    log.append(tip.slot + 1, tip.time + 60)
    await scene.settle()
    assert closed.names == ["event: snapshot", "event: update"]
    assert closed.reports[TRADED[0]]["indicators"]["m1"] != before
    assert closed.reports == {TRADED[0]: scene.expected(TRADED[0], CLOSED)}
    assert plain.names == ["event: snapshot"]


async def test_a_price_that_loses_its_confidence_is_sent_without_a_swap(scene: Scene) -> None:
    listener, log, mint = Reported(), scene.log, TRADED[0]
    tip = log.tip_at(log.seq)
    assert tip.slot is not None
    assert tip.time is not None
    traded = PricedSwap(mint, 0, 0, -1, 0, True, 10**6, 2.0, 0.02)  # noqa: FBT003
    pools = {mint: packed_pool(tip.time, depth_usd=200_000)}
    log.append(tip.slot + 1, tip.time, traded, standings=pools)
    await scene.settle()
    await scene.broadcaster.prepare([mint], None)
    scene.broadcaster.join(listener, [mint])

    seen = []
    for slot, after_s in enumerate((0, 300, 360, 420, 3_600, 3_660, 3 * 86_400), start=2):
        log.append(tip.slot + slot, tip.time + after_s)
        await scene.settle()
        price = listener.reports[mint]["price"]
        seen.append((len(listener.names), price["confidence"], price["ageMs"] // 1000))
    assert seen == [
        (1, "high", 0), (1, "high", 0), (2, "medium", 360), (2, "medium", 360),
        (2, "medium", 360), (3, "low", 3_660), (3, "low", 3_660),
    ]  # fmt: skip


async def test_many_mints_whose_candles_close_are_sent_in_batches() -> None:
    mints = [Mint(address(f"mint {number}")) for number in range(2 * RENEWED_IN_A_TURN + 20)]
    log, clock = FakeLog(), ManualClock(UnixMs(NOW_S * 1000))
    for mint in mints:
        log.track(mint)
    for minute in range(12):
        trade(log, *mints, at_s=NOW_S - 60 * (11 - minute))
    market = LiveMarket(len(mints))
    follower = LogTailer(log, market, clock)
    scene = Scene(log, clock, follower, Broadcaster(follower, market, clock))
    await follower.catch_up()
    closed = Reported(CLOSED)
    await scene.broadcaster.prepare(mints, None, CLOSED)
    scene.broadcaster.join(closed, mints)
    await scene.settle()
    before = len(closed.names)

    log.append((log.tip_at(log.seq).slot or 0) + 1, NOW_S + 60)
    clock.advance(int(PAUSE_S * 1000))
    await follower.catch_up()
    assert len(closed.names) == before + RENEWED_IN_A_TURN
    await scene.settle()
    assert len(closed.names) == before + len(mints)
    assert closed.reports == {mint: scene.expected(mint, CLOSED) for mint in mints}


async def test_an_event_is_sent_to_all_listeners_in_batches(scene: Scene) -> None:
    others = [Reported() for _ in range(2 * TOLD_IN_A_TURN)]
    await scene.broadcaster.prepare(TRADED[:1], None)
    for each in others:
        scene.broadcaster.join(each, TRADED[:1])
    trade(scene.log, TRADED[0])
    scene.clock.advance(250)

    await scene.follower.catch_up()
    reported_at_once = sum(len(each.names) == 2 for each in others)
    late = Reported()
    scene.broadcaster.join(late, TRADED[:1])  # while the event is still sent to the others
    trade(scene.log, TRADED[0])
    await scene.settle()

    assert reported_at_once == TOLD_IN_A_TURN
    assert {tuple(each.names) for each in others} == {
        ("event: snapshot", "event: update", "event: update")
    }
    assert late.names == ["event: snapshot", "event: update"]
    assert late.reports == others[0].reports
    # All listeners get the same object, so each event is encoded once.
    for number in range(3):
        assert len({id(each.events[number]) for each in others}) == 1
    assert late.events[1] is others[0].events[2]


async def test_a_bug_of_one_listener_does_not_affect_the_others(scene: Scene) -> None:
    class Broken(Reported):
        @override
        def tell(self, mint: Mint, event: bytes, *, is_whole: bool) -> None:
            if self.names:
                raise RuntimeError("a bug")
            super().tell(mint, event, is_whole=is_whole)

    broken, good = Broken(), Reported()
    await scene.broadcaster.prepare(TRADED[:1], None)
    for each in (broken, good):
        scene.broadcaster.join(each, TRADED[:1])
    trade(scene.log, TRADED[0])

    await scene.settle()

    assert good.names == ["event: snapshot", "event: update"]


async def leave_memory(scene: Scene) -> None:
    """Load two other mints, for which the memory has room, so that the first mint is evicted."""
    third = Mint("DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263")
    scene.log.track(third)
    for minute in range(10):
        trade(scene.log, TRADED[1], third, at_s=NOW_S + 60 * minute)
    await scene.follower.catch_up()
    await scene.follower.read(TRADED[1])
    await scene.follower.read(third)


async def test_a_mint_that_left_memory_is_read_again(scene: Scene) -> None:
    reported = Reported()
    await scene.broadcaster.prepare(TRADED[:1], None)
    scene.broadcaster.join(reported, TRADED[:1])
    await leave_memory(scene)

    trade(scene.log, TRADED[0])
    await scene.settle()

    assert reported.reports == {TRADED[0]: scene.expected(TRADED[0])}


async def test_a_bug_of_a_load_ends_the_updates_of_its_listeners(scene: Scene) -> None:
    reported = Reported()
    await scene.broadcaster.prepare(TRADED[:1], None)
    scene.broadcaster.join(reported, TRADED[:1])
    await leave_memory(scene)

    async def fail() -> None:
        raise RuntimeError("a bug")

    scene.log.meanwhile = fail
    trade(scene.log, TRADED[0])
    await scene.settle()

    assert reported.lost == [f"SERVICE_UNAVAILABLE {TRADED[0]}"]


@pytest.mark.parametrize("failure", [ServiceUnavailable(), StoreUnavailable(), TimeoutError()])
async def test_a_stream_is_resumed_from_memory_if_the_log_cannot_be_read(
    scene: Scene, failure: Exception
) -> None:
    reported = Reported()
    await scene.broadcaster.prepare(TRADED[:1], None)
    expected = scene.expected(TRADED[0])
    seen = scene.log.seq
    trade(scene.log, TRADED[0])
    scene.log.failing = failure

    await scene.broadcaster.prepare(TRADED[:1], seen + 1)
    scene.broadcaster.join(reported, TRADED[:1])

    assert reported.names == ["event: snapshot"]
    assert reported.reports == {TRADED[0]: expected}


async def test_a_snapshot_is_sent_if_the_log_was_trimmed(scene: Scene) -> None:
    reported = Reported()
    await scene.broadcaster.prepare(TRADED[:1], None)
    scene.broadcaster.join(reported, TRADED[:1])
    trade(scene.log, TRADED[0])
    trade(scene.log, TRADED[0])
    scene.log.trimmed = scene.log.seq

    await scene.settle()

    assert reported.names[-1] == "event: snapshot"
    assert reported.reports == {TRADED[0]: scene.expected(TRADED[0])}
