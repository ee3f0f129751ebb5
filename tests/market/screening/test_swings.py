"""Swings in lists are the extremes of 100 candles; a lost one is unknown until it is reread."""

from random import Random
from typing import Any, Final

import numpy as np
import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.recent import (
    ATR,
    HIGH,
    LOW,
    RECENTS,
    begin_recents,
    keep_candles,
    read_recent,
)
from mintscope.market.screening.averages import RecentRows
from mintscope.market.screening.snapshot import (
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    SlotTrades,
)
from mintscope.market.screening.token_list import TokenList
from support.oracles.definitions import Candle, atr

BEGIN: Final = UnixS(1_760_000_040)
CANDLES: Final = 700
PLACES: Final = np.zeros(1, np.int32)
OF_M1: Final = RECENTS[0]
STEPS: Final = {
    "wandering": (0.95, 1.05), "falling": (0.98, 1.0), "rising": (1.0, 1.02), "still": (1.0, 1.0),
}  # fmt: skip


def made(kind: str) -> list[tuple[float, float, float]]:
    random = Random(kind)
    usd = 100.0
    found = []
    for _ in range(CANDLES):
        usd *= random.uniform(*STEPS[kind])
        wide = random.choice((0.0, 0.02))
        found.append((usd * (1 + wide * random.random()), usd * (1 - wide * random.random()), usd))
    return found


def begun(closed: list[tuple[float, float, float]], since: int, of: Any = OF_M1) -> Any:
    recents = np.zeros(1, of)
    prices = np.array(closed[since:], float).reshape(-1, 3)
    counts = np.array([len(prices)])
    last = np.array([row[-1] for row in closed[-1:]] or [0.0])
    begin_recents(recents, np.array([len(closed)]), last, counts, prices)
    return recents


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize(("since", "of"), [(0, RECENTS[0]), (40, RECENTS[0]), (0, RECENTS[1])])
def test_a_swing_is_of_the_newest_candles_and_its_loss_is_reported(
    kind: str, since: int, of: Any
) -> None:
    """If a swing is read again as soon as it is lost, it is known at each candle."""
    prices = made(kind)
    recents = begun(prices[:since], since, of)
    counts = np.array([[since + 1]])
    lost_count = 0
    for n in range(since, CANDLES):
        counts[0, 0] = n + 1
        found = read_recent(recents, PLACES, counts[:, 0], np.array([prices[n]]))
        newest = prices[max(0, n - 99) : n + 1]
        is_known = since == 0 or n - since >= 99
        wanted = (max(high for high, *_ in newest), min(low for _, low, _ in newest))
        shown = (found[HIGH, 0], found[LOW, 0])
        assert shown == wanted if is_known or n == 0 else np.isnan(shown).all(), n
        if n % 100 == 99 and (since == 0 or n - since >= 514):
            expected = atr(
                [Candle(0, c, h, low, c, 0, 0, 0) for h, low, c in prices[since : n + 1]]
            )
            assert found[ATR, 0] == pytest.approx(expected[-1], rel=1e-12)
        if keep_candles(recents, PLACES, counts, np.array([prices[n]]), np.array([0]), 0)[0]:
            lost_count += 1
            recents = begun(prices[: n + 1], since, of)
    assert lost_count > 20 if kind in {"falling", "rising"} else lost_count < 40


def test_lost_swings_are_read_again_in_turn() -> None:
    at = FoldedTo(0, Slot(0), BEGIN)
    tokens = TokenList(at)
    mints = [
        MintAsFolded(
            mint=mint, since=BEGIN, state=None, facts=None, before=(None,) * 3, minutes=[], parts=[]
        )
        for mint in (Mint("one"), Mint("two"), Mint("three"))
    ]
    tokens.seed(MintPage(folded=at, mints=mints, last=3))
    assert tokens.lost(2) == []
    for n in range(1, 110):
        at = FoldedTo(n, Slot(n), UnixS(BEGIN + 60 * n))
        trades = [MintTrades(each.mint, 1, 1, 1, 1.0 / n, 0.1, 1.0) for each in mints]
        tokens.apply([SlotTrades(at, trades)])
    assert [tokens.lost(2) for _ in range(3)] == [
        ["one", "two"], ["three", "one"], ["two", "three"],
    ]  # fmt: skip
    assert tokens.lost(9) == ["one", "two", "three"]


def test_a_token_without_closed_candles_of_a_timeframe_takes_no_place() -> None:
    rows = RecentRows(4, OF_M1)
    rows.write(np.array([0, 1]), np.zeros(2, OF_M1))
    assert len(rows.kept) == 1
    closed = begun(made("still")[:30], 0)
    rows.write(np.array([2]), closed)
    rows.take(np.array([3, 2]))
    rows.make_room(50)
    assert rows.places[:5].tolist() == [0, 0, 1, 2, 0]
    assert rows.read(slice(1, 4)).tobytes() == b"".join(
        [bytes(OF_M1.itemsize), closed.tobytes(), bytes(OF_M1.itemsize)]
    )
    rows.write(np.array([2, 3]), np.zeros(2, OF_M1))
    assert not any(rows.kept.tobytes())


def test_candles_of_a_token_take_at_most_a_kilobyte_and_a_half() -> None:
    place_and_open = np.dtype("i4").itemsize + 2 * np.dtype("f8").itemsize
    assert sum(of.itemsize + place_and_open for of in RECENTS) <= 1_500
