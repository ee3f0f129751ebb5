"""Tests of the log tailer with a log that is slow, fails, is trimmed, or grows during loads."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData, ServiceUnavailable, TokenNotFound
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.market.engine.engine import Engine, LiveMarket, as_trades
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap
from mintscope.market.report import token_report
from support.fakes.log import FakeLog

MINTS = [Mint(f"mint{n}") for n in range(4)]
START = 1_700_000_000
AWAY = OSError("the store is away")


def trade(log: FakeLog, minutes: int = 1, mints: Sequence[Mint] = MINTS[:3]) -> None:
    """Append *minutes* slots, a minute apart, in which all of *mints* trade."""
    rng = random.Random(log.seq)
    for _ in range(minutes):
        tip = log.tip_at(log.seq)
        log.append(
            (tip.slot or 0) + 1,
            (tip.time or START) + 60,
            *(
                PricedSwap(mint, n, 0, -1, 0, rng.random() < 0.5, 10**6, rng.random() + 1, 0.01)
                for n, mint in enumerate(mints)
            ),
        )


@pytest.fixture
def log() -> FakeLog:
    log = FakeLog()
    log.page = 3  # so that catching up takes several reads
    for mint in MINTS[:3]:
        log.track(mint)
    trade(log, 12)
    return log


def follower(log: FakeLog, *, capacity: int = 2, read_timeout_s: float = 5.0) -> LogTailer:
    clock = ManualClock(UnixMs((START + 60 * 12) * 1000 + 250))
    return LogTailer(
        log,
        LiveMarket(capacity),
        clock,
        read_timeout_s=read_timeout_s,
        wait=partial(asyncio.sleep, 0.001),
    )


def expected(log: FakeLog, mint: Mint) -> bytes:
    """Return the newest report of *mint* as JSON, computed from all its swaps in *log*."""
    engine, now = Engine(1), log.tip_at(log.seq).time
    assert now is not None
    engine.apply(as_trades([(0, time, swap) for time, swap in log.swaps_at(log.seq, mint)]))
    return msgspec.json.encode(token_report(mint, engine.snapshot(0, now), now))


@asynccontextmanager
async def running(follower: LogTailer) -> AsyncIterator[None]:
    task = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110  there is no event for what a fake was asked
            await asyncio.sleep(0)


async def test_a_report_has_its_slot_and_age(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()
    found = await reports.read(MINTS[0])

    assert (found.body, found.slot, found.age_ms) == (expected(log, MINTS[0]), 12, 250)


@pytest.mark.parametrize("slot_ms", [100, 200, 400, 800])
async def test_the_pace_of_the_chain_is_known_as_soon_as_the_log_is_read(slot_ms: int) -> None:
    log = FakeLog()
    for number in range(60_000 // slot_ms):
        log.append(number + 1, START + number * slot_ms // 1_000)
    follower = LogTailer(log, LiveMarket(2), ManualClock(UnixMs(START * 1000)))
    assert follower.pace() is None
    await follower.catch_up()

    pace = follower.pace()
    assert pace is not None
    assert pace.slot_s == pytest.approx(slot_ms / 1_000, rel=0.05)


async def test_the_pace_is_measured_from_applied_slots() -> None:
    log = FakeLog()
    log.append(1, START)
    follower = LogTailer(log, LiveMarket(2), ManualClock(UnixMs(START * 1000)))
    await follower.catch_up()
    assert follower.pace() is None
    for number in range(1, 300):
        log.append(number + 1, START + number // 5)
    await follower.catch_up()

    pace = follower.pace()
    assert pace is not None
    assert pace.slot_s == pytest.approx(0.2, rel=0.05)


@dataclass
class Chain:
    """A log with a block each second, and a tailer that follows it in real time."""

    log: FakeLog = field(default_factory=FakeLog)
    clock: ManualClock = field(default_factory=lambda: ManualClock(UnixMs(START * 1000)))

    def __post_init__(self) -> None:
        self.tailer = LogTailer(self.log, LiveMarket(2), self.clock)
        self.slot = 0

    async def read(self, blocks: int, *, final: int | None = None, folded: int) -> None:
        """Append *blocks* to the log and read it, without a change of the clock."""
        for _ in range(blocks):
            self.slot += 1
            self.log.append(self.slot, START + self.slot)
        if final is not None:
            self.log.finalize(final)
        self.log.folded = Slot(folded)
        await self.tailer.catch_up()

    async def live(self, seconds: int) -> None:
        """Append a block each second; none of them becomes final or is folded."""
        for _ in range(seconds):
            self.clock.advance(1_000)
            await self.read(1, folded=100)


@pytest.fixture
async def chain() -> Chain:
    """Return a chain of which ingest has just read 400 old seconds; slot 100 is final."""
    chain = Chain()
    chain.clock.advance(400_000)
    await chain.read(400, final=100, folded=100)
    return chain


async def test_the_check_fails_if_final_blocks_are_far_behind_the_newest(chain: Chain) -> None:
    await chain.live(41)
    with pytest.raises(ServiceUnavailable, match="341 s behind the newest"):
        await chain.tailer.expect_final()

    await chain.read(0, final=430, folded=100)
    await chain.tailer.expect_final()


async def test_the_check_fails_if_folded_blocks_are_far_behind_the_final_ones(
    chain: Chain,
) -> None:
    await chain.live(61)
    await chain.read(0, final=440, folded=100)
    with pytest.raises(ServiceUnavailable, match="340 s behind the final blocks"):
        await chain.tailer.expect_folded()

    await chain.read(0, folded=430)
    await chain.tailer.expect_folded()


async def test_old_blocks_that_ingest_has_just_read_may_be_finalized_and_folded_later(
    chain: Chain,
) -> None:
    await chain.live(40)
    await chain.tailer.expect_final()
    await chain.live(20)
    await chain.read(0, final=440, folded=100)
    await chain.tailer.expect_folded()


async def test_a_stall_does_not_reset_a_check_that_fails(chain: Chain) -> None:
    await chain.live(41)
    chain.clock.advance(200_000)
    await chain.read(0, folded=100)

    with pytest.raises(ServiceUnavailable, match="behind the newest"):
        await chain.tailer.expect_final()


async def test_finality_is_not_checked_while_ingest_reads_old_blocks(chain: Chain) -> None:
    await chain.live(41)
    chain.clock.advance(600_000)
    await chain.read(0, folded=100)
    await chain.read(590, folded=100)

    await chain.tailer.expect_final()


async def test_data_of_replayed_files_have_no_age(log: FakeLog) -> None:
    log.follows_files = True
    reports = follower(log)
    await reports.catch_up()

    assert (await reports.read(MINTS[0])).age_ms == 0


async def test_reports_are_unavailable_before_the_log_is_read(log: FakeLog) -> None:
    reports = follower(log)
    assert reports.age_ms() is None
    with pytest.raises(ServiceUnavailable):
        await reports.read(MINTS[0])


async def test_the_log_decides_which_mints_are_tracked(log: FakeLog) -> None:
    log.track(MINTS[3])
    log.untrack(MINTS[2])
    reports = follower(log)
    await reports.catch_up()
    assert [reports.is_tracked(mint) for mint in MINTS] == [True, True, False, True]
    with pytest.raises(TokenNotFound):
        await reports.read(MINTS[2])
    with pytest.raises(InsufficientData):
        await reports.read(MINTS[3])

    assert log.loads == 1


@pytest.mark.parametrize("follows_first", [True, False])
async def test_swaps_that_arrive_during_a_load_are_in_the_report(
    log: FakeLog,
    follows_first: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    """The follower applies them before the load ends, or after it."""
    reports = follower(log)
    await reports.catch_up()

    async def meanwhile() -> None:
        trade(log, 7)
        if follows_first:
            await reports.catch_up()

    log.meanwhile = meanwhile
    trade(log, 4)  # the snapshot is ahead of the follower
    await reports.read(MINTS[0])
    await reports.catch_up()

    assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])


async def test_a_load_is_repeated_if_a_slot_is_retracted_during_it(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()

    async def meanwhile() -> None:
        log.meanwhile = None
        log.retract()
        trade(log)
        await reports.catch_up()

    log.meanwhile = meanwhile
    assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])
    assert log.loads == 2


async def test_a_mint_untracked_during_its_load_is_not_found(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()

    async def meanwhile() -> None:
        log.untrack(MINTS[0])
        await reports.catch_up()

    log.meanwhile = meanwhile
    with pytest.raises(TokenNotFound):
        await reports.read(MINTS[0])


async def test_many_first_readers_share_one_load(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()
    gate = asyncio.Event()

    async def meanwhile() -> None:
        await gate.wait()

    log.meanwhile = meanwhile
    readers = [asyncio.create_task(reports.read(MINTS[0])) for _ in range(20)]
    await until(lambda: log.loads == 1)
    readers[0].cancel()
    gate.set()
    found = await asyncio.gather(*readers[1:])

    assert {report.body for report in found} == {expected(log, MINTS[0])}
    assert log.loads == 1


async def test_all_readers_get_reports_if_memory_has_room_for_one_mint(log: FakeLog) -> None:
    reports = follower(log, capacity=1)
    await reports.catch_up()

    async def meanwhile() -> None:
        await asyncio.sleep(0)

    log.meanwhile = meanwhile
    for _ in range(3):
        trade(log)
        await reports.catch_up()
        found = await asyncio.gather(*(reports.read(mint) for mint in MINTS[:3] * 3))
        assert [r.body for r in found] == [expected(log, mint) for mint in MINTS[:3] * 3]


async def test_a_follower_survives_failures_of_the_store(log: FakeLog) -> None:
    reports = follower(log)
    log.failing = AWAY
    async with running(reports):
        await until(lambda: log.asked > 1)
        with pytest.raises(ServiceUnavailable):
            await reports.read(MINTS[0])
        log.failing = None
        await until(lambda: reports.is_tracked(MINTS[0]))
        before = (await reports.read(MINTS[0])).body
        log.failing = AWAY
        trade(log, 2)
        asked = log.asked
        await until(lambda: log.asked > asked + 1)
        assert (await reports.read(MINTS[0])).body == before

        log.failing = None
        await until(lambda: reports.age_ms() == 0)
        assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])


async def test_a_follower_can_be_cancelled_while_an_answer_arrives(log: FakeLog) -> None:
    arrived = asyncio.Event()
    log.asking = arrived.wait
    task = asyncio.create_task(follower(log).run())
    await until(lambda: log.asked > 0)
    arrived.set()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=1)
    task.cancel()

    assert done == {task}


async def test_a_log_trimmed_too_far_is_read_from_its_tip(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()
    await reports.read(MINTS[0])
    log.track(MINTS[3])
    trade(log, 20, MINTS)
    log.trimmed = log.seq - 2
    await reports.catch_up()

    assert (await reports.read(MINTS[3])).body == expected(log, MINTS[3])
    assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])


async def test_a_log_that_went_back_is_read_as_another_log(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()
    await reports.read(MINTS[0])
    other = FakeLog()
    other.track(MINTS[0])
    trade(other, 10)
    log.kept, log.seq = other.kept, other.seq
    await reports.catch_up()

    assert (await reports.read(MINTS[0])).body == expected(other, MINTS[0])


async def test_a_load_that_never_ends_is_given_up(log: FakeLog) -> None:
    reports = follower(log, read_timeout_s=0.02)
    await reports.catch_up()

    async def meanwhile() -> None:
        await asyncio.Event().wait()

    log.meanwhile = meanwhile
    with pytest.raises(ServiceUnavailable):
        await reports.read(MINTS[0])
    log.meanwhile = None
    assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])


async def test_a_load_is_given_up_if_a_slot_is_retracted_during_each_attempt(log: FakeLog) -> None:
    reports = follower(log)
    await reports.catch_up()

    async def meanwhile() -> None:
        log.retract()
        trade(log)
        await reports.catch_up()

    log.meanwhile = meanwhile
    with pytest.raises(ServiceUnavailable):
        await reports.read(MINTS[0])


async def test_a_failed_load_raises_for_its_reader_and_the_next_reader_retries(
    log: FakeLog,
) -> None:
    reports = follower(log)
    await reports.catch_up()

    async def meanwhile() -> None:
        raise AWAY

    log.meanwhile = meanwhile
    with pytest.raises(OSError, match="the store is away"):
        await reports.read(MINTS[0])
    log.meanwhile = None
    assert (await reports.read(MINTS[0])).body == expected(log, MINTS[0])


async def test_a_failed_load_is_no_longer_expected(log: FakeLog) -> None:
    market = LiveMarket(1)
    reports = LogTailer(log, market, ManualClock(UnixMs(0)))
    await reports.catch_up()

    async def meanwhile() -> None:
        raise AWAY

    log.meanwhile = meanwhile
    with pytest.raises(OSError, match="the store is away"):
        await reports.read(MINTS[0])
    loaded = log.load_at(log.seq, MINTS[0])
    assert loaded is not None
    assert not market.insert(loaded)  # not expected any more
