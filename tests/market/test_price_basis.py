"""The basis of a price: its pools, their liquidity and its age; and its confidence."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.report import Price
from mintscope.market.series.pools import pools_of
from mintscope.market.standing import NO_FLOW, Offer, Standing, stand
from mintscope.market.standings import (
    Confidence,
    PriceBasis,
    Standings,
    basis_by,
    basis_of,
    before_standing,
    pack,
    unpack,
)

START: Final = 1_700_000_400
USD: Final = 10**6  # micro-USD
HOUR_S: Final = 3_600
TOKEN: Final = Mint("token")


def offer(  # noqa: PLR0913 - what a swap says
    after_s: int,
    usd: float = 2.0,
    *,
    pool: str = "deep",
    depth: int | None = 200_000,
    volume: int = 100,
    signer: str = "",
) -> Offer:
    """Return a swap *after_s* seconds from the start; *depth* and *volume* are in dollars."""
    micro_usd = None if depth is None else depth * USD
    who = signer or f"signer {after_s % 7}"
    return Offer(pool, who, usd, usd / 150, volume * USD, micro_usd, UnixS(START + after_s))


def stood(offers: Iterable[Offer]) -> Standing:
    standing: Standing | None = None
    for one in offers:
        standing, _ = stand(standing, one)
    assert standing is not None
    return standing


def traded(  # noqa: PLR0913 - what a market is made of
    until_s: int,
    usd: float = 2.0,
    *,
    pool: str = "deep",
    depth: int | None = 200_000,
    every_s: int = 5,
    since_s: int = 0,
) -> list[Offer]:
    return [
        offer(after_s, usd, pool=pool, depth=depth)
        for after_s in range(since_s, until_s + 1, every_s)
    ]


def reported(standing: Standing, after_s: int) -> Confidence:
    return basis_by(standing).confidence(UnixS(START + after_s))


@pytest.mark.parametrize(
    ("depth", "age_s", "expected"),
    [
        (100_000, 0, "high"),
        (100_000, 300, "high"),
        (100_000, 301, "medium"),
        (99_999, 0, "medium"),
        (1_000, 3_600, "medium"),
        (10**8, 3_601, "low"),
        (999, 0, "low"),
        (0, 0, "low"),
        (None, 0, "low"),
    ],
)
def test_liquidity_and_age_decide_the_confidence(
    depth: int | None, age_s: int, expected: str
) -> None:
    standing = stood(traded(900, depth=depth))
    assert reported(standing, 900 + age_s) == expected


@pytest.mark.parametrize(("after_s", "expected"), [(0, "low"), (595, "low"), (600, "high")])
def test_confidence_is_low_in_the_first_ten_minutes(after_s: int, expected: str) -> None:
    assert reported(stood(traded(after_s)), after_s) == expected


def test_confidence_is_low_after_three_swaps_and_a_long_silence() -> None:
    assert reported(stood(traded(10)), 900) == "low"


def test_liquidity_of_pools_that_agree_is_added() -> None:
    pools = ("one", "two", "three")
    offers = [
        offer(after_s, 2.0 + number / 100, pool=pool, depth=40_000)
        for after_s in range(0, 901, 5)
        for number, pool in enumerate(pools)
    ]
    basis = basis_by(stood(offers))
    assert (basis.pool_count, basis.depth) == (3, 120_000 * USD)
    assert basis.confidence(UnixS(START + 900)) == "high"
    assert reported(stood([one for one in offers if one.pool == "one"]), 900) == "medium"


def test_liquidity_that_was_withdrawn_does_not_count_for_long() -> None:
    """A second pool holds a million dollars for two minutes, then loses it without a trade."""
    small = traded(1_500, depth=20_000)
    large = traded(1_020, depth=10**6, since_s=900, pool="second")
    at_once, later = (
        basis_by(stood(sorted(offers, key=lambda one: one.time)))
        for offers in ([*small[:205], *large], [*small, *large])
    )
    assert (at_once.pool_count, at_once.depth) == (1, 10**6 * USD)
    assert (later.pool_count, later.depth) == (1, 20_000 * USD)
    assert later.is_agreed  # the second pool had the same price, whatever its reserves


def test_a_pool_of_a_stranger_neither_agrees_nor_counts() -> None:
    honest = traded(900)
    before = basis_by(stood(honest))
    private = [
        offer(after_s, usd, pool="private", depth=depth, volume=10**6)
        for after_s, usd, depth in ((901, 40.0, 1_000), (902, 2.0, 1_000), (903, 0.1, None))
    ]
    basis = basis_by(stood([*honest, *private]))
    assert (basis.pool, basis.at, basis.pool_count) == ("deep", START + 900, 1)
    assert basis.depth == before.depth
    assert basis.confidence(UnixS(START + 903)) == "high"
    assert basis.rejected_share(UnixS(START + 903)) > 0.99


@pytest.mark.parametrize("after_s", [905, 915, 1_220, 4_400])
@pytest.mark.parametrize("usd", [0.1, 2.0, 40.0])
def test_a_swap_of_a_stranger_changes_no_pool_and_no_confidence(after_s: int, usd: float) -> None:
    second = traded(880, 2.01, pool="second", depth=3_000)
    honest = sorted([*traded(900, depth=5_000), *second], key=lambda one: one.time)
    before = basis_by(stood(honest))
    dust = offer(after_s, usd, pool="private", depth=0, volume=0)
    basis = basis_by(stood([*honest, dust]))

    assert basis._replace(flow=before.flow) == before
    assert (basis.pool_count, basis.confidence(UnixS(START + after_s))) == (2, "medium")


def test_confidence_is_low_if_two_equal_pools_disagree() -> None:
    offers = [
        one
        for after_s in range(0, 901, 5)
        for one in (
            offer(after_s, 2.0, pool="one", depth=200_000),
            offer(after_s, 2.5, pool="other", depth=200_000),
        )
    ]
    basis = basis_by(stood(offers))
    assert (basis.pool, basis.pool_count, basis.is_agreed) == ("other", 1, False)
    assert basis.confidence(UnixS(START + 900)) == "low"


def test_a_silent_pool_weighs_at_most_as_much_as_while_it_trades() -> None:
    """Nine pools trade at one price; eight equally deep pools at another price are silent."""
    trading = [traded(1_000, 2.0, pool=f"trading {number}") for number in range(9)]
    silent = [traded(950, 2.5, pool=f"silent {number}") for number in range(8)]
    offers = sorted((one for each in (*trading, *silent) for one in each), key=lambda one: one.time)
    basis = basis_by(stood(offers))

    assert (basis.pool_count, basis.is_agreed) == (9, True)
    assert basis.confidence(UnixS(START + 1_000)) == "high"


@pytest.mark.parametrize(("pools", "depth"), [(1, 10**9), (1, 9 * 10**9), (2, 600_000_000)])
def test_reserves_of_a_billion_dollars_are_known(pools: int, depth: int) -> None:
    offers = [
        offer(after_s, pool=f"pool {number}", depth=depth)
        for after_s in range(0, 901, 5)
        for number in range(pools)
    ]
    standing = stood(offers)
    basis = basis_by(standing)

    assert (basis.pool_count, basis.depth) == (pools, pools * depth * USD)
    assert basis.confidence(UnixS(START + 900)) == "high"
    assert all(pool.moves for pool in pools_of(standing, (), UnixS(START + 900)))


def test_a_pool_without_balances_is_named_and_has_no_liquidity() -> None:
    basis = basis_by(stood(traded(900, depth=None)))
    assert (basis.pool, basis.depth, basis.pool_count, basis.is_agreed) == ("deep", None, 1, False)


def test_an_earlier_price_pool_has_liquidity_only_once_a_swap_shows_it() -> None:
    known = {"usd": 2.0, "at": UnixS(START), "pause_s": 5.0, "since": UnixS(START - 900)}
    standing = before_standing("deep", **known, is_direct=True)  # type: ignore[arg-type]
    basis = basis_by(standing)
    assert (basis.depth, basis.confidence(UnixS(START)), basis.flow) == (None, "low", NO_FLOW)
    later, _ = stand(standing, offer(5))
    assert later is not None
    assert basis_by(later).depth == 200_000 * USD


def of_hour(moments: Sequence[tuple[int, int, bool]], now_s: int) -> Fraction:
    """Return the share of rejected volume in the hour up to *now_s*, exactly.

    The previous clock hour counts in proportion to its minutes in that hour.

    moments   for each swap, its time, its volume, and whether it set the price
    """
    newest = max((at for at, _, _ in moments), default=0) // HOUR_S
    total = {True: Fraction(0), False: Fraction(0)}
    for at, volume, sets in moments:
        hours_ago = now_s // HOUR_S - at // HOUR_S
        if hours_ago > 1 or newest - at // HOUR_S > 1:
            continue
        within = Fraction(60 - now_s % HOUR_S // 60, 60)
        total[sets] += volume * (within if hours_ago else 1)
    both = total[True] + total[False]
    return total[False] / both if both else Fraction(0)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_the_rejected_share_agrees_with_its_definition(data: st.DataObject) -> None:
    at, offers = START, [offer(0)]
    for _ in range(data.draw(st.integers(0, 30))):
        at += data.draw(st.sampled_from([0, 1, 30, 600, 2_000, 5_000]))
        usd, depth = data.draw(st.sampled_from([(2.0, 200_000), (9.0, 100), (2.0, 100)]))
        volume = data.draw(st.integers(0, 10**6))
        pool = "deep" if depth == 200_000 else "private"
        offers.append(offer(at - START, usd, pool=pool, depth=depth, volume=volume))
    standing, moments = None, []
    for one in offers:
        standing, sets = stand(standing, one)
        moments.append((one.time, one.volume, sets))
    assert standing is not None
    now = UnixS(at + data.draw(st.sampled_from([0, 59, 60, 1_800, 3_600, 7_200, 9**9])))

    share = basis_by(standing).rejected_share(now)
    assert 0.0 <= share <= 1.0
    assert share == pytest.approx(float(of_hour(moments, now)), abs=1e-12)


def test_a_standing_is_unchanged_by_packing_and_unpacking() -> None:
    standing = stood([*traded(900), offer(901, 40.0, pool="private", depth=5)])
    assert unpack(pack(standing)) == standing
    assert basis_of(pack(standing)) == basis_by(standing)
    assert basis_of(None) is None


def test_very_large_volumes_are_kept_in_64_bits() -> None:
    """With a made-up quote, anyone can make any number of swaps of a billion dollars at no cost."""
    most = 10**9  # of one swap
    offers = [offer(at // 20, volume=most) for at in range(18_500)]
    offers += [offer(1_000 + at, usd=2.4, volume=most) for at in range(2)]
    offers += [offer(1_010, 9.0, pool="private", depth=5, volume=most) for _ in range(18_500)]
    standing = stood(offers)

    assert unpack(pack(standing)) == standing
    shown = standing.pools[0].shown
    assert shown is not None
    assert shown > 10**9 * USD
    assert basis_by(standing).rejected_share(UnixS(START + 1_010)) == 0.5


def test_pools_of_an_earlier_version_have_no_flow() -> None:
    standing = stood(traded(900))
    fields = msgspec.structs.astuple(standing)
    earlier = msgspec.msgpack.encode([*fields[:-1]])
    assert unpack(earlier) == msgspec.structs.replace(standing, flow=NO_FLOW)
    basis = basis_of(earlier)
    assert basis is not None
    assert basis.rejected_share(UnixS(START + 900)) == 0.0


def test_a_retracted_slot_restores_the_earlier_standing() -> None:
    pools = Standings()
    for slot, one in enumerate(traded(900)):
        pools.begin(Slot(slot))
        pools.sets_price(TOKEN, one)
    before = pools.of(TOKEN)
    pools.begin(Slot(1_000))
    pools.sets_price(TOKEN, offer(905, 40.0, pool="private", volume=10**6))
    pools.sets_price(TOKEN, offer(905, volume=10**6))
    assert pools.of(TOKEN) != before
    pools.retract(Slot(1_000))
    assert pools.of(TOKEN) == before


def test_a_price_without_pools_has_null_fields_and_low_confidence() -> None:
    price = Price.of(2.0, 0.01, None, UnixS(START))
    assert msgspec.to_builtins(price) == {
        "usd": 2.0, "sol": 0.01, "pool": None, "ageMs": None, "liquidityUsd": None, "pools": 0,
        "confidence": "low", "rejectedShareH1": None,
    }  # fmt: skip


def test_a_price_is_printed_in_dollars_and_milliseconds() -> None:
    basis = PriceBasis(
        "deep", UnixS(START), UnixS(START - 900), 123_456_789_012, 2, is_agreed=True, flow=NO_FLOW
    )
    assert msgspec.to_builtins(Price.of(2.0, 0.01, basis, UnixS(START + 61))) == {
        "usd": 2.0, "sol": 0.01, "pool": "deep", "ageMs": 61_000, "liquidityUsd": 123_456.789012,
        "pools": 2, "confidence": "high", "rejectedShareH1": 0.0,
    }  # fmt: skip
    early = Price.of(2.0, 0.01, basis, UnixS(START - 5))
    assert early.age_ms == 0
