"""The tokens that a random condition selects are those for which a slow evaluation is true."""

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.engine.fold import MintFold
from mintscope.market.log import PricedSwap
from mintscope.market.report import Price, TimeframeIndicators, report_of
from mintscope.market.screening.grammar import FIELDS, Negation, before, parse_condition
from mintscope.market.screening.listed import ListedTokens, key_of
from mintscope.market.screening.screen import Place, ScreenQuestion, least, rows_where
from mintscope.market.screening.snapshot import FoldedTo, MintAsFolded, MintPage
from mintscope.market.screening.token_list import TokenList
from mintscope.market.standing import Offer, stand
from mintscope.market.standings import basis_by, pack
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S
from support.oracles.slow_screen import Tree, is_true, text_of

NOW: Final = UnixS(1_760_000_040)
TOKENS: Final = 40
NUMBERS: Final = [name for name, field in FIELDS.items() if not field.is_level]


class Screened(NamedTuple):
    listed: ListedTokens
    values: Mapping[str, Mapping[str, Any]]  # as shown, by mint
    swaps: Mapping[Mint, list[tuple[UnixS, PricedSwap]]]


@cache
def market() -> Screened:
    """Return tokens of very different histories, some without any price."""
    random = Random(5)
    swaps: dict[Mint, list[tuple[UnixS, PricedSwap]]] = {}
    folded = FoldedTo(1, Slot(1), NOW)
    tokens = TokenList(folded)
    page = []
    for n in range(TOKENS):
        mint = Mint(f"mint{n}")
        times = sorted(random.randrange(NOW - 400_000, NOW) for _ in range(n * n // 3))
        usd, own = random.uniform(0.1, 50.0), []
        for time in times:
            usd *= random.choice((1.0, random.uniform(0.9, 1.1)))
            price = None if random.random() < 0.05 else usd
            sol = None if price is None else price / 100
            swap = PricedSwap(
                mint, 0, 0, -1, 0, is_buy=True, volume=10, price_usd=price, price_sol=sol
            )
            own.append((UnixS(time), swap))
        fold = MintFold()
        for at, swap in own:
            fold.apply(at, swap)
        swaps[mint] = own
        page.append(
            MintAsFolded(
                mint=mint,
                since=random.choice((None, UnixS(NOW - 1_000 * n))),
                state=fold.state() if own else None,
                facts=None,
                before=(random.uniform(1.0, 9.0), None, 3.0) if n % 3 else (None, None, None),
                minutes=[],
                parts=[],
            )
        )
    tokens.seed(MintPage(folded=folded, mints=page, last=TOKENS))
    listed = tokens.listed()
    found = listed.screen(ScreenQuestion(None, "price", False, [*FIELDS], TOKENS))  # noqa: FBT003
    values: dict[str, Mapping[str, Any]] = {
        listed.mint_in(row).mint: dict(zip(FIELDS, line, strict=True))
        for row, line in zip(found.rows, found.values, strict=True)
    }
    return Screened(listed, values, swaps)


def test_each_number_of_a_candle_equals_the_number_in_the_report() -> None:
    """The list keeps only candles; the report reads all swaps.  The numbers are exactly equal."""
    listed, values, swaps = market()
    engine = Engine(1)
    compared = 0
    for mint, own in swaps.items():
        if all(swap.price_usd is None for _, swap in own):
            assert values[mint]["price"] is None
            continue
        engine.clear(0)
        engine.apply(as_trades([(0, time, swap) for time, swap in own]))
        report = report_of(mint, engine.snapshot(0, NOW), NOW)
        assert values[mint]["price"] == report.price.usd
        for timeframe in TIMEFRAMES:
            of: TimeframeIndicators = getattr(report.indicators, timeframe)
            counts = report.data_span.candle_counts
            assert values[mint][f"candles_{timeframe}"] == getattr(counts, timeframe)
            macd = of.macd
            expected = {
                **{name: getattr(of, name) for name in ("ema9", "ema21", "ema50", "ema200", "rsi")},
                "macd": None if macd is None else macd.line,
                "macd_signal": None if macd is None else macd.signal,
                "macd_histogram": None if macd is None else macd.histogram,
            }
            for name, value in expected.items():
                assert values[mint][f"{name}_{timeframe}"] == value
                compared += value is not None
        expect_values_before(listed, mint, own, engine)
    assert compared > 500
    assert len(listed) == TOKENS


def expect_values_before(
    listed: ListedTokens, mint: Mint, own: list[tuple[UnixS, PricedSwap]], engine: Engine
) -> None:
    """Assert that values before the newest candle equal the report without its open candle."""
    priced = [(time, swap.price_usd) for time, swap in own if swap.price_usd is not None]
    newest = priced[-1][0]
    report = report_of(mint, engine.snapshot(0, newest, leaves_out_open=True), newest)
    row = next(row for row in range(TOKENS) if listed.mint_in(row).mint == mint)
    for timeframe in TIMEFRAMES:
        of: TimeframeIndicators = getattr(report.indicators, timeframe)
        width = WIDTH_S[timeframe]
        earlier = [usd for time, usd in priced if time // width < newest // width]
        expected = {
            "price": earlier[-1] if earlier else None,
            f"ema9_{timeframe}": of.ema9,
            f"rsi_{timeframe}": of.rsi,
            f"macd_histogram_{timeframe}": None if of.macd is None else of.macd.histogram,
        }
        for name, value in expected.items():
            shown = float(listed.columns.column(before(name, timeframe))[row])
            assert (None if np.isnan(shown) else shown) == value, (name, timeframe)


def trees() -> st.SearchStrategy[Tree]:
    fields = st.sampled_from(NUMBERS).map(lambda name: ("field", name))
    numbers = st.sampled_from((0.0, 1.0, 0.5, 30.0, 50.0, 1e3, 1e-9)).map(lambda x: ("number", x))
    sums = st.recursive(
        fields | numbers,
        lambda inner: (
            st.tuples(st.sampled_from("+-*/"), inner, inner)
            | inner.map(lambda tree: ("negative", tree))
        ),
        max_leaves=4,
    )
    comparisons = st.tuples(st.sampled_from(("<", "<=", ">", ">=", "=", "!=")), sums, sums)
    return st.recursive(
        comparisons,
        lambda inner: (
            st.tuples(st.sampled_from(("and", "or")), st.lists(inner, min_size=2, max_size=3))
            | inner.map(lambda tree: ("not", tree))
        ),
        max_leaves=4,
    )


@settings(max_examples=120, deadline=None)
@given(
    tree=trees(),
    sort=st.sampled_from(sorted(FIELDS)),
    is_rising=st.booleans(),
    limit=st.integers(1, 9),
)
def test_pages_have_each_token_that_fulfils_a_condition_once_in_order(
    *,
    tree: Tree,
    sort: str,
    is_rising: bool,
    limit: int,
) -> None:
    listed, values, _ = market()
    text = text_of(tree)
    if len(text) > 900:
        return
    wanted = {mint for mint, of in values.items() if is_true(tree, of)}
    asked = ScreenQuestion(parse_condition(text), sort, is_rising, ["price"], limit)
    found: list[str] = []
    after: Place | None = None
    while True:
        page = listed.screen(asked._replace(after=after))
        assert page.matches == len(wanted)
        found += [listed.mint_in(row).mint for row in page.rows]
        after = page.after
        if after is None:
            break
        assert len(page.rows) == limit
    levels = {"low": 0, "medium": 1, "high": 2}

    def place(mint: str) -> tuple[float, int]:
        value = values[mint][sort]
        sign = 1 if is_rising else -1
        number = levels.get(value, value)
        return (np.inf if number is None else sign * number, sign * key_of(Mint(mint)))

    assert found == sorted(wanted, key=place), text


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**64 - 1))), st.integers(1, 9))
def test_the_least_values_are_found_among_many_equal_values(
    lines: list[tuple[int, int]], count: int
) -> None:
    values = np.array([value for value, _ in lines], np.float64)
    keys = np.array([key for _, key in lines], np.uint64)
    found = [(values[at], keys[at]) for at in least(values, keys, count)]
    assert found == sorted(zip(values, keys, strict=True))[:count]


@pytest.mark.parametrize(
    ("mark", "found"),
    [("<", [1]), ("<=", [0, 1]), (">", [2]), (">=", [0, 2]), ("=", [0]), ("!=", [1, 2])],
)
def test_each_comparison_and_its_negation_find_the_right_rows(mark: str, found: list[int]) -> None:
    columns = {
        "price": np.array([1.0, 1.0, 2.0, np.nan]),
        "price_sol": np.array([1.0, 2.0, 1.0, 1.0]),
    }
    condition = parse_condition(f"price {mark} price_sol")
    is_true = rows_where(condition, columns.__getitem__, 4)
    is_false = rows_where(Negation(condition), columns.__getitem__, 4)
    assert np.flatnonzero(is_true).tolist() == found
    assert np.flatnonzero(is_false).tolist() == [row for row in range(3) if row not in found]


def test_a_condition_of_numbers_alone_holds_for_all_or_none() -> None:
    assert (
        rows_where(parse_condition("1 < 2"), dict[str, Any]().__getitem__, 3).tolist() == [True] * 3
    )
    assert not rows_where(parse_condition("1 / 0 > 2"), dict[str, Any]().__getitem__, 3).any()


def test_liquidity_age_and_confidence_of_prices_equal_the_report() -> None:
    """The pools are random: some are deep and old, some young, silent, or at another price."""
    random = Random(8)
    folded = FoldedTo(1, Slot(1), NOW)
    tokens, page, expected = TokenList(folded), [], {}
    for n in range(150):
        mint, standing = Mint(f"mint{n}"), None
        time = NOW - random.choice((400, 2_000, 9_000))
        depth = random.choice((10**8, 5 * 10**9, 3 * 10**11))
        for _ in range(random.randrange(1, 40)):
            pool = random.choice(("a", "a", "b"))
            usd = 1.0 if pool == "a" or n % 2 else 2.0
            signer = random.choice("pqrstuv") * 8
            shown = None if n % 9 == 0 else depth
            offer = Offer(pool, signer, usd, usd / 100, 10**7, shown, UnixS(time))
            standing, _ = stand(standing, offer)
            time = min(NOW, time + random.choice((1, 30, 200)))
        assert standing is not None
        fold = MintFold()
        swap = PricedSwap(mint, 0, 0, -1, 0, is_buy=True, volume=1, price_usd=1.0, price_sol=0.01)
        fold.apply(NOW, swap)
        page.append(
            MintAsFolded(
                mint=mint,
                since=None,
                state=fold.state(),
                facts=None,
                before=(None, None, None),
                minutes=[],
                parts=[],
                standing=pack(standing),
            )
        )
        price = Price.of(1.0, 0.01, basis_by(standing), NOW)
        assert price.age_ms is not None
        expected[mint] = (price.liquidity_usd, price.age_ms // 1_000, price.confidence.value)
    tokens.seed(MintPage(folded=folded, mints=page, last=len(page)))
    listed = tokens.listed()
    names = ["liquidity", "price_age_s", "confidence"]
    found = listed.screen(ScreenQuestion(None, "price", False, names, 200))  # noqa: FBT003
    shown_of = {
        listed.mint_in(row).mint: line for row, line in zip(found.rows, found.values, strict=True)
    }
    assert shown_of == expected
    assert {confidence for _, _, confidence in expected.values()} == {"low", "medium", "high"}
