"""Prices and volumes agree with exact fractions, a naive median and real transactions."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from statistics import median_low

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.pricing import Rate, Unpriced, price_slot, sol_usd, sol_usd_samples
from mintscope.market.quotes import BASIC
from mintscope.market.sol_rate import Sample, weighted_median
from mintscope.market.standings import Standings
from mintscope.solana.blocks import USDC, USDT, WSOL
from support.fakes.made_chain import MINTS, sol_sale, swap

TOKEN, OTHER = MINTS[0], MINTS[1]
NOW = UnixS(1_750_000_000)
RATE = Rate(150.25, NOW)
U64_MAX = 2**64 - 1


def only(swaps: Sequence[Swap], rate: Rate | None = RATE) -> PricedSwap:
    """Price *swaps* as one slot; return the only priced swap."""
    (priced,) = price_slot(swaps, rate).swaps
    return priced


def reasons(swaps: Sequence[Swap], rate: Rate | None = RATE) -> dict[str, int]:
    return {str(reason): count for reason, count in price_slot(swaps, rate).unpriced.items()}


def header(
    time: int,
    *,
    usd: float | None = None,
    at: int | None = None,
    samples: tuple[Sample, ...] = (),
) -> SlotHeader:
    return SlotHeader(
        slot=Slot(time),
        parent_slot=Slot(time - 1),
        blockhash="",
        time=UnixS(time),
        sol_usd=usd,
        sol_usd_time=None if at is None else UnixS(at),
        samples=samples,
    )


# Prices


def test_a_token_bought_with_sol_has_its_price_and_volume() -> None:
    """The swap pays 2 SOL for 1,000 tokens of 6 decimals."""
    priced = only([swap(TOKEN, WSOL, base_amount=10**9, quote_amount=2 * 10**9)])

    assert (priced.mint, priced.is_buy) == (TOKEN, True)
    assert priced.price_sol == 0.002
    assert priced.price_usd == 0.002 * 150.25
    assert priced.volume == 300_500_000


def test_a_token_sold_for_dollars_has_its_price_and_volume() -> None:
    priced = only([swap(TOKEN, USDC, base_amount=10**9, quote_amount=3 * 10**6, is_buy=False)])

    assert priced.is_buy is False
    assert priced.price_usd == 0.003
    assert priced.price_sol == 0.003 / 150.25
    assert priced.volume == 3_000_000


def test_sol_costs_one_sol_and_the_rate_in_dollars() -> None:
    other = sol_sale(149.0, index=1)._replace(pool="other")
    priced, _ = price_slot([sol_sale(151.5), other], RATE).swaps

    assert (priced.mint, priced.price_usd, priced.price_sol) == (WSOL, RATE.usd, 1.0)
    assert priced.offered == (151.5, 1.0)
    assert priced.volume == 151_500_000
    assert only([sol_sale(151.5)]).price_usd == 151.5  # it trades in one pool


@pytest.mark.parametrize("quote", [WSOL, USDC, USDT])
def test_no_swap_counts_without_a_rate(quote: Mint) -> None:
    priced = price_slot([swap(TOKEN, quote, base_amount=10**9, quote_amount=10**9)], None)

    assert priced.swaps == []
    assert priced.unpriced == {Unpriced.NO_RATE: 1}


def test_no_swap_counts_without_an_anchor() -> None:
    assert reasons([swap(TOKEN, OTHER, base_amount=10**9, quote_amount=10**9)]) == {"no_anchor": 1}
    assert price_slot([swap(TOKEN, OTHER, base_amount=10**9, quote_amount=10**9)], RATE).swaps == []


@pytest.mark.parametrize(
    ("quote", "base_amount", "quote_amount", "sets_price"),
    [
        (WSOL, 1_000, 100_000, True),
        (WSOL, 999, 100_000, False),
        (WSOL, 1_000, 99_999, False),
        (USDC, 1_000, 20_000, True),
        (USDC, 999, 20_000, False),
        (USDT, 1_000, 19_999, False),
    ],
)
def test_dust_adds_volume_only(
    quote: Mint, base_amount: int, quote_amount: int, *, sets_price: bool
) -> None:
    dust = swap(TOKEN, quote, base_amount=base_amount, quote_amount=quote_amount)
    priced = only([dust])

    assert (priced.price_usd is not None) is sets_price
    assert (priced.price_sol is not None) is sets_price
    assert priced.volume > 0
    assert reasons([dust]) == ({} if sets_price else {"dust": 1})


def test_dust_of_less_than_a_micro_dollar_is_left_out() -> None:
    assert price_slot([swap(TOKEN, WSOL, base_amount=58, quote_amount=3)], RATE).swaps == []


def test_unknown_decimals_set_no_price() -> None:
    unknown = swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, base_decimals=None)
    priced = only([unknown])

    assert (priced.price_usd, priced.price_sol, priced.volume) == (None, None, 150_250_000)
    assert reasons([unknown]) == {"unknown_decimals": 1}


def test_a_trader_on_both_sides_of_a_transaction_adds_no_volume() -> None:
    """The volume of a trader who both buys and sells counts for nothing; the prices are valid."""
    both = [
        swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, inner=0, signer="a"),
        swap(TOKEN, USDC, base_amount=10**9, quote_amount=10**8, inner=1, is_buy=False, signer="a"),
        swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, inner=2, signer="b"),
        swap(OTHER, WSOL, base_amount=10**9, quote_amount=10**9, inner=3, signer="a"),
        swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, index=1, signer="a"),
    ]
    priced = price_slot(both, RATE).swaps

    assert [one.volume > 0 for one in priced] == [False, False, True, True, True]
    assert all(one.price_usd for one in priced)


def test_a_rejected_round_trip_that_changes_its_pool_is_in_the_log() -> None:
    """After a restart, pools are known only from the log, so the log must have each change."""
    pools = Standings()
    deep = swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9)
    deep = deep._replace(pool="deep", in_left=10**12)
    trip = [
        swap(TOKEN, WSOL, base_amount=10**8, quote_amount=10**9, inner=n, is_buy=n == 0)._replace(
            pool="own", in_left=10**9, out_left=10**9
        )
        for n in range(2)
    ]
    for slot, swaps in enumerate([[deep], trip]):
        pools.begin(Slot(slot))
        priced = price_slot(swaps, RATE, pools.sets_price, BASIC, UnixS(NOW + slot)).swaps

    assert pools.changed().keys() == {one.mint for one in priced} == {TOKEN}
    assert [(one.volume, one.price_usd) for one in priced] == [(0, None), (0, None)]
    assert all(one.evidence and one.offered for one in priced)


def test_swaps_come_out_in_chain_order() -> None:
    swaps = [
        swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9, index=index, inner=inner)
        for index, inner in [(2, -1), (0, 3), (0, -1), (1, 0)]
    ]
    order = [(one.transaction_index, one.inner) for one in price_slot(swaps, RATE).swaps]

    assert order == [(0, -1), (0, 3), (1, 0), (2, -1)]


AMOUNTS = st.one_of(
    st.integers(0, U64_MAX), st.integers(0, 10**6), st.sampled_from([0, 1, 999, 1000, U64_MAX])
)


@settings(max_examples=300, derandomize=True)
@given(
    base_amount=AMOUNTS,
    quote_amount=AMOUNTS,
    decimals=st.one_of(st.none(), st.integers(0, 255)),
    quote=st.sampled_from([WSOL, USDC]),
    usd=st.floats(0.01, 1e6),
)
def test_prices_and_volumes_of_any_amounts_are_finite_and_exact(
    base_amount: int, quote_amount: int, decimals: int | None, quote: Mint, usd: float
) -> None:
    """The expected values are computed from the definitions with exact fractions."""
    one = swap(
        TOKEN, quote, base_amount=base_amount, quote_amount=quote_amount, base_decimals=decimals
    )
    priced = price_slot([one], Rate(usd, NOW))
    dollars = Fraction(quote_amount, 10**6)
    if quote == WSOL:
        dollars = Fraction(quote_amount, 10**9) * Fraction(usd)
    volume = math.floor(dollars * 10**6)

    if not priced.swaps:
        assert volume == 0 or volume > 10**15
        return
    (seen,) = priced.swaps
    # A swap without a price, because it is dust or the price is absurd, counts up to ten cents; a
    # swap without a price because its decimals are unknown counts in full.
    is_dust = base_amount < 1_000 or quote_amount < (100_000 if quote == WSOL else 20_000)
    is_rejected = (is_dust or decimals is not None) and seen.price_usd is None and volume > 100_000
    assert seen.volume == (0 if is_rejected else volume) <= 10**15
    is_reported = seen.price_usd is not None or is_dust or decimals is not None
    assert (seen.evidence is not None) == is_reported
    if seen.price_usd is not None and seen.price_sol is not None:
        assert decimals is not None
        exact = dollars / Fraction(base_amount, 10**decimals)
        assert seen.price_usd == pytest.approx(float(exact), rel=1e-15)
        assert seen.price_sol == pytest.approx(float(exact / Fraction(usd)), rel=1e-15)
        assert 1e-24 <= seen.price_usd <= 1e12


def test_an_absurd_volume_is_dropped() -> None:
    assert reasons([swap(TOKEN, USDC, base_amount=10**9, quote_amount=U64_MAX)]) == {
        "absurd_volume": 1
    }


@pytest.mark.parametrize(("decimals", "base_amount"), [(255, 10**9), (31, 10**9), (30, 1_000)])
def test_an_absurd_price_is_rejected_without_volume(decimals: int, base_amount: int) -> None:
    one = swap(TOKEN, USDC, base_amount=base_amount, quote_amount=10**9, base_decimals=decimals)

    assert only([one]).price_usd is None
    assert only([one]).volume == 0
    assert reasons([one]) == {"absurd_price": 1}


# The rate


def naive_median(samples: Sequence[tuple[float, int]]) -> float:
    """Return the lower weighted median of (price, weight) samples, by repeating each price."""
    return median_low([price for price, weight in samples for _ in range(weight)])


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.tuples(st.floats(1, 1000), st.integers(1, 40)), min_size=1, max_size=12))
def test_the_median_is_weighted(samples: list[tuple[float, int]]) -> None:
    assert weighted_median(samples) == naive_median(samples)


def test_samples_are_swaps_of_sol_for_dollars() -> None:
    swaps = [
        sol_sale(150, index=1),
        swap(WSOL, USDT, base_amount=50_000_000, quote_amount=7_550_000, base_decimals=9),
        swap(WSOL, USDC, base_amount=49_999_999, quote_amount=7_550_000, base_decimals=9),
        swap(TOKEN, USDC, base_amount=10**9, quote_amount=10**9),
        swap(TOKEN, WSOL, base_amount=10**9, quote_amount=10**9),
        swap(USDT, USDC, base_amount=10**9, quote_amount=10**9),
    ]

    assert [(one.usd, one.lamports) for one in sol_usd_samples(swaps)] == [
        (150.0, 10**9),
        (151.0, 50_000_000),
    ]


@pytest.mark.parametrize(
    ("lamports", "dollars"), [(U64_MAX, 1), (U64_MAX, U64_MAX), (10**9, U64_MAX), (10**9, 0)]
)
def test_absurd_swaps_give_no_samples(lamports: int, dollars: int) -> None:
    one = swap(WSOL, USDC, base_amount=lamports, quote_amount=dollars, base_decimals=9)

    assert sol_usd_samples([one]) == ()


def test_the_rate_uses_samples_of_sixty_seconds() -> None:
    recent = [
        header(1_040, usd=9.0, at=1_040, samples=(Sample(100.0, 5, None, "a"),)),
        header(1_000, usd=9.0, at=1_000, samples=(Sample(50.0, 50, None, "b"),)),
        header(999, usd=9.0, at=999, samples=(Sample(1.0, 10**9, None, "c"),)),
    ]

    now = (Sample(100.0, 1, None, "a"),)
    assert sol_usd(recent, now, UnixS(1_060)) == Rate(50.0, UnixS(1_060))
    assert sol_usd(recent, now, UnixS(1_061)) == Rate(100.0, UnixS(1_061))
    heavy = (Sample(200.0, 10**4, None, "a"),)
    assert sol_usd(recent, heavy, UnixS(1_060)) == Rate(200.0, UnixS(1_060))


def test_the_rate_does_not_change_in_a_slot_without_a_sample() -> None:
    recent = [
        header(1_040, usd=9.0, at=1_035),
        header(1_000, usd=8.0, at=1_000, samples=(Sample(50.0, 50, None, "b"),)),
    ]

    assert sol_usd(recent, (), UnixS(1_060)) == Rate(9.0, UnixS(1_035))


def test_the_last_rate_is_valid_for_three_hundred_seconds() -> None:
    recent = [header(1_100, usd=90.0, at=1_000)]

    assert sol_usd(recent, (), UnixS(1_300)) == Rate(90.0, UnixS(1_000))
    assert sol_usd(recent, (), UnixS(1_301)) is None
    assert sol_usd([header(1_100)], (), UnixS(1_100)) is None
    assert sol_usd([], (), UnixS(1_100)) is None


# Real transactions


def real_swaps(shared_data: Path) -> list[tuple[dict[str, str], Swap, int]]:
    """Return (expected row, swap, block time) for each recorded swap of data/transactions."""
    rows = (shared_data / "transactions" / "expected_swaps.jsonl").read_text().splitlines()
    swaps = []
    for row in map(json.loads, rows):
        made = Swap(
            Signature(row["signature"]), 0, row["ix"][0], row["ix"][-1], 0, row["program"],
            row["pool"], Mint(row["in_mint"]), int(row["in_amount"]), row["in_decimals"],
            Mint(row["out_mint"]), int(row["out_amount"]), row["out_decimals"], row["signature"],
        )  # fmt: skip
        swaps.append((row, made, row["time"]))
    return swaps


def test_real_sol_prices_agree_with_the_prices_of_their_months(shared_data: Path) -> None:
    """Prices by month are those in notes on the recorded swaps, of at least 0.05 SOL each."""
    found: dict[str, list[float]] = {}
    for _, made, time in real_swaps(shared_data):
        for one in sol_usd_samples([made]):
            month = datetime.fromtimestamp(time, UTC).strftime("%Y-%m")
            found.setdefault(month, []).append(round(one.usd, 1))

    assert (min(found["2024-03"]), max(found["2024-03"])) == (191.6, 202.7)
    assert found["2024-11"] == [216.0]
    assert found["2025-06"] == [160.2]
    assert found["2025-11"] == [155.1]
    assert "2025-10" not in found  # 0.039 SOL


def test_real_swaps_of_a_mint_with_one_pool_all_set_the_price(
    shared_data: Path,
) -> None:
    """All swaps are in one log; where a mint has one pool, the rules must reject no price."""
    pools, now, alone = Standings(), 0, 0
    rows = sorted(real_swaps(shared_data), key=lambda r: r[2] or 0)
    traded: dict[str, set[str]] = {}
    for _, made, _ in rows:
        for mint in (made.in_mint, made.out_mint):
            traded.setdefault(mint, set()).add(made.pool)
    for slot, (_, made, time) in enumerate(rows):
        pools.begin(Slot(slot))
        now = max(now, time or 0)
        rate = Rate(200.0, UnixS(now))
        reported = price_slot([made], rate, pools.sets_price, BASIC, UnixS(now))
        if all(len(traded[one.mint]) == 1 for one in reported.swaps):
            alone += 1
            assert reported == price_slot([made], rate)
    assert alone > 40


def test_real_prices_and_volumes_agree_with_the_recorded_values(shared_data: Path) -> None:
    priced_rows = 0
    for row, made, time in real_swaps(shared_data):
        if not row.get("price"):
            continue
        result = price_slot([made], Rate(200.0, UnixS(time)))
        for seen in result.swaps:
            assert seen.mint == row["base"]
            assert seen.is_buy is (row["side"] == "buy")
            micro_usd = float(row["quote_volume"]) * 10**6
            if row["quote_kind"] == "SOL":
                micro_usd *= 200
            if seen.price_usd is None and micro_usd > 100_000:
                micro_usd = 0.0  # for less than 1,000 raw units
            assert seen.volume == pytest.approx(micro_usd, abs=1)
            own = seen.offered or (seen.price_usd, seen.price_sol)  # of SOL it is not the rate
            price = own[row["quote_kind"] == "SOL"]
            if price is not None:
                assert price == pytest.approx(float(row["price"]), rel=1e-12)
                priced_rows += 1

    assert priced_rows > 70
