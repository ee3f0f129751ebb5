"""Instructions and programs that names separate, if transfers do not.

The first bytes of an Anchor instruction are a hash of its name, so that names suffice.
"""

from hashlib import sha256
from typing import Final


def _heads(words: str) -> frozenset[bytes]:
    """Return the first bytes of the Anchor instructions called *words*, apart by spaces."""
    return frozenset(sha256(f"global:{word}".encode()).digest()[:8] for word in words.split())


NO_EXCHANGES: Final = _heads(
    "deposit withdraw stake unstake claim claim_fees claim_rewards harvest collect_fees "
    "collect_reward add_liquidity remove_liquidity add_liquidity_by_strategy "
    "remove_liquidity_by_range increase_liquidity increase_liquidity_v2 decrease_liquidity "
    "decrease_liquidity_v2 open_position open_position_v2 close_position initialize "
    "initialize_pool create_pool migrate migrate_pool borrow repay liquidate "
    "liquidate_obligation redeem redeem_fees lend supply deposit_collateral "
    "withdraw_collateral deposit_reserve_liquidity borrow_obligation_liquidity "
    "repay_obligation_liquidity add_collateral remove_collateral lock unlock vest "
    "cancel_order place_order mint burn airdrop distribute new_claim claim_locked claim_tokens "
    "cancel_all_and_place_orders edit_order modify_order replace_order deposit_and_stake "
    "deposit_and_borrow repay_and_withdraw deposit_stake withdraw_stake operate open_position_v3 "
    "increase_position decrease_position liquidate_position lending_account_liquidate "
    "liquidate_obligation_and_redeem_reserve_collateral "
    "liquidate_obligation_and_redeem_reserve_collateral_v2 "
    "deposit_reserve_liquidity_and_obligation_collateral "
    "repay_and_withdraw_and_redeem flash_borrow_reserve_liquidity flash_repay_reserve_liquidity "
    "liquidate_perp liquidate_spot liquidate_borrow_for_perp_pnl buy_now fulfill_order "
)
"""First bytes of Anchor instructions that exchange nothing, though they may look so by what moved:
a stake that pays out its reward takes one mint and gives another."""
EXCHANGES: Final = _heads(
    "buy sell buy_v2 sell_v2 buy_exact_in buy_exact_out sell_exact_in sell_exact_out buy_token "
    "sell_token buy_tokens sell_tokens swap swap2 swap_v2 swap_in swap_out swap_exact_in "
    "swap_exact_out swap_base_input swap_base_output swap_base_in swap_base_out trade exchange "
)
"""First bytes of Anchor instructions that exchange, if tokens and lamports moved at all."""
NO_EXCHANGE_PROGRAMS: Final = frozenset(
    {
        "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD",  # Kamino Lend
        "So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo",  # Save, once Solend
        "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA",  # marginfi
        "jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi",  # Jupiter Lend, its vaults
        "FarmsPZpWu9i7Kky8tPN37rs2TpmMrAZrC7S7vJa91Hr",  # Kamino farms
        "EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q",  # Raydium farms 3
        "9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z",  # Raydium farms 5
        "FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG",  # Raydium farms 6
    }
)
"""Programs that lend or keep farms: a liquidation, a loan with its collateral and a deposit that
pays its reward take one mint and give another out of one owner's accounts, as an exchange does."""
