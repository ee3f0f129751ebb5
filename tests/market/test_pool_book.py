"""The pools of a mint, as the fold stores them, agree with a slow definition."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from random import Random

import msgspec
import pytest

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.engine.pool_book import (
    POOLS_MAX,
    BookedPool,
    PoolBook,
    booked,
    candles_of,
    key_of,
)
from mintscope.market.log import Evidence, PricedSwap, SwapDetail

MINT = Mint("mint")
BEGIN = 1_760_000_100
SPAN_S = 300
DAY_S = 86_400
Timed = tuple[int, int, PricedSwap]  # slot, time
Row = list[float | int | None]


def market(seed: int, pools: int, swaps: int, step_s: int) -> list[Timed]:
    """Return random swaps, some without a price and some rejected, and one migration."""
    rng = Random(seed)
    at = BEGIN
    slot = 0
    made: list[Timed] = []
    for n in range(swaps):
        if rng.random() < 0.6:  # otherwise it is in the slot of the swap before
            slot += 1
            at += rng.choice((0, 1, rng.randrange(step_s)))
        pool = f"pool{min(rng.randrange(pools), rng.randrange(pools))}"
        usd = None if rng.random() < 0.1 else rng.uniform(1, 2)
        is_taken = rng.random() < 0.7
        detail = SwapDetail(Signature(f"{n}"), f"venue of {pool}", 1, 0, Mint("quote"), 1, 0)
        swap = PricedSwap(
            MINT, n, 0, -1, 0, is_buy=rng.random() < 0.5,
            volume=rng.randrange(10**9) if is_taken else 0,
            price_usd=usd if is_taken else None,
            price_sol=usd if is_taken else None,
            pool=pool,
            offered=None if is_taken or usd is None else (usd, usd),
            detail=detail,
            evidence=Evidence(None, 1, "signer", fee_bps=rng.choice((None, 0, 30, 125))),
        )  # fmt: skip
        made.append((slot, at, swap))
        if n == swaps // 2:
            moved = PricedSwap(
                MINT, n, 1, -1, 0, is_buy=True, volume=0, price_usd=None, price_sol=None,
                pool="grown", evidence=Evidence(None, 0, "", succeeds="pool0"),
            )  # fmt: skip
            made.append((slot, at, moved))
    return made


def folded(swaps: Sequence[Timed], seed: int) -> tuple[list[BookedPool], dict[str, Row]]:
    """Apply *swaps* to a `PoolBook` in random batches; return its pools and all their candles."""
    rng = Random(seed)
    state: bytes | None = None
    stored: dict[tuple[int, int], Row] = {}
    left = list(swaps)
    while left:
        size = rng.randrange(1, 60)
        batch = left[:size]
        left = left[size:]
        book = PoolBook(state)
        for (slot, time), timed in groupby(batch, key=lambda one: one[:2]):
            together = [swap for _, _, swap in timed]
            book.apply(Slot(slot), UnixS(time), together)
            if book.unnamed:
                book.name(together)
        change = book.changed()
        state = change.state
        stored = {at: row for at, row in stored.items() if at[1] not in change.dropped}
        for bucket, key, *row in change.rows:
            stored[bucket, key] = row
    for bucket, key, *row in candles_of(booked(state)):
        stored[bucket, key] = row
    return booked(state), {f"{bucket} {key}": row for (bucket, key), row in stored.items()}


def slow(swaps: Sequence[Timed]) -> dict[str, Row]:
    """Return the candles of all pools, each computed from a list of its swaps."""
    groups: dict[tuple[int, str], list[PricedSwap]] = defaultdict(list)
    for _, time, swap in swaps:
        if swap.pool is not None and swap.evidence is not None and not swap.evidence.succeeds:
            groups[time // SPAN_S * SPAN_S, swap.pool].append(swap)
    rows: dict[str, Row] = {}
    for (bucket, pool), of in groups.items():
        usd = [one.price_usd or (one.offered or (None,))[0] for one in of]
        known = [each for each in usd if each is not None]
        prices: Row = [known[0], max(known), min(known), known[-1]] if known else [None] * 4
        bought = sum(one.volume for one in of if one.is_buy)
        sold = sum(one.volume for one in of if not one.is_buy)
        rows[f"{bucket} {key_of(pool)}"] = [*prices, bought, sold, len(of)]
    return rows


def newest_fees(swaps: Sequence[Timed]) -> dict[str | None, int | None]:
    """Return the fee of each pool in basis points: that of its newest swap which shows a fee."""
    fees: dict[str | None, int | None] = {}
    for _, _, swap in swaps:
        shown = None if swap.evidence is None else swap.evidence.fee_bps
        fees[swap.pool] = fees.get(swap.pool) if shown is None else shown
    return fees


@pytest.mark.parametrize("seed", range(30))
def test_candles_of_pools_agree_with_their_swaps_for_any_batches(seed: int) -> None:
    swaps = market(seed, pools=1 + seed % 9, swaps=300, step_s=1 + 97 * (seed % 5))

    pools, rows = folded(swaps, seed)

    assert rows == slow(swaps)
    assert (pools, rows) == folded(swaps, seed + 1)
    first = {one.pool: at for _, at, one in reversed(swaps) if one.pool is not None}
    assert {one.pool: one.since for one in pools} == first
    assert {one.pool: one.fee_bps for one in pools} == newest_fees(swaps)
    traded = [one for one in pools if one.pool != "grown"]
    assert all((one.venue, one.quote) == (f"venue of {one.pool}", "quote") for one in traded)
    grown = next(one for one in pools if one.pool == "grown")
    curve = next(one for one in pools if one.pool == "pool0")
    (moved,) = [slot for slot, _, one in swaps if one.evidence and one.evidence.succeeds]
    assert (grown.came_from, curve.went_to) == ("pool0", "grown")
    assert (grown.moved_at, curve.moved_at) == (moved, moved)


@pytest.mark.parametrize("seed", range(5))
def test_a_book_is_bounded_and_keeps_the_pools_that_are_traded(seed: int) -> None:
    """If many made-up pools appear, the pools with the most volume stay, with all their candles."""
    real = [one for one in market(seed, 3, 200, 60) if one[2].volume > 10**4]
    made = market(seed + 99, 400, 900, 20)
    dust = [
        (n, at, PricedSwap(MINT, n, 0, -1, 0, True, 1, 1.0, 1.0, f"dust {swap.pool}"))  # noqa: FBT003
        for n, at, swap in made
    ]
    swaps = sorted([*real, *dust], key=lambda one: one[1])

    pools, rows = folded(swaps, seed)

    assert (pools, rows) == folded(swaps, seed + 1)
    assert len(pools) <= POOLS_MAX
    assert {"pool0", "pool1", "pool2"} <= {one.pool for one in pools}
    expected = slow(real)
    assert {at: row for at, row in rows.items() if at in expected} == expected
    keys = {key_of(one.pool) for one in pools}
    assert {int(at.split()[1]) for at in rows} <= keys


def bought(n: int, volume: int, pool: str) -> PricedSwap:
    return PricedSwap(MINT, n, 0, -1, 0, True, volume, 1.0, 1.0, pool)  # noqa: FBT003


def test_pools_that_come_and_go_within_a_batch_are_not_dropped_from_the_store() -> None:
    """Only pools that the store has stored are reported for deletion, however many appear."""
    book = PoolBook()
    for n in range(40):
        book.apply(Slot(n), UnixS(BEGIN), [bought(n, 1, f"{n}")])
    assert not book.changed().dropped
    for n in range(1_000):
        book.apply(Slot(n), UnixS(BEGIN), [bought(n, 2, f"made up {n}")])
    assert len(book.changed().dropped) == POOLS_MAX


def test_a_book_of_the_previous_version_has_no_fees() -> None:
    """Fees were added as the last field of a pool, and of the evidence of a swap."""
    older = ["pool", BEGIN, 5, 7, 2, "venue", "quote", None, None, None, 9]
    (one,) = booked(msgspec.msgpack.encode([older]))
    assert (one.progress, one.candle, one.fee_bps) == (9, None, None)
    evidence = msgspec.msgpack.encode([None, 1, "signer", True, 0, None, 0, 420_000])
    read = msgspec.msgpack.decode(evidence, type=Evidence)
    assert (read.progress, read.fee_bps) == (420_000, None)


def test_the_volume_of_a_pool_counts_on_its_day_and_the_next() -> None:
    one = BookedPool("pool", UnixS(0), day=5, volume=7, volume_before=2)
    assert [one.lively(day) for day in (5, 6, 7)] == [9, 7, 0]
    one.add(6, 1)
    assert (one.volume, one.volume_before) == (1, 7)
    one.add(9, 4)
    assert (one.volume, one.volume_before) == (4, 0)
