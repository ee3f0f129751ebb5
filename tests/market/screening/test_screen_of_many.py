"""The tokens that random conditions select agree with the report of each token."""

from array import array
from random import Random
from typing import Any, Final

import numpy as np
import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.kernels import ACC, AGES
from mintscope.market.log import PricedSwap
from mintscope.market.report import TimeframeIndicators, TokenReport, report_of
from mintscope.market.screening.grammar import OF_NEWEST, OF_TIMEFRAMES, parse_condition
from mintscope.market.screening.listed import ListedTokens
from mintscope.market.screening.screen import ScreenQuestion
from mintscope.market.screening.snapshot import FoldedTo, MintAsFolded, MintPage, RecentCandles
from mintscope.market.screening.token_list import TokenList
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe
from support.engines import FULL
from support.oracles.definitions import Candle, Trade, candles
from support.oracles.slow_screen import (
    COMPARE,
    CROSSES,
    Tree,
    earlier,
    is_true,
    of_candles,
    text_of,
)

NOW: Final = UnixS(1_760_000_040)
TOKENS: Final = 5_000 if FULL else 300
CONDITIONS: Final = 1_000 if FULL else 60
SPANS_S: Final = (900, 20_000, 400_000)
NUMBERS: Final = (0.0, 0.5, 1.0, 2.0, 30.0, 50.0, 70.0)
AVERAGES: Final = ("ema9", "ema21", "ema50", "ema200")


def traded(random: Random, mint: Mint) -> list[tuple[UnixS, PricedSwap]]:
    span_s, usd = random.choice(SPANS_S), random.uniform(0.1, 50.0)
    own = []
    count = random.randrange(1, random.choice((90, 90, 90, 90, 400)))
    for time in sorted(random.randrange(NOW - span_s, NOW) for _ in range(count)):
        usd *= random.uniform(0.9, 1.11)
        swap = PricedSwap(mint, 0, 0, -1, 0, random.random() < 0.5, 10, usd, usd / 150)
        own.append((UnixS(time), swap))
    return own


def folded(mint: Mint, own: list[tuple[UnixS, PricedSwap]]) -> MintAsFolded:
    fold = MintFold()
    for at, swap in own:
        fold.apply(at, swap)
    recent = {}
    newest = {}
    for timeframe in TIMEFRAMES:
        *closed, _ = candles_of(own, timeframe)
        recent[timeframe] = RecentCandles(
            0, bytes(8 * ACC), array("d", [one.close for one in closed]).tobytes()
        )
        prices = [(one.high, one.low, one.close) for one in closed]
        newest[timeframe] = np.array(prices, float).tobytes()
    return MintAsFolded(
        mint=mint, since=None, state=fold.state(), facts=None, before=(None, None, None),
        minutes=[], parts=[], recent=recent, newest=newest,
    )  # fmt: skip


def candles_of(own: list[tuple[UnixS, PricedSwap]], timeframe: Timeframe) -> list[Candle]:
    trades = [Trade(at, one.price_usd, one.price_sol, one.volume, one.is_buy) for at, one in own]
    return candles(trades, WIDTH_S[timeframe])


def all_values(
    engine: Engine, mint: Mint, own: list[tuple[UnixS, PricedSwap]]
) -> dict[str, float | None]:
    """Return all numbers that conditions can use, of reports and of candles, by name."""
    found: dict[str, float | None] = {}
    for timeframe in TIMEFRAMES:
        width_s = WIDTH_S[timeframe]
        buckets = sorted({at // width_s for at, _ in own}, reverse=True)[: AGES + 1]
        made = candles_of(own, timeframe)
        engine.clear(0)
        applied = 0
        for age, bucket in reversed([*enumerate(buckets)]):
            known = [(0, at, swap) for at, swap in own if at // width_s <= bucket]
            engine.apply(as_trades(known[applied:]))
            applied = len(known)
            of = shown(report_of(mint, engine.snapshot(0, NOW), NOW))
            of |= of_candles(made[: len(made) - age], timeframe)
            if not age:
                found |= {name: value for name, value in of.items() if name not in found}
            else:
                found |= {earlier(name, timeframe, age): of[name] for name in crossed(timeframe)}
        for age in range(len(buckets), AGES + 1):
            found |= {earlier(name, timeframe, age): None for name in crossed(timeframe)}
    return found


def crossed(timeframe: Timeframe) -> list[str]:
    """Return the fields of *timeframe* whose values in earlier candles conditions can use."""
    return ["price", *(f"{name}_{timeframe}" for name, _ in OF_TIMEFRAMES)]


def shown(report: TokenReport) -> dict[str, float | None]:
    """Return the numbers of *report*, by their names in conditions."""
    found: dict[str, float | None] = {"price": report.price.usd, "price_sol": report.price.sol}
    for timeframe in TIMEFRAMES:
        of: TimeframeIndicators = getattr(report.indicators, timeframe)
        for name in (*AVERAGES, "rsi"):
            found[f"{name}_{timeframe}"] = getattr(of, name)
        for name, part in (("macd", "line"), ("macd_signal", "signal")):
            found[f"{name}_{timeframe}"] = None if of.macd is None else getattr(of.macd, part)
        histogram = None if of.macd is None else of.macd.histogram
        found[f"macd_histogram_{timeframe}"] = histogram
        counts: Any = report.data_span.candle_counts
        found[f"candles_{timeframe}"] = getattr(counts, timeframe)
    return found


def made_number(random: Random, names: list[str]) -> Tree:
    kind = random.random()
    if kind < 0.6:
        return ("field", random.choice(names))
    if kind < 0.9:
        return ("number", random.choice(NUMBERS))
    return (random.choice("+-*/"), made_number(random, names), made_number(random, names))


def made_condition(random: Random, names: list[str], depth: int = 2) -> Tree:
    kind = random.random()
    if kind < 0.15:
        return made_crossing(random)
    if depth == 0 or kind < 0.5:
        mark = random.choice(sorted(COMPARE))
        return (mark, made_number(random, names), made_number(random, names))
    if kind < 0.6:
        return ("not", made_condition(random, names, depth - 1))
    parts = [made_condition(random, names, depth - 1) for _ in range(random.randrange(2, 4))]
    return (random.choice(("and", "or")), parts)


def made_crossing(random: Random) -> Tree:
    timeframe = random.choice(TIMEFRAMES)
    fields = [("field", name) for name in crossed(timeframe)]
    pair = [random.choice(fields[1:]), random.choice([*fields, ("number", random.choice(NUMBERS))])]
    random.shuffle(pair)
    return (random.choice(sorted(CROSSES)), *pair, timeframe, random.randint(1, AGES))


def screened(listed: ListedTokens, text: str) -> set[str]:
    asked = ScreenQuestion(parse_condition(text), "price", False, ["price"], TOKENS)  # noqa: FBT003
    return {listed.mint_in(row).mint for row in listed.screen(asked).rows}


@pytest.mark.storm
def test_rows_of_conditions_agree_with_the_report_of_each_token() -> None:
    random, engine, values = Random(8), Engine(1), {}
    at = FoldedTo(1, Slot(1), NOW)
    tokens = TokenList(at)
    page = []
    for n in range(TOKENS):
        mint = Mint(f"mint{n}")
        own = traded(random, mint)
        page.append(folded(mint, own))
        values[str(mint)] = all_values(engine, mint, own)
    tokens.seed(MintPage(folded=at, mints=page, last=TOKENS))
    listed = tokens.listed()
    names = sorted(name for name in values["mint0"] if "@" not in name)
    assert {*names} > {f"{name}_h1" for name, _ in (*OF_TIMEFRAMES, *OF_NEWEST)}
    found = 0
    for _ in range(CONDITIONS):
        tree = made_condition(random, names)
        text = text_of(tree)
        wanted = {mint for mint, of in values.items() if is_true(tree, of)}
        assert screened(listed, text) == wanted, text
        found += 0 < len(wanted) < TOKENS
    assert found > CONDITIONS // 3
