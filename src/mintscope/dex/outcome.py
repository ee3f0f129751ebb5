"""The results of decoding, and lists of instructions and programs that do or do not exchange.

A route over three pools is three swaps.  The amounts of a swap are those that the vaults of its
pool received and paid.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Signature


class RecognisedBy(StrEnum):
    """The method by which a swap was found."""

    TABLE = "table"  # by an instruction of a program in the table
    TRANSFERS = "transfers"  # by the transfers below a program that is not in the table


BY_TABLE: Final = RecognisedBy.TABLE  # reading the attribute takes ten times as long


class Swap(NamedTuple):
    """An exchange in one pool, or the migration of a curve to a pool; amounts are raw units.

    Swaps of a block are in the order of (transaction_index, outer, inner, leg).

    outer               the position of the top-level instruction
    inner               the position of the call below *outer*; -1 if the call is *outer* itself
    leg                 the number of the swap in its call, from 0; some numbers may be missing
    program             the name in the table, or the address of a program that is not in it
    in_mint, out_mint   the mint that the pool received, and the mint that it paid
    in_left, out_left   raw units of each mint that the pool has after the transaction, or, if an
                        event shows them, after the swap, including the virtual reserve of some
                        curves; None if unknown
    succeeds            for a migration, the curve that *pool* replaces; None for an exchange.  A
                        migration exchanges nothing, and its in_mint is the mint of the curve
    """

    signature: Signature
    transaction_index: int
    outer: int
    inner: int
    leg: int
    program: str
    pool: str  # an address, or two vaults (or one and its owner), sorted and joined by `+`
    in_mint: Mint
    in_amount: int
    in_decimals: int | None
    out_mint: Mint
    out_amount: int
    out_decimals: int | None
    signer: str  # the signer that traded, or the fee payer if none did
    recognised_by: RecognisedBy = RecognisedBy.TABLE
    in_left: int | None = None
    out_left: int | None = None
    succeeds: str | None = None
    progress: int | None = None  # of the curve after the swap, in millionths; None if unknown
    fee_bps: int | None = None  # paid by the trader, in basis points of the quote; None if unknown


new_swap: Final[Callable[[tuple[Any, ...]], Swap]] = partial(tuple.__new__, Swap)
"""Return the swap of a tuple of all its fields, in half the time that `Swap(...)` takes."""


class QuoteKind(StrEnum):
    """The kind of a swap's quote: a dollar token, wrapped SOL, or another token with a price."""

    USD = "USD"
    SOL = "SOL"
    TOKEN = "TOKEN"  # noqa: S105 - a kind of quote


class Oriented(msgspec.Struct, frozen=True, gc=False):
    """A swap of a base, the mint that is priced, against its quote; amounts are raw units."""

    quote_kind: QuoteKind
    base: Mint
    base_amount: int
    base_decimals: int | None
    quote: Mint  # the dollar token of the swap, else wrapped SOL, else another token
    quote_amount: int
    quote_decimals: int | None
    is_buy: bool  # whether the base left the pool
    quote_left: int | None = None  # raw units that the pool has, see `Swap`; None if unknown


class QuarantineReason(StrEnum):
    """The reason why a transaction, or one call of a DEX in it, could not be read."""

    MALFORMED = "malformed"  # the transaction, or a part of it, does not have the expected form
    NO_META = "no_meta"  # the outcome of the transaction was not recorded
    UNKNOWN_VERSION = "unknown_version"  # a newer version, whose layout may differ
    NO_INNER_INSTRUCTIONS = "no_inner_instructions"  # the transaction was recorded without them
    UNKNOWN_ACCOUNT = "unknown_account"  # an index beyond the accounts of the transaction
    BAD_BASE58 = "bad_base58"
    TRUNCATED_INSTRUCTION = "truncated_instruction"  # fewer bytes or accounts than its layout has
    MALFORMED_BATCH = "malformed_batch"  # cut short, too long, or without enough accounts
    TRUNCATED_EVENT = "truncated_event"
    TRUNCATED_LOG = "truncated_log"  # the log is incomplete, and only it shows the fills
    UNRESOLVED_MINT = "unresolved_mint"  # a mint that is unknown, or is not a valid address
    NO_MOVEMENT = "no_movement"  # a swap in which no pool exchanged two mints
    SHARED_LAMPORTS = "shared_lamports"  # another call may have changed the pool's lamports
    UNKNOWN_INSTRUCTION = "unknown_instruction"  # an unlisted instruction that exchanged two mints
    OVERFLOW = "overflow"  # amounts beyond a u64
    UNKNOWN_EXCHANGE = "unknown_exchange"  # an exchange whose pool or amounts cannot be read
    EVENT_DISAGREES = "event_disagrees"  # the event of the call differs from transfers or accounts
    DECODER_BUG = "decoder_bug"  # the decoder failed; the log has the traceback


class Moved(NamedTuple):
    """The amount that an exchange moved, in the smallest unit of *quote*: SOL or a dollar token."""

    quote: str
    amount: int


class Quarantined(NamedTuple):
    """One transaction, or one call of *program* in it, that could not be read."""

    signature: Signature | None  # None if unknown
    transaction_index: int
    program: str  # as in `Swap`; "unknown" if the error came before any program
    reason: QuarantineReason
    head: str = ""  # first 8 bytes of the instruction, in hex, if it or its exchange is unknown
    moved: Moved | None = None  # the SOL or dollars that the call exchanged; None if unknown
    mints: tuple[Mint, ...] = ()  # the mints of token accounts that the call names, at most 8


class Unlisted(NamedTuple):
    """A swap of the program at *address*, which is not in the list of DEX programs."""

    signature: Signature
    address: str
    head: str  # the first 8 bytes of its instruction, in hex
    moved: Moved | None  # the SOL or dollars that were exchanged; None if neither was


class Decoded(NamedTuple):
    """The swaps of a transaction or a block, in order, and its unread transactions and calls."""

    swaps: list[Swap]
    quarantined: list[Quarantined]
    unlisted: list[Unlisted]  # an entry for each of the swaps whose program is not in the table
    migrations: Sequence[Swap] = ()  # migrations from curves to pools, see `Swap.succeeds`


class Unreadable(Exception):
    """Raised if a call or a transaction cannot be read; see `Quarantined` for the fields."""

    def __init__(
        self, reason: QuarantineReason, head: str = "", moved: Moved | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.head = head
        self.moved = moved


def _heads(words: str) -> frozenset[bytes]:
    """Return the discriminators of the Anchor instructions in *words*, split at spaces."""
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
    "flashloan liquidate_perp liquidate_spot liquidate_borrow_for_perp_pnl buy_now fulfill_order "
)
"""First bytes of Anchor instructions that do not exchange, though their transfers may look like it:
a stake that pays out a reward takes one mint and gives another."""
EXCHANGES: Final = _heads(
    "buy sell buy_v2 sell_v2 buy_exact_in buy_exact_out sell_exact_in sell_exact_out buy_token "
    "sell_token buy_tokens sell_tokens swap swap2 swap_v2 swap_in swap_out swap_exact_in "
    "swap_exact_out swap_base_input swap_base_output swap_base_in swap_base_out trade exchange "
)
"""First bytes of Anchor instructions named like exchanges; few lamports may be their payment."""
NO_EXCHANGE_PROGRAMS: Final = frozenset(
    {
        "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD",  # Kamino Lend
        "So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo",  # Save, once Solend
        "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA",  # marginfi
        "jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi",  # the vaults of Jupiter Lend
        "FarmsPZpWu9i7Kky8tPN37rs2TpmMrAZrC7S7vJa91Hr",  # Kamino farms
        "EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q",  # Raydium farms 3
        "9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z",  # Raydium farms 5
        "FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG",  # Raydium farms 6
    }
)
"""Lenders and farms: a liquidation, a loan with its collateral and a deposit that pays a reward
take one mint and give another from accounts of one owner, like an exchange."""
