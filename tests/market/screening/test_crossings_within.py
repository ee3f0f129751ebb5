"""Crossings within a number of candles agree with the reports at each of these candles."""

import itertools
import re
from array import array
from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np
import pytest

from mintscope.alerts.conditions import UnwatchableCondition, watched_by
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.kernels import ACC, AGES
from mintscope.market.log import PricedSwap
from mintscope.market.report import TimeframeIndicators, TokenReport, report_of
from mintscope.market.screening.grammar import ALL_FIELDS, ConditionError, before, parse_condition
from mintscope.market.screening.listed import ListedTokens
from mintscope.market.screening.screen import ScreenQuestion
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    RecentCandles,
    SlotTrades,
)
from mintscope.market.screening.token_list import Restoring, TokenList, pieces
from mintscope.market.timeframe import WIDTH_S, Timeframe

pytestmark = pytest.mark.storm  # reports of a long series, one by one

NOW: Final = UnixS(1_760_000_040)
TOKENS: Final = 24
M5: Final = Timeframe.M5
NAMES: Final = ("ema9_m5", "ema50_m5", "rsi_m5", "macd_m5", "macd_signal_m5", "macd_histogram_m5")
Own = Sequence[tuple[UnixS, PricedSwap]]
Values = dict[str, float | None]


def traded(n: int) -> list[tuple[UnixS, PricedSwap]]:
    random = Random(n)
    usd = random.uniform(0.1, 50.0)
    own = []
    for time in sorted(random.randrange(NOW - 40_000, NOW) for _ in range(n * 12)):
        usd *= random.uniform(0.9, 1.11)
        swap = PricedSwap(Mint(f"mint{n}"), 0, 0, -1, 0, is_buy=True, volume=10, price_usd=usd,
                          price_sol=usd / 150)  # fmt: skip
        own.append((UnixS(time), swap))
    return own


def folded(n: int, own: Own, *, is_recent: bool) -> MintAsFolded:
    """Return mint *n* as it is after its swaps *own*.

    is_recent   whether the closes of its closed candles are included
    """
    fold = MintFold()
    closes: dict[Timeframe, dict[int, float]] = {each: {} for each in Timeframe}
    for at, swap in own:
        fold.apply(at, swap)
        for timeframe, width_s in WIDTH_S.items():
            closes[timeframe][at // width_s] = swap.price_usd or 0.0
    recent = {
        each: RecentCandles(0, bytes(8 * ACC), array("d", [*of.values()][:-1]).tobytes())
        for each, of in closes.items()
        if of
    }
    return MintAsFolded(
        mint=Mint(f"mint{n}"), since=None, state=fold.state() if own else None, facts=None,
        before=(None, None, None), minutes=[], parts=[], recent=recent if is_recent else {},
    )  # fmt: skip


def shown(report: TokenReport) -> Values:
    of: TimeframeIndicators = report.indicators.m5
    macd = of.macd
    lines = (None,) * 3 if macd is None else (macd.line, macd.signal, macd.histogram)
    values = (of.ema9, of.ema50, of.rsi, *lines)
    return {"price": report.price.usd, **dict(zip(NAMES, values, strict=True))}


def by_age(engine: Engine, n: int, own: Own) -> list[Values]:
    """Return the report's values after each of the last AGES + 1 candles, the newest first."""
    width_s = WIDTH_S[M5]
    buckets = sorted({at // width_s for at, _ in own}, reverse=True)[: AGES + 1]
    found = []
    for bucket in buckets:
        known = [each for each in own if each[0] // width_s <= bucket]
        engine.clear(0)
        engine.apply(as_trades([(0, time, swap) for time, swap in known]))
        found.append(shown(report_of(Mint(f"mint{n}"), engine.snapshot(0, NOW), NOW)))
    return found


def crosses(values: Sequence[Values], field: str, other: str | float, within: int) -> bool:
    """Return whether *field* fell below *other* in one of the *within* newest of *values*."""
    for later, earlier in list(itertools.pairwise(values))[:within]:
        pairs = [
            (of[field], of[other] if isinstance(other, str) else other) for of in (earlier, later)
        ]
        (was, level_then), (is_now, level) = pairs
        if None in (was, level_then, is_now, level):
            continue
        assert was is not None
        assert is_now is not None
        assert level_then is not None
        assert level is not None
        if was >= level_then and is_now < level:
            return True
    return False


def screened(listed: ListedTokens, where: str) -> set[str]:
    asked = ScreenQuestion(parse_condition(where), "price", False, ["price"], TOKENS)  # noqa: FBT003
    return {listed.mint_in(row).mint for row in listed.screen(asked).rows}


def page_of(tokens: TokenList, owns: Sequence[Own], *, is_recent: bool) -> MintPage:
    mints = [folded(n, own, is_recent=is_recent) for n, own in enumerate(owns)]
    return MintPage(folded=tokens.folded, mints=mints, last=TOKENS)


def followed(owns: Sequence[Own], since: UnixS, *, is_recent: bool) -> TokenList:
    """Return a token list that loaded the mints at *since* and then applied the later trades."""
    tokens = TokenList(FoldedTo(0, Slot(0), since))
    early = [[each for each in own if each[0] <= since] for own in owns]
    tokens.seed(page_of(tokens, early, is_recent=is_recent))
    late = [(at, n, swap) for n, own in enumerate(owns) for at, swap in own if at > since]
    for seq, (at, n, swap) in enumerate(sorted(late, key=lambda each: each[:2]), 1):
        usd, sol = swap.price_usd, swap.price_sol
        trade = MintTrades(Mint(f"mint{n}"), 10, 10, 1, usd, sol, usd, None)
        tokens.apply([SlotTrades(FoldedTo(seq, Slot(seq), at), [trade])])
    return tokens


def test_crossings_agree_with_reports_whenever_a_token_was_loaded() -> None:
    """The lists loaded tokens now, an hour ago, soon after the first trade, or from a snapshot."""
    engine = Engine(1)
    owns = [traded(n) for n in range(TOKENS)]
    values = {f"mint{n}": by_age(engine, n, own) for n, own in enumerate(owns)}
    lists = [followed(owns, UnixS(NOW - ago_s), is_recent=True) for ago_s in (0, 3_700, 39_000)]
    restoring = Restoring()
    for piece in pieces(lists[1], 0, FactPlace(0, Mint(""))):  # type: ignore[arg-type]
        restoring.add(piece)
    lists.append(restoring.whole()[0])
    random = Random(4)
    found = 0
    for tokens in lists:
        listed = tokens.listed()
        for _ in range(60):
            field, within = random.choice(NAMES), random.randint(1, AGES)
            other = random.choice((30.0, 50.0, 0.0, "ema9_m5", "macd_signal_m5"))
            expected = {mint for mint, of in values.items() if crosses(of, field, other, within)}
            where = f"crosses_below({field}, {other}, {within})"
            assert screened(listed, where) == expected, where
            found += bool(expected)
    assert found > 40
    expect_values_by_age(lists[0].listed(), values)


def expect_values_by_age(listed: ListedTokens, values: dict[str, list[Values]]) -> None:
    for row in range(TOKENS):
        of = values[listed.mint_in(row).mint]
        for name in ("price", *NAMES):
            for age in range(1, AGES + 1):
                value = listed.columns.column(before(name, M5, age))[row]
                known = of[age][name] if age < len(of) else None
                assert (None if np.isnan(value) else value) == known, (name, age)


def test_candles_from_before_the_load_are_unknown_if_they_were_not_loaded() -> None:
    """A list that begins 700 s before NOW knows only the prices of candles closed since then."""
    own = traded(23)
    tokens = followed([own], UnixS(NOW - 700), is_recent=False)
    listed = tokens.listed()
    closed = len({at // 300 for at, _ in own if at > NOW - 700})
    known = [not np.isnan(listed.columns.column(before("price", M5, age))[0])
             for age in range(1, AGES + 1)]  # fmt: skip
    assert 0 < closed < AGES
    assert known == [True] * known.count(True) + [False] * known.count(False)
    assert closed - 1 <= known.count(True) <= closed + 1


@pytest.mark.parametrize(
    ("where", "at", "problem"),
    [
        ("crosses_below(rsi_h1, 30, 0)", 26, "expected a number of candles from 1 to 5; was '0'"),
        ("crosses_below(rsi_h1, 30, 6)", 26, "from 1 to 5; was '6'"),
        ("crosses_below(rsi_h1, 30, 2.5)", 26, "from 1 to 5; was '2.5'"),
        ("crosses_below(rsi_h1, 30, price)", 26, "from 1 to 5; was 'price'"),
        ("crosses_below(rsi_h1, 30, )", 26, "from 1 to 5; was ')'"),
        ("crosses_below(rsi_h1, 30, 3, 4)", 27, "expected `)`; was ','"),
        (" or ".join(["crosses_below(rsi_h1, 30, 5)"] * 8), 250, "expected at most 60"),
    ],
)
def test_an_invalid_number_of_candles_is_refused_at_its_place(
    where: str, at: int, problem: str
) -> None:
    with pytest.raises(ConditionError, match=re.escape(problem)) as flaw:
        parse_condition(where)
    assert flaw.value.at == at


def test_an_alert_ignores_the_number_of_candles_of_a_crossing() -> None:
    for name in ("rsi_h1", "rsi_h4"):
        within, newest = (
            watched_by(parse_condition(f"crosses_below({name}, 30{count})", ALL_FIELDS))
            for count in (", 3", "")
        )
        assert within == newest
        assert within.field == f"indicators.{name[4:]}.rsi"
    for where in (
        "crosses_below(rsi_h1, 30) or crosses_below(rsi_m5, 30)",
        "crosses_below(rsi_h1, 30, 2) or crosses_below(rsi_m5, 30)",
        "crosses_below(rsi_h1, 30, 3) and price > 1",
    ):
        with pytest.raises(UnwatchableCondition):
            watched_by(parse_condition(where))
