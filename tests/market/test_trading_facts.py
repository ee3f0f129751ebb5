"""Shares, first buyers and the launch of a mint agree with a slow reading of the same swaps."""

from itertools import combinations, groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prove.prices.scenarios import read_launches

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.log import Evidence, PricedSwap, SwapDetail, Uncounted
from mintscope.market.series.conduct import first_buyers, launch_of, shares_of
from mintscope.market.series.pools import LoggedSwap, SwapPlace

Line = tuple[int, str, str, int, int, bool, bool]  # slot, who, pool, flow, amount, buys, is a trip

LINES = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from(("ann", "bob", "cat", "")),
        st.sampled_from(("one", "two")),
        st.integers(0, 10**9),
        st.integers(0, 10**9),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
).map(lambda lines: sorted(lines, key=lambda line: line[0]))


def logged(number: int, line: Line) -> LoggedSwap:
    slot, who, pool, flow, amount, is_buy, is_trip = line
    detail = SwapDetail(Signature("s"), "pumpswap", amount, 6, Mint("quote"), 1, 0)
    uncounted = Uncounted.ROUND_TRIP if is_trip else Uncounted.NOT
    evidence = Evidence(None, flow, who, uncounted=uncounted)
    swap = PricedSwap(
        Mint("mint"), number, 0, -1, 0, is_buy=is_buy, volume=0, price_usd=1.0, price_sol=0.01,
        pool=pool or None, detail=detail, evidence=evidence,
    )  # fmt: skip
    return LoggedSwap(SwapPlace(Slot(slot), number, 0, -1, 0), UnixS(10 * slot), swap)


def sandwiched(lines: list[Line]) -> int:
    """Return the total volume of both outer swaps of each sandwich, found by trying all triples."""
    slots = groupby(lines, lambda line: line[0])
    return sum(sandwiched_in_slot(list(of)) for _, of in slots)


def sandwiched_in_slot(lines: list[Line]) -> int:
    outer = set()
    for i, j, k in combinations(range(len(lines)), 3):
        first = lines[i]
        between = lines[j]
        last = lines[k]
        is_one_place = first[2] == between[2] == last[2]
        is_around = first[1] == last[1] != between[1] and first[5] == between[5] != last[5]
        if is_one_place and is_around:
            outer |= {i, k}
    return sum(lines[n][3] for n in outer)


def expect_facts(lines: list[Line]) -> None:
    """Assert that the facts of *lines*, oldest first, agree with a slow computation."""
    newest_first = [logged(n, line) for n, line in enumerate(lines)][::-1]
    known = [line for line in lines if line[1]]
    total = sum(line[3] for line in known)
    shares = shares_of(newest_first)
    if not total:
        assert shares == (None, None, None)
    else:
        slots = {line[0] for line in known}
        often = {
            who
            for who in {line[1] for line in known}
            if 2 * len({line[0] for line in known if line[1] == who}) >= len(slots)
        }
        each = sum(line[3] for line in known if line[1] in often) / total
        assert shares.round_trips == sum(line[3] for line in known if line[6]) / total
        assert shares.sandwiches == sandwiched(known) / total
        assert shares.each_slot == (each if len(slots) >= 20 else None)

    bought = [line for line in known if line[5]]
    names = list(dict.fromkeys(line[1] for line in bought))
    firsts = [next(line for line in bought if line[1] == name) for name in names]
    assert [(one.trader, one.at, one.flow, one.amount) for one in first_buyers(newest_first)] == [
        (line[1], 10 * line[0], line[3], line[4]) for line in firsts[:20]
    ]
    early = [line for line in bought if line[0] in sorted({line[0] for line in known})[:3]]
    buyers = {line[1] for line in early}
    held = [
        sum(line[4] if line[5] else -line[4] for line in known if line[1] == who) for who in buyers
    ]
    launch = launch_of(newest_first)
    assert (launch.buyers, launch.bought) == (len(buyers), sum(line[4] for line in early))
    assert launch.held == sum(each for each in held if each > 0)


@given(LINES)
def test_facts_agree_with_a_slow_reading(lines: list[Line]) -> None:
    expect_facts(lines)


def test_facts_of_real_launches_agree_with_their_trades(shared_data: Path) -> None:
    """Each second counts as a slot, because the recorded trades have no finer time."""
    path = shared_data / "market_2026" / "launch_trades.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"did not run: the launches are not there: {path}")
    launches = read_launches(path)
    assert len(launches) >= 9
    sandwiches = 0
    for launch in launches:
        lines: list[Line] = [
            (
                swap["ts"],
                swap["trader"],
                launch["pool"],
                round(swap["sol"] * 150 * 10**6),
                round(swap["tokens"] * 10**6),
                swap["side"] == "buy",
                False,
            )
            for swap in launch["swaps"]
        ]
        expect_facts(lines)
        sandwiches += sandwiched(lines) > 0
    assert sandwiches


def test_a_sandwich_is_the_two_swaps_around_the_third() -> None:
    lines: list[Line] = [
        (1, "bot", "one", 100, 10, True, False),
        (1, "ann", "one", 300, 30, True, False),
        (1, "bot", "one", 110, 10, False, False),
        (1, "bob", "one", 490, 49, False, False),
    ]
    newest_first = [logged(n, line) for n, line in enumerate(lines)][::-1]
    assert shares_of(newest_first).sandwiches == pytest.approx(0.21)


def test_swaps_without_a_known_pool_are_in_no_sandwich() -> None:
    lines: list[Line] = [
        (1, "bot", "", 100, 10, True, False),
        (1, "ann", "", 300, 30, True, False),
        (1, "bot", "", 110, 10, False, False),
    ]
    assert shares_of([logged(n, line) for n, line in enumerate(lines)][::-1]).sandwiches == 0.0
