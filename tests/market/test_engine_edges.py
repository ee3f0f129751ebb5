"""Rare cases of the engine: a window's highest price expires, one candle, volume without price."""

from typing import Final

import msgspec
import numpy as np
import pytest

from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.engine import kernels
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.fold import Follows, Hole, MintFold, Tail, read_state
from mintscope.market.engine.given import Candles
from mintscope.market.log import CandleRow
from mintscope.market.report import report_of
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import Gap, Tip
from support.fakes.log import Kept, Timed
from support.fakes.made_chain import block
from support.oracles import definitions
from support.oracles.definitions import Trade
from support.scenes import made_swaps

ENGINE: Final = Engine(2)
WHOLE, LOADED = 0, 1


def candle(minute: int, high: float, low: float) -> list[Trade]:
    """Return two trades of *minute*: a purchase at *high*, then a sale at *low*."""
    at = made_swaps.START + 60 * minute
    return [
        Trade(at, high, 0.1, 10, is_buy=True),
        Trade(at + 30, low, 0.1, 7, is_buy=False),
    ]


def check(trades: list[Trade], now: int) -> None:
    ENGINE.clear(WHOLE)
    made_swaps.apply(ENGINE, WHOLE, trades)
    made = report_of(made_swaps.MINT, ENGINE.snapshot(WHOLE, UnixS(now)), UnixS(now))
    found = msgspec.json.decode(msgspec.json.encode(made))
    del found["token"]
    price = max(trade.price or 0.0 for trade in trades)

    assert definitions.disagreements(found, definitions.report(trades, now), price) == []


@pytest.mark.parametrize("count", [100, 101, 130, 198, 199, 200])
@pytest.mark.parametrize("step", [1.0, -1.0])
def test_swings_are_right_if_an_extreme_leaves_with_each_candle(count: int, step: float) -> None:
    """If prices rise, the lowest of a hundred candles leaves; if they fall, the highest."""
    trades = [
        trade
        for minute in range(count)
        for trade in candle(minute, 500.0 + step * minute, 400.0 + step * minute)
    ]

    check(trades, trades[-1].time)


@pytest.mark.parametrize("at", [0, 1, 50, 98])
@pytest.mark.parametrize("is_high", [True, False])
def test_the_next_extreme_is_found_at_any_place_of_the_ring(at: int, is_high: bool) -> None:  # noqa: FBT001
    """The candle with the extreme price leaves the window; *at* varies where the next one is."""
    trades = []
    for minute in range(102 + at):
        shift = {0: 300.0, 99 + at: 100.0}.get(minute, 0.0)
        shift = shift if is_high else -shift
        trades += candle(minute, 500.0 + shift, 450.0 + shift)

    check(trades, trades[-1].time)
    check(trades[: 2 * (101 + at)], trades[-1].time)


def timed(trades: list[Trade]) -> list[Timed]:
    return [(UnixS(trade.time), made_swaps.swap(trade)) for trade in trades]


def loaded_and_whole(trades: list[Trade], folded: int, read: int) -> None:
    """Assert that a row loaded after *read* trades equals a row to which all trades were applied.

    folded   the number of trades that the loaded state includes
    """
    kept = Kept()
    kept.fold(timed(trades[:folded]))
    ENGINE.clear(WHOLE)
    ENGINE.load(LOADED, kept.load(made_swaps.MINT, 1, timed(trades[:read]), folded))
    made_swaps.apply(ENGINE, WHOLE, trades[:read])
    for trade in [*trades[read:], None]:
        now = UnixS(trades[-1].time + 5 if trade is None else trade.time)
        if trade is not None:
            made_swaps.apply(ENGINE, WHOLE, [trade])
            made_swaps.apply(ENGINE, LOADED, [trade])
        whole = ENGINE.snapshot(WHOLE, now).tobytes()
        assert ENGINE.snapshot(LOADED, now).tobytes() == whole


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 40])
@pytest.mark.parametrize("step", [1.0, -1.0])
def test_a_loaded_young_mint_equals_a_mint_that_stayed_in_memory(length: int, step: float) -> None:
    """This holds even if only a part of the mint's open candle was folded."""
    trades = [
        trade
        for minute in range(20)
        for trade in candle(minute, 500.0 + step * minute, 400.0 + step * minute)
    ]
    for folded in {0, 1, length // 2, length}:
        loaded_and_whole(trades[: length + 3], min(folded, length), length)


@pytest.mark.parametrize("seed", range(4))
def test_a_loaded_old_mint_equals_a_mint_that_stayed_in_memory(seed: int) -> None:
    trades = made_swaps.stream(seed, 330, 50.0)

    loaded_and_whole(trades, 250, 320)


def test_a_single_unit_of_volume_is_in_the_pressure() -> None:
    ENGINE.clear(WHOLE)
    one = Trade(made_swaps.START, 1.0, 0.1, 1, is_buy=True)
    made_swaps.apply(ENGINE, WHOLE, [one])
    shares = ENGINE.snapshot(WHOLE, UnixS(one.time))[kernels.SHARES : kernels.COUNTS]

    assert shares.tolist() == [1.0] * 6


def test_a_series_equals_the_values_served_candle_by_candle() -> None:
    trades = [trade for n in range(130) for trade in candle(60 * n, 9.0 + n % 7, 8.0 - n % 5)]
    highs, lows, closes = [], [], []
    served = []
    ENGINE.clear(WHOLE)
    for high, low in zip(trades[::2], trades[1::2], strict=True):
        assert high.price is not None
        assert low.price is not None
        highs.append(high.price)
        lows.append(low.price)
        closes.append(low.price)
        made_swaps.apply(ENGINE, WHOLE, [high, low])
        row = ENGINE.snapshot(WHOLE, UnixS(low.time))
        served.append(row[3 * kernels.READ : 4 * kernels.READ].copy())
    candles = Candles(np.array(highs), np.array(lows), np.array(closes))
    out = np.zeros((len(closes), kernels.READ))
    acc = np.zeros(kernels.ACC)
    kernels.series(np.zeros(1, kernels.FRAME)[0], acc, candles, kernels.SERVICE, out)

    assert out.tobytes() == np.array(served).tobytes()


def test_the_state_of_a_fold_without_swaps_is_empty() -> None:
    """In states of all versions, a bucket of -1 means that there is no candle."""
    record = read_state(MintFold().state())[0]

    assert (record["version"], record["first"], record["price_sol"]) == (2, 0, 0.0)
    for frame in record["frames"]:
        assert (frame["count"], frame["bucket"], frame["buy"], frame["sell"]) == (0, -1, 0, 0)
        assert not frame["acc"].any()
        assert (frame["open_bucket"], frame["trades"]) == (-1, 0)


def test_a_swap_at_time_0_is_in_candles() -> None:
    """A node may give time 0 to its first blocks."""
    fold = MintFold()
    fold.apply(UnixS(0), made_swaps.swap(Trade(0, 2.0, None, 5, is_buy=True)))

    row = CandleRow(UnixS(0), 2.0, 2.0, 2.0, 2.0, 5, 0, 1)
    assert fold.changed() == {timeframe: [row] for timeframe in Timeframe}
    record = read_state(fold.state())[0]
    assert (record["first"], record["price_sol"]) == (0, 0.0)


def test_a_minute_of_equal_buys_and_sells_without_a_price_is_kept() -> None:
    fold = MintFold()
    for is_buy in (True, False):
        fold.apply(UnixS(60), made_swaps.swap(Trade(60, None, None, 7, is_buy=is_buy)))

    assert fold.changed()[Timeframe.M1] == [CandleRow(UnixS(60), None, None, None, None, 7, 7, 0)]


@pytest.mark.parametrize(
    ("slot", "parent", "place"),
    [
        (12, 9, Follows),
        (12, 6, Follows),
        (12, 5, Hole),
        (10, 9, Hole),  # another block at the tip's slot
        (9, 7, Hole),
    ],
)
def test_a_block_after_the_tip_follows_if_its_parent_is_in_the_gap(
    slot: int, parent: int, place: type[Follows | Hole]
) -> None:
    tail = Tail()
    tip = None
    for known in (1, 3, 10):
        tip = block(known, tip)
        tail.append(tail.header(tip, ()))
    assert tail.lose(Gap(Slot(6), Slot(9), "gone"))
    made = block(slot, Tip(Slot(parent), "never read"), fork="'")

    placed = tail.place(made)
    assert (type(placed), placed) == (place, place(()))


@pytest.mark.parametrize(
    ("window", "width_s"), list(enumerate([60, 300, 900, 3_600, 14_400, 86_400]))
)
def test_a_swap_counts_in_a_window_for_exactly_its_width(window: int, width_s: int) -> None:
    day = 86_400
    for at in range(20_000 * day, 20_025 * day, day):  # wherever the parts of another width begin
        ENGINE.clear(WHOLE)
        made_swaps.apply(ENGINE, WHOLE, [Trade(at, 1.0, 0.1, 10, is_buy=True)])
        share = [
            ENGINE.snapshot(WHOLE, UnixS(now))[kernels.SHARES + window]
            for now in (at + width_s - 1, at + width_s)
        ]
        assert share[0] == 1.0
        assert share[1] != 1.0
