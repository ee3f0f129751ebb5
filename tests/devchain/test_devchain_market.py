"""The market is one: pools obey their formula, balances add up, every token has its pace."""

from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import LAMPORTS_PER_SOL, USDC, WSOL
from mintscope_devchain.chain import FIRST_SLOT, Devchain
from support.oracles.devchain_blocks import NOW, Entry, Meant, everything, shown
from support.oracles.intended_swaps import intended
from support.oracles.recorded import keys_of


def minutes(meant: Meant, mint: Mint) -> set[int]:
    """Return the minutes in which *mint* was traded."""
    return {
        time // 60
        for time, swaps in meant.values()
        if any(mint in (swap.in_mint, swap.out_mint) for swap in swaps)
    }


def test_every_block_has_a_rate_of_sol_in_dollars(meant: Meant) -> None:
    for _, swaps in meant.values():
        rates = [
            swap
            for swap in swaps
            if {swap.in_mint, swap.out_mint} == {WSOL, USDC}
            and (swap.in_amount if swap.in_mint == WSOL else swap.out_amount)
            >= LAMPORTS_PER_SOL // 20
        ]
        assert rates
        for swap in rates:
            sol, dollars = (
                (swap.in_amount, swap.out_amount)
                if swap.in_mint == WSOL
                else (swap.out_amount, swap.in_amount)
            )
            assert 80 < dollars * 1_000 / sol < 330


def test_busy_tokens_have_200_candles_of_every_width(history: Devchain, meant: Meant) -> None:
    """Too small a swap sets no candle: fewer than 1,000 raw units on either side."""
    large = {
        slot: (time, [s for s in swaps if min(s.in_amount, s.out_amount) >= 100_000])
        for slot, (time, swaps) in meant.items()
    }
    for token in history.tokens[:9]:
        traded = minutes(large, token.mint)
        for width in (1, 5, 15, 60):
            assert len({minute // width for minute in traded}) >= 200


def test_tokens_go_from_several_swaps_a_block_to_hardly_any(history: Devchain) -> None:
    live = [slot for slot in history.blockstore.slots if slot > FIRST_SLOT]
    counts: dict[str, int] = defaultdict(int)
    for slot in live:
        for swap in intended(history, slot):
            counts[swap.in_mint] += 1
            counts[swap.out_mint] += 1
    paces = [counts[token.mint] / len(live) for token in history.tokens[1:]]

    assert max(paces) > 1
    assert min(paces) == 0
    assert sum(pace < 0.2 for pace in paces) >= 8


def test_one_token_is_gone_and_one_is_too_young(history: Devchain, meant: Meant) -> None:
    *_, gone, baby = history.tokens
    assert (gone.symbol, baby.symbol) == ("GONE", "BABY")

    traded = minutes(meant, gone.mint)
    assert len(traded) > 20
    assert max(traded) < NOW // 60_000 - 2 * 24 * 60
    assert 1 <= len(minutes(meant, baby.mint)) < 9


def test_there_are_tokens_of_2_5_6_and_9_decimals_and_prices_from_dust_to_hundreds(
    history: Devchain,
) -> None:
    assert {token.decimals for token in history.tokens} == {2, 5, 6, 9}

    prices = [listed.listing.price for listed in history.world.listed]
    assert min(prices) < 1e-6
    assert max(prices) > 100


def test_some_tokens_are_mostly_bought_and_some_mostly_sold(
    history: Devchain, meant: Meant
) -> None:
    bought, traded = Counter[str](), Counter[str]()
    for _, swaps in meant.values():
        for swap in swaps:
            bought[swap.out_mint] += 1
            traded.update((swap.in_mint, swap.out_mint))
    shares = [
        bought[token.mint] / traded[token.mint]
        for token in history.tokens[1:]
        if traded[token.mint] > 200
    ]

    assert max(shares) > 0.55
    assert min(shares) < 0.47
    assert all(0.2 < share < 0.8 for share in shares)


def test_balances_move_as_the_swaps_say(history: Devchain) -> None:
    """The vaults of a pool change by exactly what its swap received and paid."""
    pools = {pool.address: pool for pool in history.world.pools()}
    for slot in history.blockstore.slots[-60:]:
        meant = defaultdict(list)
        for swap in intended(history, slot):
            meant[swap.transaction_index].append(swap)
        for index, entry in enumerate(shown(history, slot)):
            change = changes(entry)
            for swap in meant[index]:
                pool = pools[swap.pool or ""]
                vaults = {pool.base.mint: pool.base_vault, pool.quote.mint: pool.quote_vault}
                assert change[vaults[swap.in_mint]] == swap.in_amount
                assert change[vaults[swap.out_mint]] == -swap.out_amount


def test_no_token_appears_or_vanishes(young: Devchain) -> None:
    for _ in range(40):
        young.tick()
    for entry in everything(young):
        totals: dict[str, int] = defaultdict(int)
        for when, sign in (("pre", -1), ("post", 1)):
            for balance in entry["meta"][f"{when}TokenBalances"]:
                totals[balance["mint"]] += sign * int(balance["uiTokenAmount"]["amount"])
        for mint, total in totals.items():
            if mint != WSOL and Mint(mint) in young.world.mints:
                assert total == 0


def test_lamports_go_nowhere_but_into_the_fee(young: Devchain) -> None:
    for _ in range(40):
        young.tick()
    for entry in everything(young):
        meta = entry["meta"]
        assert sum(meta["preBalances"]) - sum(meta["postBalances"]) == meta["fee"]


def test_an_account_ends_one_transaction_as_it_begins_the_next(tower: Devchain) -> None:
    """Across a fork too: what its dead blocks moved is taken back."""
    for _ in range(20):
        tower.tick()
    tower.fork(10)
    for _ in range(10):
        tower.tick()
    left: dict[str, str] = {}
    for entry in everything(tower):
        names = keys_of(entry)
        meta = entry["meta"]
        for balance in meta["preTokenBalances"]:
            account, amount = names[balance["accountIndex"]], balance["uiTokenAmount"]["amount"]
            assert left.get(account, amount) == amount
        for balance in meta["postTokenBalances"]:
            left[names[balance["accountIndex"]]] = balance["uiTokenAmount"]["amount"]


def test_pools_never_pay_more_than_their_product_allows(young: Devchain) -> None:
    for _ in range(40):
        young.tick()
    pools = {pool.address: pool for pool in young.world.pools()}
    for slot in young.blockstore.slots:
        block = young.blockstore.block(slot)
        assert block is not None
        for transaction in block.transactions:
            if transaction.envelope.failed_at is not None:
                continue
            for call in transaction.build():
                for trade in [call.fill, *(inner.fill for inner in call.inner)]:
                    if trade is None:
                        continue
                    pool = pools[trade.pool.address]
                    before = pool.reserves({**young.world.balances, **transaction.before})
                    is_buy = trade.paid == pool.base
                    have, want = (before.quote, before.base) if is_buy else before
                    paid = Fraction(want * trade.amount_in, have + trade.amount_in)
                    assert trade.amount_out <= paid
                    assert trade.amount_out >= paid * Fraction(99, 100) * (
                        1 - Fraction(1, trade.amount_in)
                    )


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(3))
def test_any_seed_trades_for_days(seed: int) -> None:
    chain = Devchain(seed=seed, now=NOW, mints=60, history_days=3)
    for _ in range(30):
        chain.tick()

    assert len(chain.tokens) == 61
    assert len({token.mint for token in chain.tokens}) == 61
    assert all(amount >= 0 for amount in chain.world.balances.values())


def changes(entry: Entry) -> dict[str, int]:
    """Return by how much each account changed: token accounts in tokens, others in lamports."""
    names, meta = keys_of(entry), entry["meta"]
    lamports = zip(names, meta["preBalances"], meta["postBalances"], strict=True)
    change = {name: after - before for name, before, after in lamports}
    for balance in meta["preTokenBalances"]:
        change[names[balance["accountIndex"]]] = -int(balance["uiTokenAmount"]["amount"])
    for balance in meta["postTokenBalances"]:
        change[names[balance["accountIndex"]]] += int(balance["uiTokenAmount"]["amount"])
    return change
