"""Blocks of the devchain are consistent: links, slots, times, finality, forks, limits."""

import json
from bisect import bisect_right
from itertools import pairwise

import pytest

from mintscope.kit.primitives import UnixMs
from mintscope_devchain.blockstore import SLOT_MS, CommitmentLevel
from mintscope_devchain.chain import FIRST_SLOT, Devchain, lines
from mintscope_devchain.transaction import MarketTransaction
from support.oracles.devchain_blocks import NOW, shown


def blocks(chain: Devchain) -> list[tuple[int, int, str, str, int, int]]:
    """Return (slot, parent, hash, parent hash, height, time) of every block."""
    found = [chain.blockstore.block(slot) for slot in chain.blockstore.slots]
    return [
        (b.slot, b.parent_slot, b.blockhash, b.parent_blockhash, b.height, b.time)
        for b in found
        if b is not None
    ]


def assert_linked(chain: Devchain) -> None:
    for parent, child in pairwise(blocks(chain)):
        assert child[1] == parent[0]
        assert child[3] == parent[2]
        assert child[4] == parent[4] + 1
        assert child[5] >= parent[5]


def test_every_block_is_linked_to_its_parent(history: Devchain) -> None:
    assert_linked(history)


def test_the_history_has_about_700_blocks_and_ends_now(history: Devchain) -> None:
    times = [time for slot, *_, time in blocks(history) if slot <= FIRST_SLOT]

    assert 650 <= len(times) <= 750
    assert times[-1] == NOW // 1000
    assert times[-1] - times[0] == 10 * 86_400


def test_the_history_is_dense_enough_for_200_candles_of_every_width(history: Devchain) -> None:
    """EMA-200 needs 200 candles; a busy token has a candle in each interval with a block."""
    times = [time for *_, time in blocks(history)]

    for width in (60, 300, 900, 3600):
        recent = sorted({time // width for time in times})
        assert len(recent) >= 200


def test_slot_numbers_of_the_history_grow_in_proportion_to_time(history: Devchain) -> None:
    for parent, child in pairwise(blocks(history)):
        if child[0] <= FIRST_SLOT:
            assert child[0] - parent[0] == (child[5] - parent[5]) * 1000 // SLOT_MS


def test_slot_numbers_before_alpenglow_grow_by_one_per_400_ms(tower: Devchain) -> None:
    for parent, child in pairwise(blocks(tower)):
        assert child[0] - parent[0] == (child[5] - parent[5]) * 1000 // 400


def test_some_slots_of_the_live_chain_have_no_block(history: Devchain) -> None:
    live = [slot for slot in history.blockstore.slots if slot >= FIRST_SLOT]
    steps = [later - earlier for earlier, later in pairwise(live)]

    assert 0 < sum(step > 1 for step in steps) < len(steps) / 5


def test_the_same_seed_makes_the_same_chain() -> None:
    one, two = (Devchain(seed=5, now=NOW, history_days=0.05) for _ in range(2))
    for chain in (one, two):
        for _ in range(20):
            chain.tick()

    assert blocks(one) == blocks(two)
    assert [shown(one, slot) for slot in one.blockstore.slots[-20:]] == [
        shown(two, slot) for slot in two.blockstore.slots[-20:]
    ]


def test_tokens_depend_on_the_seed_and_the_genesis_hash_on_seed_and_start() -> None:
    chain = Devchain(seed=5, now=NOW, history_days=0)
    other = Devchain(seed=6, now=NOW, history_days=0)
    later = Devchain(seed=5, now=UnixMs(NOW + 1000), history_days=0)

    assert not {t.mint for t in chain.tokens[1:]} & {t.mint for t in other.tokens[1:]}
    assert chain.tokens == later.tokens
    assert len({chain.genesis_hash, other.genesis_hash, later.genesis_hash}) == 3


def test_a_block_is_shown_unchanged_ten_blocks_later(young: Devchain) -> None:
    young.tick()
    slot = young.blockstore.tip
    first = shown(young, slot)
    for _ in range(10):
        young.tick()

    assert shown(young, slot) == first


@pytest.mark.parametrize(
    ("slot_ms", "finality_ms", "finalized"),
    [(200, 150, 2), (200, 0, 1), (200, 1_000, 5), (400, 150, 2), (400, 12_800, 32), (800, 150, 2)],
)
def test_finality_lags_by_the_set_time_and_confirmation_by_one_slot(
    slot_ms: int, finality_ms: int, finalized: int
) -> None:
    chain = Devchain(seed=7, now=NOW, history_days=0, slot_ms=slot_ms, finality_ms=finality_ms)
    for _ in range(80):
        chain.tick()
    slots, tip = list(chain.blockstore.slots), chain.blockstore.tip

    lags: dict[CommitmentLevel, int] = {"processed": 0, "confirmed": 1, "finalized": finalized}
    for commitment, lag in lags.items():
        expected = slots[bisect_right(slots, tip - lag) - 1]
        assert chain.blockstore.reached(commitment) == expected


def test_block_times_follow_the_given_clock_but_never_go_back(young: Devchain) -> None:
    young.tick(UnixMs(NOW + 5_000))
    young.tick(UnixMs(NOW + 1_000))

    assert [time for *_, time in blocks(young)][-2:] == [NOW // 1000 + 5] * 2


@pytest.mark.parametrize("depth", [1, 3, 20])
def test_a_fork_replaces_the_newest_blocks_by_others_in_later_slots(
    tower: Devchain, depth: int
) -> None:
    for _ in range(50):
        tower.tick()
    before, tip = blocks(tower), tower.blockstore.tip
    tower.fork(depth)
    after = blocks(tower)

    assert after[:-depth] == before[:-depth]
    assert len(after) == len(before)
    assert after[-depth][1] == before[-depth - 1][0]
    assert after[-depth][3] == before[-depth - 1][2]
    assert all(slot > tip for slot, *_ in after[-depth:])
    assert_linked(tower)


def test_undoing_the_transactions_of_ten_blocks_restores_all_balances(young: Devchain) -> None:
    for _ in range(30):
        young.tick()
    balances = dict(young.world.balances)
    transactions: list[MarketTransaction] = []
    for _ in range(10):
        young.tick()
        transactions += young.blockstore.last.transactions
    young.world.undo(reversed(transactions))

    assert young.world.balances == balances


@pytest.mark.parametrize("age", ["young", "tower"])
def test_final_blocks_cannot_fork(age: str, request: pytest.FixtureRequest) -> None:
    chain: Devchain = request.getfixturevalue(age)
    for _ in range(60):
        chain.tick()
    limit = chain.blockstore.unfinalized()

    with pytest.raises(
        ValueError, match=f"1 to {limit} blocks that are not final; was {limit + 1}"
    ):
        chain.fork(limit + 1)


def test_the_chain_keeps_40_to_44_blocks_if_40_are_configured() -> None:
    chain = Devchain(now=NOW, history_days=0, kept_blocks=40)
    for _ in range(200):
        chain.tick()

    assert 40 <= len(chain.blockstore.slots) <= 44
    assert_linked(chain)


def test_a_file_may_have_more_blocks_than_are_kept_or_fewer_than_the_history() -> None:
    chain = Devchain(now=NOW, history_days=0, kept_blocks=40)
    written = [json.loads(line) for line in lines(chain, 120)]
    few = [json.loads(line) for line in lines(Devchain(now=NOW, history_days=0.01), 3)]

    assert len(written) == 120
    assert len(few) == 3
    for parent, child in [*pairwise(written), *pairwise(few)]:
        assert (child["parentSlot"], child["previousBlockhash"]) == (
            parent["slot"],
            parent["blockhash"],
        )
