"""The contract of past reports: each equals the report that was served after its slot."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import PricedSwap
from mintscope.market.ports import DEFAULT_RETENTION, MINUTES_S
from mintscope.market.report import PARTIAL, ReportKind
from mintscope.market.series.past import Moment, OutOfReach, PastMint, SlotTime, past_report
from mintscope.market.timeframe import Timeframe
from support.fakes.made_chain import MINTS, START
from support.scenes.traded import READERS, Traded, traded_on

A, B, UNTRACKED, _ = MINTS
SLOTS: Final = 1_000
# Less a day of minutes for the pressure, and 101 candles of a token that trades now and then.
REACHED_S: Final = DEFAULT_RETENTION.keep_s[Timeframe.M1] - MINUTES_S - 80_000
ALL: Final = ("d1", "h4", "m30", "s15")
KINDS: Final = (
    PARTIAL,
    ReportKind(is_partial=True, is_closed=True),
    ReportKind(is_partial=True, timeframes=ALL),
    ReportKind(is_partial=True, is_closed=True, timeframes=ALL),
    ReportKind(is_partial=True, timeframes=("h4",)),
)


@pytest.fixture(params=READERS)
async def traded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Traded]:
    async with traded_on(request.param, tmp_path, [A, B]) as traded:
        yield traded


def made_swap(random: Random, index: int) -> PricedSwap:
    price = random.choice([None, random.uniform(0.5, 2), random.uniform(0.5, 2)])
    sol = None if price is None else price / random.uniform(90, 110)
    volume = random.choice([0, random.randrange(1, 10**9)])
    return PricedSwap(
        random.choice([A, A, B]), index, 0, -1, 0, random.random() < 0.5, volume, price, sol
    )


async def made_again(traded: Traded, moment: Moment, kind: ReportKind) -> bytes | str | OutOfReach:
    past = await traded.series.past(A, moment, kind.timeframes)
    if isinstance(past, OutOfReach):
        return past
    assert isinstance(past, PastMint), past
    try:
        return msgspec.json.encode(past_report(past, kind))
    except InsufficientData as flaw:
        return str(flaw)


ON_SQLITE: Final = pytest.mark.engine("sqlite")


@pytest.mark.parametrize(
    "pace_s", [1, pytest.param(17, marks=ON_SQLITE), pytest.param(400, marks=ON_SQLITE)]
)
async def test_a_past_report_equals_the_report_that_was_served(traded: Traded, pace_s: int) -> None:
    random = Random(pace_s)
    time = int(START)
    follower = LogTailer(traded.reader, LiveMarket(4), ManualClock(UnixMs(START * 1000)))
    served: dict[tuple[int, int, ReportKind], bytes | str] = {}
    for number in range(1, SLOTS + 1):
        time += random.choice([0, 0, 1, 3]) * pace_s
        await traded.slot(number, time, *(made_swap(random, n) for n in range(random.randrange(4))))
        if number % 7 == 0:
            kind = random.choice(KINDS)
            await follower.catch_up()
            try:
                served[number, time, kind] = (await follower.read(A, kind)).body
            except InsufficientData as flaw:
                served[number, time, kind] = str(flaw)
        if number % 40 == 0:
            await traded.finalize(number - random.randrange(20))
    assert len(served) > 140
    for (number, at, kind), body in served.items():
        made = await made_again(traded, Moment(slot=Slot(number)), kind)
        if isinstance(made, OutOfReach) and at < time - REACHED_S:
            continue
        assert made == body, number
    newest_of_its_second = {time: number for number, time, _ in served}
    for (number, at, kind), body in served.items():
        past = await traded.series.past(A, Moment(time=UnixS(at)))
        if isinstance(past, OutOfReach):
            continue
        assert isinstance(past, PastMint)
        assert past.at.time == at
        assert past.at.slot >= newest_of_its_second[at]
        if past.at.slot == number:
            assert await made_again(traded, Moment(time=UnixS(at)), kind) == body


async def test_a_moment_outside_the_log_returns_the_range_of_the_log(traded: Traded) -> None:
    assert await traded.series.past(UNTRACKED, Moment(slot=Slot(1))) is None
    assert await traded.series.past(A, Moment(slot=Slot(1))) == OutOfReach(None, None)
    for number in range(5, 9):
        await traded.slot(number, START + number)
    reach = OutOfReach(UnixS(START + 5), SlotTime(Slot(8), UnixS(START + 8)))
    for moment in (
        Moment(slot=Slot(4)),
        Moment(slot=Slot(9)),
        Moment(time=UnixS(START)),
        Moment(time=UnixS(START + 9)),
    ):
        assert await traded.series.past(A, moment) == reach
