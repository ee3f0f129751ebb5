"""Invariants between the chain, the payments and the credits; checked continuously.

    chain     every payment that landed is issued, and every issued payment has landed permanently
    payments  each purchase has one journal entry, and each such entry one purchase
    credits   each balance is the sum of its entries; rotations and freezes cancel out

A violation stops sales, never spending: credits already bought keep working.

A late entry is no violation.  A payment on which chain and books disagree is a doubt, and is
checked again.  A doubt that three checks and 300 s have not settled is a violation.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import Month

SETTLED_AFTER_MS: Final = 300_000  # a payment that is younger may still be on its way
DOUBTED_LOOKS: Final = 3


class Invariant(StrEnum):
    """Invariants, numbered as in the threat model; I3, I4, I7 and I8 are not checked here."""

    LANDED_IS_ISSUED = "I1: a payment landed and is not issued"
    LANDED_IS_KNOWN = "I6: a payment that we signed landed and has no row"
    ISSUED_IS_FINAL = "I1: a payment was issued and does not become final"
    ISSUED_IS_ENTERED = "I1: a purchase was issued and the journal does not say so"
    ENTRY_IS_PAID = "I1: the journal holds a purchase that no payment made"
    PAID_IS_ENOUGH = "I9: a payment was issued for less than its price"
    BALANCE_IS_SUM = "I2: a balance is not the sum of its entries"
    KEYS_ADD_UP = "I2: what an API key has spent in a month is not what the journal says"
    MOVES_CANCEL = "I2: credits that a user moved are not what the journal says"
    ROTATIONS_CANCEL = "I2: rotations have made or lost credits"
    FREEZES_CANCEL = "I2: what was frozen is not what the payments say"
    MONTHS_ARE_CHAINED = "I2: a closed month has changed since it was closed"


class Violation(msgspec.Struct, frozen=True):
    """One contradiction; *subject* names the row, never a secret."""

    invariant: Invariant
    subject: str


class Proven(msgspec.Struct, frozen=True):
    """The violations in one part of a walk through all books; *is_finished* is set for the last."""

    violations: Sequence[Violation]
    is_finished: bool


class Walked(msgspec.Struct, frozen=True):
    """Progress of the walk through all books.

    entry_count      entries of the journal since the last close
    account_count    all accounts
    finished_at      the end of the last walk; None: none has finished
    closed           the month that was closed last; None: none is closed
    """

    entry_count: int
    account_count: int
    finished_at: UnixMs | None
    closed: Month | None


class Checked(msgspec.Struct, frozen=True):
    """The violations found by a check of the books, and the last entry that it checked."""

    violations: Sequence[Violation]
    entry_mark: int
