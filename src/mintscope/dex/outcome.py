"""Outcomes of decoding, and names of programs.

The first bytes of an Anchor instruction are a hash of its name, so that names suffice.

A route over three pools is three swaps; amounts are what the pool's vaults received and paid.
"""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from mintscope.kit.primitives import Mint, Signature


class RecognisedBy(StrEnum):
    """The method by which a swap was found.

    TABLE       by an instruction of a program that the decoder knows
    TRANSFERS   by the transfers under a program that it does not know
    """

    TABLE = "table"
    TRANSFERS = "transfers"


class Swap(NamedTuple):
    """An exchange in one pool, in raw integer units of the two mints.

    Order   (transaction_index, outer, inner, leg) within a block; inner is -1
            for a top-level instruction, leg counts pools under one instruction
    Side    in_ is the amount that the pool received, out_ the amount that it paid
    program the short name of the table; the address of a program that is not in it
    pool    the address that names the pool, or its two vaults, sorted, with `+` between
    in_left, out_left   raw units of either mint in the vaults of the pool after the transaction;
            None if no balance shows them
    succeeds   the curve that *pool* takes the place of; None for a swap.  Nothing was exchanged:
            in_mint is the mint of the curve
    progress   of a curve, millionths of the way to its pool after it; None if no event shows it
    fee_bps    basis points of the quote that the trader paid; None if no event shows them
    """

    signature: Signature
    transaction_index: int
    outer: int
    inner: int
    leg: int
    program: str
    pool: str
    in_mint: Mint
    in_amount: int
    in_decimals: int | None
    out_mint: Mint
    out_amount: int
    out_decimals: int | None
    signer: str
    recognised_by: RecognisedBy = RecognisedBy.TABLE
    in_left: int | None = None
    out_left: int | None = None
    succeeds: str | None = None
    progress: int | None = None
    fee_bps: int | None = None


class QuoteKind(StrEnum):
    """The value of a unit of the quote: one dollar, one SOL, or the price of another token."""

    USD = "USD"
    SOL = "SOL"
    TOKEN = "TOKEN"  # noqa: S105 - a kind of quote


class Oriented(msgspec.Struct, frozen=True, gc=False):
    """A swap seen from its base, the mint that a price is about: raw amounts and decimals.

    quote     a dollar if there is one, else wrapped SOL, else another token
    is_buy    the base left the pool
    quote_left   raw units of the quote in the vaults of the pool after it; None: not known
    """

    quote_kind: QuoteKind
    base: Mint
    base_amount: int
    base_decimals: int | None
    quote: Mint
    quote_amount: int
    quote_decimals: int | None
    is_buy: bool
    quote_left: int | None = None


class QuarantineReason(StrEnum):
    """The reason why a transaction, or one call of a DEX in it, could not be read."""

    MALFORMED = "malformed"  # not in the form of a transaction
    NO_META = "no_meta"  # the outcome was not recorded
    UNKNOWN_VERSION = "unknown_version"  # newer than we know: its parts may mean something else
    NO_INNER_INSTRUCTIONS = "no_inner_instructions"  # not recorded, so nothing shows what moved
    UNKNOWN_ACCOUNT = "unknown_account"  # an index beyond the accounts of the transaction
    BAD_BASE58 = "bad_base58"
    TRUNCATED_INSTRUCTION = "truncated_instruction"  # fewer bytes or accounts than its layout
    MALFORMED_BATCH = "malformed_batch"  # cut short, or of more accounts than it was given
    TRUNCATED_EVENT = "truncated_event"
    TRUNCATED_LOG = "truncated_log"  # of a program that shows its fills nowhere else
    UNRESOLVED_MINT = "unresolved_mint"  # a transfer whose mint is unknown
    NO_MOVEMENT = "no_movement"  # a swap after which no pool had given one mint for another
    SHARED_LAMPORTS = "shared_lamports"  # several calls took lamports of one pool: how much each?
    UNKNOWN_INSTRUCTION = "unknown_instruction"  # not in the table, and moved one mint for another
    OVERFLOW = "overflow"  # amounts that no mint can supply: more than a u64
    UNKNOWN_EXCHANGE = "unknown_exchange"  # of an unlisted program, in a way not understood
    EVENT_DISAGREES = "event_disagrees"  # the program says other amounts than its transfers
    DECODER_BUG = "decoder_bug"  # the decoder failed at it: the log has a trace


class Moved(NamedTuple):
    """The raw amount of *quote*, SOL or a dollar, that an exchange moved."""

    quote: str
    amount: int


class Quarantined(NamedTuple):
    """One transaction, or one call of *program* in it, that should have given a swap but did not.

    signature   None if not even that could be read
    program     the short name of the table, or the address of a program that is not in it;
                "unknown" if none was reached
    head        of an unknown instruction its first 8 bytes, hex, all if there are fewer; else empty
    moved       if SOL or dollars were exchanged all the same
    mints       of the token accounts that the call names
    """

    signature: Signature | None
    transaction_index: int
    program: str
    reason: QuarantineReason
    head: str = ""
    moved: Moved | None = None
    mints: tuple[Mint, ...] = ()


class Unlisted(NamedTuple):
    """A swap of the program at *address*, which the table does not list.

    head    first 8 bytes of its instruction, hex, all if there are fewer
    """

    signature: Signature
    address: str
    head: str
    moved: Moved | None


class Decoded(NamedTuple):
    """All results of one transaction, or of one block of them, in order.

    unlisted     those of the swaps whose program is not in the table
    migrations   the pools that took the place of curves, see `Swap.succeeds`
    """

    swaps: list[Swap]
    quarantined: list[Quarantined]
    unlisted: list[Unlisted]
    migrations: Sequence[Swap] = ()


class Unreadable(Exception):
    """Ends the reading of one call."""

    def __init__(
        self, reason: QuarantineReason, head: str = "", moved: Moved | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.head = head
        self.moved = moved


def _heads(words: str) -> frozenset[bytes]:
    """Return the first bytes of the Anchor instructions named in *words*, separated by spaces."""
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
