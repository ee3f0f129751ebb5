"""Sums, concentration and gains of traders agree with a slow computation from the same swaps."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prove.prices.scenarios import read_launches

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.market.series.pools import LoggedSwap, SwapPlace, crowd_of, newest, top_traders

NOW = 1_760_000_040
Line = tuple[str, int, int, int, bool]  # who, seconds ago, micro-USD, raw amount, is it a purchase

LINES = st.lists(
    st.tuples(
        st.sampled_from(("ann", "bob", "cat", "dan", "")),
        st.integers(0, 600),
        st.integers(0, 10**9),
        st.integers(0, 10**12),
        st.booleans(),
    ),
    max_size=30,
)


def logged(line: Line) -> LoggedSwap:
    who, ago_s, flow, amount, is_buy = line
    detail = SwapDetail(Signature("s"), "pumpswap", amount, 6, Mint("quote"), 1, 0)
    swap = PricedSwap(
        Mint("mint"), 0, 0, -1, 0, is_buy=is_buy, volume=0, price_usd=1.0, price_sol=0.01,
        pool="pool", detail=detail, evidence=Evidence(None, flow, who),
    )  # fmt: skip
    return LoggedSwap(SwapPlace(Slot(1), 0, 0, -1, 0), UnixS(NOW - ago_s), swap)


def of(who: str, lines: Sequence[Line], *, is_buy: bool) -> tuple[int, int, int]:
    """Return micro-USD, raw units and number of the purchases, or sales, of trader *who*."""
    own = [line for line in lines if line[0] == who and line[4] is is_buy]
    return sum(line[2] for line in own), sum(line[3] for line in own), len(own)


def expect_sums(lines: Sequence[Line]) -> None:
    """Assert that the sums of each trader in *lines*, newest first, agree with its swaps."""
    names = {line[0] for line in lines} - {""}
    found = top_traders([logged(line) for line in lines], len(lines))

    assert {one.trader for one in found} == names
    flows = [one.bought + one.sold for one in found]
    assert flows == sorted(flows, reverse=True)
    for one in found:
        bought, bought_amount, buys = of(one.trader, lines, is_buy=True)
        sold, sold_amount, sells = of(one.trader, lines, is_buy=False)
        assert (one.bought, one.bought_amount) == (bought, bought_amount)
        assert (one.sold, one.sold_amount) == (sold, sold_amount)
        assert one.swaps == buys + sells
        times = [NOW - line[1] for line in lines if line[0] == one.trader]
        assert (one.first_at, one.last_at) == (min(times), max(times))
        if not bought_amount or not sold_amount:
            assert one.realised_usd is None
            continue
        both = min(bought_amount, sold_amount)
        gain = Fraction(sold, sold_amount) - Fraction(bought, bought_amount)
        scale = (Fraction(sold, sold_amount) + Fraction(bought, bought_amount)) * both / 10**6
        expected = float(both * gain / 10**6)
        assert one.realised_usd == pytest.approx(expected, rel=1e-9, abs=1e-9 * float(scale + 1))


def expect_crowd(lines: Sequence[Line]) -> None:
    """Assert that the crowd of the last five minutes of *lines*, newest first, is right."""
    within = [line for line in lines if line[1] < 300]
    crowd = crowd_of(newest([logged(line) for line in lines], UnixS(NOW)))

    known = [line for line in within if line[0]]
    assert crowd.buyers == len({line[0] for line in known if line[4]})
    assert crowd.sellers == len({line[0] for line in known if not line[4]})
    assert crowd.traders == len({line[0] for line in known})
    assert (crowd.swaps, crowd.flow) == (len(known), sum(line[2] for line in known))
    if not crowd.flow:
        assert crowd.top_share is crowd.top10_share is None
        return
    flows = [
        sum(line[2] for line in known if line[0] == who) for who in {line[0] for line in known}
    ]
    assert crowd.top_share == max(flows) / crowd.flow
    assert crowd.top10_share == sum(sorted(flows)[-10:]) / crowd.flow


@given(LINES)
def test_sums_of_each_trader_agree_with_its_swaps(lines: list[Line]) -> None:
    expect_sums(sorted(lines, key=lambda line: line[1]))


@given(LINES)
def test_a_crowd_has_its_counts_and_the_share_of_its_largest_traders(lines: list[Line]) -> None:
    expect_crowd(sorted(lines, key=lambda line: line[1]))


def test_traders_of_real_launches_agree_with_their_trades(shared_data: Path) -> None:
    path = shared_data / "market_2026" / "launch_trades.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"did not run: the launches are not there: {path}")
    launches = read_launches(path)
    assert len(launches) >= 9
    for launch in launches:
        swaps = launch["swaps"][::-1]
        lines: list[Line] = [
            (
                swap["trader"],
                swaps[0]["ts"] - swap["ts"],
                round(swap["sol"] * 150 * 10**6),
                round(swap["tokens"] * 10**6),
                swap["side"] == "buy",
            )
            for swap in swaps
        ]
        expect_sums(lines)
        expect_crowd(lines)


def test_the_top_ten_share_is_of_the_ten_largest_traders() -> None:
    lines = [(f"trader{n}", 1, 10 * n, 1, True) for n in range(1, 21)]
    crowd = crowd_of([logged(line) for line in lines])
    assert crowd.top10_share == sum(range(11, 21)) / sum(range(1, 21))
    assert [one.trader for one in top_traders([logged(line) for line in lines], 2)] == [
        "trader20", "trader19",
    ]  # fmt: skip
