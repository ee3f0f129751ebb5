"""Timeframes that are computed on request agree with their definitions, wherever they begin."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.frames import Bar, Frames
from mintscope.market.report import timeframe_of
from mintscope.market.timeframe import AskedFrame, Timeframe
from support.oracles.definitions import Candle, Trade, candles, disagreements, timeframe

WIDTHS: Final = {"m30": 1_800, "h4": 14_400, "d1": 86_400}
DAY: Final = 86_400
START: Final = 1_750_000_000 // DAY * DAY + 35_000  # no full day, hour or quarter of an hour


def traded(seed: int, count: int, every_s: int) -> list[Trade]:
    random = Random(seed)
    at = START
    price = 1.0
    made = []
    for _ in range(count):
        at += random.choice([0, 1, random.randrange(1, every_s), random.randrange(1, every_s)])
        price *= random.uniform(0.97, 1.031)
        made.append(Trade(at, price, price / 100, random.randrange(10**9), random.random() < 0.5))
    return made


def bars(trades: Sequence[Trade], width_s: int) -> list[Bar]:
    return [Bar(UnixS(c.start), c.high, c.low, c.close) for c in candles(trades, width_s)]


def begun(kept: Sequence[Trade], dropped_until: int = 0) -> Frames:
    """Return frames begun from candles of *kept* since *dropped_until*, and from its last swaps."""
    frames = Frames()
    rows = {Timeframe.M15: bars(kept, 900), Timeframe.H1: bars(kept, 3_600)}
    shown = {name: [bar for bar in of if bar.bucket >= dropped_until] for name, of in rows.items()}
    frames.begin_wide(shown, [name for name, of in rows.items() if len(shown[name]) < len(of)])
    newest = kept[-1].time if kept else 0
    recent = [trade for trade in kept if trade.time > newest - 900]
    frames.begin_short((UnixS(each.time), each.price or 0.0) for each in recent)
    return frames


def reported(frames: Frames, now: int, *, is_closed: bool = False) -> dict[str, Any]:
    read = frames.read(tuple(AskedFrame), UnixS(now), leaves_out_open=is_closed)
    return {name: msgspec.to_builtins(timeframe_of(of.tolist())) for name, of in read.items()}


def ended(made: Sequence[Candle], width_s: int, now: int, *, is_closed: bool) -> list[Candle]:
    return [each for each in made if not is_closed or each.start + width_s <= now]


def expected(trades: Sequence[Trade], now: int, *, is_closed: bool = False) -> dict[str, Any]:
    found = {
        name: timeframe(ended(candles(trades, width_s), width_s, now, is_closed=is_closed))
        for name, width_s in WIDTHS.items()
    }
    newest = [trade for trade in trades if trade.time // 15 > now // 15 - 60]
    found["s15"] = timeframe(ended(candles(newest, 15), 15, now, is_closed=is_closed))
    return found


@pytest.mark.parametrize(("every_s", "count"), [(40, 900), (1_500, 2_000), (20_000, 1_500)])
def test_frames_agree_with_the_definitions_wherever_they_begin(every_s: int, count: int) -> None:
    trades = traded(every_s, count, every_s)
    random = Random(every_s)
    for begin in (0, 1, count // 3, count - 1):
        frames = begun(trades[:begin])
        for number, trade in enumerate(trades[begin:], begin):
            assert trade.price is not None
            frames.apply(UnixS(trade.time), trade.price)
            if number % (count // 5) and number != count - 1:
                continue
            frames = Frames(frames.packed())
            now = trade.time + random.choice([0, 7, every_s])
            for is_closed in (False, True):
                ours = reported(frames, now, is_closed=is_closed)
                wanted = expected(trades[: number + 1], now, is_closed=is_closed)
                for name, of in wanted.items():
                    assert disagreements(ours[name], of, trade.price) == [], (name, number)


def test_averages_without_their_beginning_are_exact_or_null() -> None:
    trades = traded(5, 4_000, 3_000)
    end = trades[-1].time
    wanted = expected(trades, end)
    known: dict[str, set[str]] = {"h4": set(), "d1": set(), "m30": set()}
    for kept_s in (30 * DAY, 9 * DAY, DAY):
        ours = reported(begun(trades, end - kept_s), end)
        for name, values in known.items():
            for value, of in ours[name].items():
                if of is not None:
                    values.add(value)
                    flaws = disagreements({value: of}, {value: wanted[name][value]}, 1.0)
                    assert flaws == [], name
        assert ours["s15"] == reported(begun(trades), end)["s15"]
    assert {"ema9", "ema50", "rsi", "macd", "fibonacci"} <= known["m30"]
    assert "ema200" not in known["h4"]
    assert not known["d1"] & {"ema9", "rsi", "macd", "fibonacci"}


def test_frames_that_were_not_begun_are_not_available() -> None:
    """Beginning 15-second frames reads no candles, so wider frames stay unavailable."""
    short = Frames()
    short.begin_short([])
    wide = Frames()
    wide.begin_wide({}, ())
    for frames in (short, wide):
        frames.apply(UnixS(100), 1.0)
    for name in AskedFrame:
        assert Frames(short.packed()).has([name]) is (name == "s15")
        assert Frames(wide.packed()).has([name]) is (name != "s15")
    assert short.has([])
    wide.begin_short([])
    assert wide.has(list(AskedFrame))
    assert np.isnan(short.read(["h4"], UnixS(100), leaves_out_open=False)["h4"]).all()


def test_frames_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="expected frames of"):
        Frames(b"too short")
