"""A timeframe is ready once EMA-200 exists; until then the earliest possible time is stated."""

import pytest

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.ports import CANDLES_FOR_ALL, ready_from
from mintscope.market.timeframe import WIDTH_S, Timeframe
from support.oracles.definitions import Trade
from support.scenes.made_swaps import swap

START = UnixS(1_789_999_200)  # a full hour


def folded(*times: int) -> bytes:
    fold = MintFold()
    for at in times:
        fold.apply(UnixS(at), swap(Trade(at, 2.0, 0.01, 5, is_buy=True)))
    return fold.state()


@pytest.mark.parametrize("timeframe", Timeframe)
def test_a_timeframe_with_swaps_in_all_buckets_is_ready_at_the_stated_time(
    timeframe: Timeframe,
) -> None:
    width = WIDTH_S[timeframe]
    said = ready_from(None, UnixS(START + 7))[timeframe]
    fold = MintFold()
    at = START
    while (now := ready_from(fold.state(), UnixS(at))[timeframe]) is not None:
        assert now == said
        fold.apply(UnixS(at), swap(Trade(at, 2.0, 0.01, 5, is_buy=True)))
        newest, at = at, UnixS(at + width)

    assert newest == said == START + (CANDLES_FOR_ALL - 1) * width


def test_a_bucket_without_a_swap_delays_readiness() -> None:
    state = folded(START)
    said = ready_from(state, UnixS(START + 59))[Timeframe.M1]
    later = ready_from(state, UnixS(START + 120))[Timeframe.M1]

    assert said == START + 199 * 60
    assert later == START + 120 + 198 * 60


def test_before_the_first_swap_every_timeframe_needs_all_its_candles() -> None:
    assert ready_from(None, START) == {each: START + 199 * WIDTH_S[each] for each in Timeframe}
