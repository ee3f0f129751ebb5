"""Rows of random conditions over many tokens are those of their reports, looked at one by one."""

from random import Random
from typing import Any, Final

import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.engine.fold import MintFold
from mintscope.market.listing.listed import ListedTokens
from mintscope.market.listing.snapshot import FoldedTo, MintAsFolded, MintPage
from mintscope.market.listing.token_list import TokenList
from mintscope.market.log import PricedSwap
from mintscope.market.report import TimeframeIndicators, TokenReport, report_of
from mintscope.market.screening.grammar import parse_condition
from mintscope.market.screening.screen import ScreenQuestion
from mintscope.market.timeframe import TIMEFRAMES
from support.engines import FULL
from support.oracles.slow_screen import COMPARE, Tree, is_true, text_of

NOW: Final = UnixS(1_760_000_040)
TOKENS: Final = 5_000 if FULL else 300
CONDITIONS: Final = 1_000 if FULL else 60
SPANS_S: Final = (900, 20_000, 400_000)
NUMBERS: Final = (0.0, 0.5, 1.0, 2.0, 30.0, 50.0, 70.0)
AVERAGES: Final = ("ema9", "ema21", "ema50", "ema200")


def traded(random: Random, mint: Mint) -> list[tuple[UnixS, PricedSwap]]:
    span_s, usd = random.choice(SPANS_S), random.uniform(0.1, 50.0)
    own = []
    for time in sorted(random.randrange(NOW - span_s, NOW) for _ in range(random.randrange(1, 90))):
        usd *= random.uniform(0.9, 1.11)
        swap = PricedSwap(mint, 0, 0, -1, 0, random.random() < 0.5, 10, usd, usd / 150)
        own.append((UnixS(time), swap))
    return own


def folded(mint: Mint, own: list[tuple[UnixS, PricedSwap]]) -> MintAsFolded:
    fold = MintFold()
    for at, swap in own:
        fold.apply(at, swap)
    return MintAsFolded(
        mint=mint, since=None, state=fold.state(), facts=None, before=(None, None, None),
        minutes=[], parts=[],
    )  # fmt: skip


def shown(report: TokenReport) -> dict[str, float | None]:
    """Return the numbers of *report* by the names that conditions have for them."""
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
    if depth == 0 or kind < 0.5:
        mark = random.choice(sorted(COMPARE))
        return (mark, made_number(random, names), made_number(random, names))
    if kind < 0.6:
        return ("not", made_condition(random, names, depth - 1))
    parts = [made_condition(random, names, depth - 1) for _ in range(random.randrange(2, 4))]
    return (random.choice(("and", "or")), parts)


def screened(listed: ListedTokens, text: str) -> set[str]:
    asked = ScreenQuestion(parse_condition(text), "price", False, ["price"], TOKENS)  # noqa: FBT003
    return {listed.mint_in(row).mint for row in listed.screen(asked).rows}


@pytest.mark.storm
def test_rows_of_conditions_are_those_of_reports_one_by_one() -> None:
    random, engine, values = Random(8), Engine(1), {}
    at = FoldedTo(1, Slot(1), NOW)
    tokens = TokenList(at)
    page = []
    for n in range(TOKENS):
        mint = Mint(f"mint{n}")
        own = traded(random, mint)
        page.append(folded(mint, own))
        engine.clear(0)
        engine.apply(as_trades([(0, time, swap) for time, swap in own]))
        values[str(mint)] = shown(report_of(mint, engine.snapshot(0, NOW), NOW))
    tokens.seed(MintPage(folded=at, mints=page, last=TOKENS))
    listed = tokens.listed()
    names = sorted(values["mint0"])
    found = 0
    for _ in range(CONDITIONS):
        tree = made_condition(random, names)
        text = text_of(tree)
        wanted = {mint for mint, of in values.items() if is_true(tree, of)}
        assert screened(listed, text) == wanted, text
        found += 0 < len(wanted) < TOKENS
    assert found > CONDITIONS // 3
