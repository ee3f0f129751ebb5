"""Results of decoding: swaps, and unread transactions by reason."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from mintscope.base.primitives import Mint, Signature
from mintscope.core.market.swap import Swap


class QuarantineReason(StrEnum):
    """Why a transaction, or one call of a DEX in it, could not be read."""

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
    """How much of *quote*, SOL or a dollar, an exchange moved; raw units."""

    quote: str
    amount: int


class Quarantined(NamedTuple):
    """One transaction, or one call of *program* in it, that gave no swap and should have.

    signature   None where not even that could be read
    program     the short name of the table, or the address of a program that is not in it;
                "unknown" where none was reached
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
    """Everything one transaction, or one block of them, gave, in order.

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
