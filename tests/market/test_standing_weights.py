"""The weight of a pool, part by part: each market here depends on one part of the rule alone."""

from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.standing import (
    OLD_S,
    POOLS_MAX,
    SIGNERS,
    SILENCE_MIN_S,
    WINDOW_S,
    Offer,
    Standing,
    stand,
)
from mintscope.market.standings import Standings, pack, unpack
from mintscope.solana.blocks import WSOL

# The first second of a window, so that the ends of windows are known.
START: Final = 1_700_000_000 // WINDOW_S * WINDOW_S
DEPTH: Final = 100_000.0
HOUR_S: Final = 3_600


def offered(  # noqa: PLR0913 - what a swap offers
    pool: str,
    at_s: int,
    *,
    usd: float = 2.0,
    depth: float = DEPTH,
    signers: int = SIGNERS,
    number: int = 0,
) -> Offer:
    """Return a swap of 100 USD in *pool*, *at_s* seconds after the start."""
    signer = f"{number % signers}-{pool}"
    time = UnixS(START + at_s)
    return Offer(pool, signer, usd, usd / 150, 100 * 10**6, int(depth * 10**6), time)


def trades(
    pool: str,
    seconds: Iterable[int],
    *,
    usd: float = 2.0,
    depth: float = DEPTH,
    signers: int = SIGNERS,
) -> list[Offer]:
    return [
        offered(pool, at_s, usd=usd, depth=depth, signers=signers, number=number)
        for number, at_s in enumerate(seconds)
    ]


def after(*pools: list[Offer]) -> tuple[Standing, dict[str, list[int]]]:
    """Return the standing after all trades, and the seconds at which each pool set the price."""
    standing: Standing | None = None
    when: dict[str, list[int]] = {}
    for offer in sorted(chain(*pools), key=lambda one: one.time):
        standing, sets = stand(standing, offer)
        if sets:
            when.setdefault(offer.pool, []).append(offer.time - START)
    assert standing is not None
    return standing, when


def test_a_pool_of_one_signer_weighs_a_third() -> None:
    honest = trades("honest", range(0, 1_200, 2))
    seconds, depth = range(1, 1_200, 2), 1.9 * DEPTH  # twice as much is a tie in second 3

    assert "own" not in after(honest, trades("own", seconds, usd=3.0, depth=depth, signers=1))[1]
    assert "own" in after(honest, trades("own", seconds, usd=3.0, depth=depth))[1]


def test_liquidity_of_less_than_a_window_does_not_count() -> None:
    """The pool is deep from the first to the last second of one window."""
    honest = trades("honest", range(1_500))
    own = trades("own", range(1_200), usd=3.0, depth=10.0)
    flash = trades("own", range(1_200, 1_200 + WINDOW_S), usd=3.0, depth=10**9)
    stays = trades("own", range(1_200 + WINDOW_S, 1_500), usd=3.0, depth=10**9)

    assert "own" not in after(honest, own, flash)[1]
    assert after(honest, own, flash, stays)[1]["own"][0] <= 1_200 + 2 * WINDOW_S


def test_pools_of_less_than_an_eighth_do_not_change_the_median() -> None:
    seconds = range(0, 1_200, 2)
    first, second = trades("first", seconds), trades("second", seconds, usd=2.1, depth=95_000)
    small = trades("small", seconds, usd=2.1, depth=12_000)
    larger = trades("small", seconds, usd=2.1, depth=13_000)

    assert "second" not in after(first, second, small)[1]
    assert "second" in after(first, second, larger)[1]


def test_liquidity_of_two_seconds_in_two_windows_does_not_count() -> None:
    """The two seconds are the end of one window and the start of the next."""
    honest = trades("honest", range(1_500))
    own = trades("own", range(0, 1_200, 7), usd=3.0, depth=10.0)
    end = 1_200 + WINDOW_S
    flash = trades("own", [end - 1, end], usd=3.0, depth=10**9)
    stays = trades("own", range(end + 1, 1_500), usd=3.0, depth=10**9)

    assert "own" not in after(honest, own, flash)[1]
    assert after(honest, own, flash, stays)[1]["own"][0] >= end + WINDOW_S


def test_a_pool_that_seldom_trades_has_its_full_age() -> None:
    """Otherwise a younger pool with less money would outweigh it when the log is young."""
    honest = trades("honest", range(0, 2_401, 600))
    new = trades("new", range(2_100, 2_700), usd=3.0, depth=0.2 * DEPTH)
    less = trades("new", range(2_100, 2_700), usd=3.0, depth=0.12 * DEPTH)

    assert "new" not in after(honest, less)[1]
    assert "new" in after(honest, new)[1]


def test_fees_between_purchases_and_sales_are_no_move() -> None:
    """The pool has a fee of 5 % and trades of ten dollars; all of its reserve counts as depth."""
    both = [
        replace(
            one,
            usd=2.1 if is_buy else 1.9,
            sol=(2.1 if is_buy else 1.9) / 150,
            volume=10 * 10**6,
            is_buy=is_buy,
        )
        for number, one in enumerate(trades("honest", range(0, 1_200, 5)))
        for is_buy in [number // 3 % 2 == 0]
    ]
    own = trades("own", range(700, 1_200, 2), usd=3.0, depth=DEPTH / 2)

    assert after(both)[0].pools[0].depth == DEPTH * 10**6
    assert "own" not in after(both, own)[1]


@pytest.mark.parametrize("part", ["purchases", "sales", "both"])
@pytest.mark.parametrize("falls", [True, False])
def test_a_fee_that_falls_is_no_move(part: str, falls: bool) -> None:  # noqa: FBT001
    """A falling fee lowers purchase prices and raises sale prices; a fee that rises is a move."""
    fees = [0.5 * 0.9**number for number in range(60)]
    if not falls:
        fees.reverse()
    honest = []
    for number, fee in enumerate(fees):
        is_buy = part == "purchases" or (part == "both" and number // 3 % 2 == 0)
        usd = 2.0 / (1 - fee) if is_buy else 2.0 * (1 - fee)
        one = offered("honest", 10 * number, usd=usd, number=number)
        honest.append(replace(one, volume=10 * 10**6, is_buy=is_buy))
    depth = after(honest)[0].pools[0].depth

    assert (depth == DEPTH * 10**6) is falls


def test_a_price_that_both_sides_follow_is_a_move() -> None:
    """Purchases and sales of ten dollars each halve the price: the pool holds almost nothing."""
    moved = [
        replace(
            offered("moved", 10 * number, usd=2.0 * 0.99**number * (1.01 if is_buy else 0.99)),
            volume=10 * 10**6,
            is_buy=is_buy,
        )
        for number in range(70)
        for is_buy in [number // 3 % 2 == 0]
    ]
    assert after(moved)[0].pools[0].depth < DEPTH / 5 * 10**6


def test_a_pool_has_its_maximum_age_after_ten_minutes() -> None:
    honest = trades("honest", range(0, 30_000, 20))
    new = trades("new", range(28_000, 30_000, 20), usd=3.0, depth=2 * DEPTH)

    assert after(honest, new)[1]["new"][0] <= 28_000 + OLD_S


def test_a_pool_that_is_left_loses_weight_over_time() -> None:
    left = trades("left", range(600), depth=1_000_000)
    soon, late = (
        trades("other", range(at_s, at_s + 100), usd=3.0, depth=12_000)
        for at_s in (600 + HOUR_S, 600 + 240 * HOUR_S)
    )

    assert "other" not in after(left, soon)[1]
    assert "other" in after(left, late)[1]


def test_liquidity_moved_between_pools_does_not_outweigh_a_silent_pool() -> None:
    """Seven pools hold the same money in turn, a second each, so it looks like seven times as much.

    Small new pools besides do not make the silent pool outweigh a new pool.
    """
    honest = trades("honest", range(0, 600, 2))

    def by_turns(depth: float) -> list[list[Offer]]:
        return [trades(f"own {n}", range(610 + n, 700, 7), usd=3.0, depth=depth) for n in range(7)]

    assert after(honest, *by_turns(DEPTH / 9))[1].keys() == {"honest"}
    assert after(honest, *by_turns(DEPTH / 7))[1].keys() > {"honest"}
    new = trades("new", range(610, 700), usd=3.0, depth=DEPTH / 2)
    assert after(honest, new, *by_turns(DEPTH / 20))[1]["new"][-1] == 699
    most, rest = (
        trades(name, range(610, 700), usd=3.0, depth=depth)
        for name, depth in (("most", DEPTH / 5), ("rest", DEPTH / 20))
    )
    assert after(honest, most, rest)[1]["most"][-1] == 699


def test_a_pool_of_many_swaps_a_second_is_not_silent_at_once() -> None:
    standing, _ = after(trades("honest", [0] * 50))
    pool = standing.pools[0]

    assert pool.pause_s == 0
    assert not pool.is_silent(UnixS(START + SILENCE_MIN_S))
    assert pool.is_silent(UnixS(START + SILENCE_MIN_S + 1))


def test_two_pools_of_equal_weight_both_set_the_price_at_any_distance() -> None:
    """Weights that differ by three percent count as equal; weights that differ by five do not."""
    first = trades("first", range(0, 1_200, 2))

    def second(depth: float, usd: float) -> bool:
        seconds = range(1, 1_200, 2)
        when = after(first, trades("second", seconds, usd=usd, depth=depth))[1]
        return 1_199 in when.get("second", [])

    assert [second(part * DEPTH, 2.1) for part in (0.95, 0.97, 1.0)] == [False, True, True]
    assert [second(part * DEPTH, 1.9) for part in (0.95, 0.97, 1.0)] == [False, True, True]


def test_a_deep_pool_that_begins_in_a_pause_has_to_wait() -> None:
    """A pool is silent after two usual pauses; a new pool replaces it after three, less 5 s."""

    def first_set(
        every_s: int, since: int, *, depth: float = 20 * DEPTH, signers: int = SIGNERS
    ) -> int:
        honest = trades("honest", range(600 % every_s, 601, every_s))
        own = trades("own", range(since, 700), usd=3.0, depth=depth, signers=signers)
        return after(honest, honest, own)[1]["own"][0]  # two swaps a second are one pause

    assert [first_set(3, since) for since in (590, 605)] == [607, 610]
    assert [first_set(5, since) for since in (590, 605)] == [610, 615]
    assert [first_set(1, since) for since in (590, 603)] == [604, 604]
    assert first_set(3, 605, depth=0.9 * DEPTH) == 610
    assert [first_set(3, 605, signers=signers) for signers in (1, 2)] == [618, 612]


def test_a_young_pool_does_not_stop_an_old_pool_from_replacing_a_silent_pool() -> None:
    honest = trades("honest", range(0, 601, 3))
    other = trades("other", range(100, 700, 2), usd=2.5, depth=0.5 * DEPTH)
    young = trades("young", range(605, 700), usd=3.0, depth=2 * DEPTH)

    assert after(honest, other, young)[1]["other"][0] == 608


def test_a_pool_of_an_older_log_has_a_lull_of_twice_its_usual_pause() -> None:
    standing, _ = after(trades("honest", range(0, 600, 3)))
    *fields, lull_s, _, _ = msgspec.to_builtins(standing.pools[0])
    kept = (fields, *msgspec.to_builtins(standing.pools[1:]))
    old = unpack(msgspec.msgpack.encode([kept, *msgspec.to_builtins(standing)[1:]]))

    assert lull_s == standing.pools[0].lull_s == 3.0
    assert old.pools[0].lull_s is None
    assert old.pools[0].usual_lull_s == pytest.approx(6.0)
    standing_again, _ = stand(old, offered("honest", 600))
    assert standing_again is not None
    assert standing_again.pools[0].lull_s == pytest.approx(6.0, abs=0.1)


def test_signers_are_named_until_there_are_enough() -> None:
    """The log names the signers of a pool, 8 bytes each, only until the pool has enough of them."""
    two, _ = after(trades("honest", range(600), signers=SIGNERS - 1))
    three, _ = after(trades("honest", range(600), signers=SIGNERS + 1))

    assert two.pools[0].signers == ("0-honest", "1-honest")
    assert three.pools[0].signers == ("",) * SIGNERS
    assert len(pack(three)) == len(pack(two)) - 2 * len("0-honest") + 1


def test_many_small_pools_do_not_displace_a_new_deep_pool() -> None:
    """The small pools are older and have more weight than the new pool, but less liquidity."""
    honest = trades("honest", range(0, 700, 2))
    small = [trades(f"small {n}", range(0, 700, 2), depth=10) for n in range(POOLS_MAX - 2)]
    one_more = trades("one more", [701], depth=10)
    standing, _ = after(honest, *small, trades("deep", [700]), one_more)

    assert len(standing.pools) == POOLS_MAX
    assert {"honest", "deep"} <= {one.pool for one in standing.pools}


def test_liquidity_of_a_second_does_not_displace_the_price_pool() -> None:
    honest = trades("honest", range(0, 700, 2))
    flash = [trades(f"flash {n}", [700], usd=3.0, depth=10 * DEPTH) for n in range(2 * POOLS_MAX)]
    standing, when = after(honest, *flash, trades("flash 0", [701], usd=3.0, depth=10 * DEPTH))

    assert len(standing.pools) == POOLS_MAX
    assert "honest" in {one.pool for one in standing.pools}
    assert when.keys() == {"honest"}


def test_liquidity_of_a_moment_displaces_none_of_several_price_pools() -> None:
    """Many new pools appear at once, each deeper than the four price pools."""
    others = [trades(f"honest {n}", range(n % 2, 700, 2), depth=DEPTH / 4) for n in range(4)]
    flash = [trades(f"flash {n}", [700], usd=3.0, depth=DEPTH) for n in range(2 * POOLS_MAX)]
    standing, when = after(*others, *flash)

    assert {f"honest {n}" for n in range(4)} <= {one.pool for one in standing.pools}
    assert not any(name.startswith("flash") for name in when)


def test_younger_pools_displace_at_most_one_older_pool_and_set_no_price() -> None:
    """Six new pools, begun in turn, share the same money; each is deeper than an older pool."""
    others = [trades(f"honest {n}", range(n, 3_000, 20), depth=DEPTH / 16) for n in range(16)]
    own = [
        trades(f"own {n}", range(1_500 + 100 * n, 3_000, 3), usd=3.0, depth=DEPTH / 12)
        for n in range(6)
    ]
    standing, when = after(*others, *own)

    kept = [one.pool for one in standing.pools]
    assert len(kept) == POOLS_MAX
    assert sum(name.startswith("honest") for name in kept) >= POOLS_MAX - 2
    assert not any(name.startswith("own") for name in when)


def test_the_standing_begins_again_with_a_new_pool_after_a_silent_hour() -> None:
    first = trades("first", range(600))
    early, late = (trades("second", range(at_s, at_s + 20)) for at_s in (700, 600 + HOUR_S))

    assert after(first)[0].since == START
    assert after(first, trades("first", [2 * HOUR_S]))[0].since == START
    assert after(first, early)[0].since == START
    standing, when = after(first, late)
    assert standing.since == START + when["second"][0] > START + HOUR_S


def test_a_sample_of_the_rate_may_be_further_off_than_a_swap_that_sets_a_price() -> None:
    """Logs that begin at different times weigh pools differently, but must take equal samples."""
    pools = Standings()
    pools.begin(Slot(1))
    for offer in trades("honest", range(0, 100, 2), usd=150.0):
        pools.sets_price(WSOL, offer)
    ask = pools.agrees(WSOL)

    assert [
        ask(offered("other", 100, usd=150.0 * part)) for part in (1.01, 1.04, 0.96, 1.06, 0.94)
    ] == [True, True, True, False, False]
    assert not pools.sets_price(WSOL, offered("other", 100, usd=150.0 * 1.04))


def test_mints_with_new_trades_or_much_liquidity_are_kept_at_the_maximum() -> None:
    """Many later trades of worthless tokens do not drop a deep token without new trades."""
    pools = Standings(mints_max=100)
    pools.begin(Slot(1))
    for offer in trades("deep", range(100)):
        pools.sets_price(Mint("quiet"), offer)
    for number in range(200):
        slot = Slot(2 + number)
        pools.begin(slot)
        at_s = HOUR_S + 120 * number
        pools.sets_price(Mint(f"junk {number}"), offered("own", at_s, depth=10))
        pools.finalize(slot)
    pools.begin(Slot(1_000))

    known = [f"junk {number}" for number in range(200) if pools.of(Mint(f"junk {number}"))]
    assert pools.of(Mint("quiet")) is not None
    assert len(known) <= 100
    assert known[-1] == "junk 199"
