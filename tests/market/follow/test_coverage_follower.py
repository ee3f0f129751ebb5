"""Coverage is read at intervals, and is shown in reports and checks."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import READ_SHARE
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.coverage import (
    Coverage,
    MintCoverage,
    MissedMints,
    NotRead,
    ProgramHour,
    ReportCoverages,
    Tally,
)
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import CoverageTailer
from mintscope.market.log import PricedSwap
from support.fakes.log import FakeLog

A, B = Mint("A"), Mint("B")
SINCE = UnixS(1_800_000_000)


class FakeCoverage:
    """A reader of coverage with fixed *rows*; None: nothing has been counted yet."""

    def __init__(self, *rows: ProgramHour, missed: Mapping[Mint, MintCoverage] = {}) -> None:
        self.rows: tuple[ProgramHour, ...] | None = rows
        self.missed = missed
        self.failure: Exception | None = None
        self.asked = 0

    async def coverage(self, hours: int) -> Coverage | None:
        """Return a coverage of `rows`, or None without rows. Raises `failure` if it is set."""
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        if self.rows is None:
            return None
        until = UnixS(SINCE + 3_600 * (hours - 1) + self.asked)
        return Coverage(SINCE, until, self.rows, 9, skipped_slots=3, missing_slots=0)

    async def missed_mints(self) -> MissedMints:
        return MissedMints(self.missed, is_whole=True)

    async def not_read(self, limit: int) -> Sequence[NotRead]:
        del limit
        return ()


def row(outcome: str, calls: int, volume: int = 0, program: str = "a") -> ProgramHour:
    return ProgramHour(500_000, program, outcome, Tally(calls, calls, volume))


def traded() -> tuple[LiveMarket, FakeLog]:
    """Return a market in memory in which A and B have traded for twelve minutes, and its log."""
    log, market = FakeLog(), LiveMarket(2)
    for mint in (A, B):
        log.track(mint)
    for minute in range(12):
        swaps = [
            PricedSwap(mint, at, 0, -1, 0, is_buy=True, volume=9, price_usd=1.5, price_sol=0.1)
            for at, mint in enumerate((A, B))
        ]
        log.append(minute + 1, SINCE + 60 * minute, *swaps)
    market.restart(log.tip_at(log.seq), frozenset({A, B}))
    for mint in (A, B):
        market.expect(mint)
        loaded = log.load_at(log.seq, mint)
        assert loaded is not None
        assert market.insert(loaded)
    return market, log


async def test_reports_have_the_coverage_of_their_token_and_overall() -> None:
    market, _ = traded()
    before = {mint: (market.report(mint), market.tag()) for mint in (A, B)}
    reader = FakeCoverage(
        row("read", 9, 90), row("no_movement", 1, 10),
        missed={A: MintCoverage(Tally(3, 3, 30), Tally(1, 1, 10))},
    )  # fmt: skip
    follower = CoverageTailer(reader, market.cover, share_min=0.5)
    await follower.look()

    said = {mint: msgspec.json.decode(market.report(mint)) for mint in (A, B)}
    assert said[A].pop("coverage") == {
        "from": SINCE,
        "to": SINCE + 3_601,
        "token": {"byCalls": 0.75, "byVolume": 0.75},
        "overall": {"byCalls": 0.9, "byVolume": 0.9},
        "missingSlots": 0,
        "skippedSlots": 3,
    }
    assert said[B].pop("coverage")["token"] == {"byCalls": 1.0, "byVolume": 1.0}
    for mint in (A, B):
        body, tag = before[mint]
        assert said[mint] == msgspec.json.decode(body), "all the rest is the log's"
        market.report(mint)
        assert market.tag() == tag
    assert market.report(A) is market.report(A), "made once"


async def test_a_report_has_no_coverage_before_the_first_count() -> None:
    market, _ = traded()
    assert b"coverage" not in market.report(A)
    empty = FakeCoverage()
    empty.rows = None
    follower = CoverageTailer(empty, market.cover, share_min=0.5)
    await follower.look()
    assert b"coverage" not in market.report(A)
    assert follower.newest is None
    await follower.expect_read()


async def test_a_low_share_of_read_calls_fails_the_check_and_names_the_programs() -> None:
    few = FakeCoverage(
        row("read", 94, 990), row("no_movement", 5, 1, "worst"), row("x", 1, 9, "bad")
    )
    follower = CoverageTailer(few, ignore, share_min=0.95)
    await follower.look()
    with pytest.raises(
        ServiceUnavailable,
        match=(
            r"expected 95 % of what was exchanged to be read; was 99 % of the volume and 94 % of"
            r" the calls of this hour and the last; missed most: bad, worst$"
        ),
    ):
        await follower.expect_read()
    assert READ_SHARE.labels("calls")._value.get() == 0.94  # noqa: SLF001 - it has no other reader
    few.rows = (row("read", 95), row("no_movement", 5))
    await follower.look()
    await follower.expect_read()
    few.rows = ()
    await follower.look()
    await follower.expect_read()


async def test_coverage_is_read_again_after_a_second_until_it_is_counted() -> None:
    reader, waits = FakeCoverage(row("read", 9)), asyncio.Queue[float]()
    reader.rows = None

    async def wait(seconds: float) -> None:
        await waits.put(seconds)
        if reader.rows is not None:
            await asyncio.Event().wait()
        reader.rows = ()

    task = asyncio.create_task(CoverageTailer(reader, ignore, share_min=0.5, wait=wait).run())
    async with asyncio.timeout(5):
        assert [await waits.get(), await waits.get()] == [1, 60]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_coverage_stays_unchanged_while_it_cannot_be_read() -> None:
    market, _ = traded()
    reader = FakeCoverage(row("read", 9))
    looked = asyncio.Queue[int]()

    async def wait(seconds: float) -> None:
        assert seconds == 60
        await looked.put(reader.asked)
        reader.failure = ServiceUnavailable("away") if reader.asked == 1 else None
        if reader.asked == 3:
            await asyncio.Event().wait()

    follower = CoverageTailer(reader, market.cover, share_min=0.5, wait=wait)
    await follower.try_to_look()
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(5):
        assert await looked.get() == 1
        first = follower.newest
        assert await looked.get() == 2
        assert follower.newest is first
        assert await looked.get() == 3
    assert follower.newest is not None
    assert follower.newest.time == SINCE + 3_603
    assert msgspec.json.decode(market.report(A))["coverage"]["to"] == SINCE + 3_603
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def ignore(_: ReportCoverages) -> None:
    """Do nothing: this test has no reports."""
