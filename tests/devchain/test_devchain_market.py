"""The market is consistent: pools obey their formula, balances add up, some tokens are idle."""

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
    """Return the minutes, since the Unix epoch, in which *mint* was traded."""
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
    """Swaps below 100,000 raw units are left out, because a swap below 1,000 is in no candle."""
    large = {
        slot: (time, [s for s in swaps if min(s.in_amount, s.out_amount) >= 100_000])
        for slot, (time, swaps) in meant.items()
    }
    for token in history.tokens[:9]:
        traded = minutes(large, token.mint)
        for width in (1, 5, 15, 60):
            assert len({minute // width for minute in traded}) >= 200


def test_trading_rates_range_from_over_one_swap_a_block_to_none(history: Devchain) -> None:
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


def test_one_token_stopped_trading_two_days_ago_and_one_has_just_started(
    history: Devchain, meant: Meant
) -> None:
    *_, gone, baby = history.tokens
    assert (gone.symbol, baby.symbol) == ("GONE", "BABY")

    traded = minutes(meant, gone.mint)
    assert len(traded) > 20
    assert max(traded) < NOW // 60_000 - 2 * 24 * 60
    assert 1 <= len(minutes(meant, baby.mint)) < 9


def test_decimals_are_2_5_6_or_9_and_prices_go_from_below_1e_6_to_above_100(
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


def test_vault_balances_change_by_the_amounts_of_the_swaps(history: Devchain) -> None:
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


def test_transactions_preserve_the_total_of_each_token_but_wrapped_sol(young: Devchain) -> None:
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


def test_each_transaction_loses_exactly_its_fee_in_lamports(young: Devchain) -> None:
    for _ in range(40):
        young.tick()
    for entry in everything(young):
        meta = entry["meta"]
        assert sum(meta["preBalances"]) - sum(meta["postBalances"]) == meta["fee"]


def test_token_balances_before_a_transaction_equal_those_after_the_previous(
    tower: Devchain,
) -> None:
    """The balances also match after a fork, which undoes the transactions of abandoned blocks."""
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


def test_pools_pay_the_constant_product_or_at_most_one_percent_less(young: Devchain) -> None:
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
def test_no_balance_is_negative_and_mints_are_unique_after_three_days(seed: int) -> None:
    chain = Devchain(seed=seed, now=NOW, mints=60, history_days=3)
    for _ in range(30):
        chain.tick()

    assert len(chain.tokens) == 61
    assert len({token.mint for token in chain.tokens}) == 61
    assert all(amount >= 0 for amount in chain.world.balances.values())


def changes(entry: Entry) -> dict[str, int]:
    """Return the change of each account: in raw units of its token, or else in lamports."""
    names, meta = keys_of(entry), entry["meta"]
    lamports = zip(names, meta["preBalances"], meta["postBalances"], strict=True)
    change = {name: after - before for name, before, after in lamports}
    for balance in meta["preTokenBalances"]:
        change[names[balance["accountIndex"]]] = -int(balance["uiTokenAmount"]["amount"])
    for balance in meta["postTokenBalances"]:
        change[names[balance["accountIndex"]]] += int(balance["uiTokenAmount"]["amount"])
    return change
