"""Invariants between the chain, the payments and the credits; checked continuously.

    chain     every payment that landed is issued, and every issued payment has landed permanently
    payments  each purchase has one journal entry, and each entry of a purchase has one purchase
    credits   each balance is the sum of its entries; rotations and freezes cancel out

A violation stops sales, but not spending: credits already bought keep working.

A payment that has landed and is not issued, or is issued and not final, may only be late, so it is
checked again.  It is a violation if this has not changed after three checks and 300 s.  Two kinds
of payments are violations at once: final ones that paid too little; and those without a row and
without a quote of this service, unless an operator has settled them.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import Month

SETTLED_AFTER_MS: Final = 300_000  # a younger payment may still be in progress
DOUBTED_LOOKS: Final = 3  # checks after which such a payment is a violation


class Invariant(StrEnum):
    """The checked invariants; each text begins with the permanent number of a guarantee."""

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
    """A violated invariant; *subject* names a payment, row, month or sum, and holds no secret."""

    invariant: Invariant
    subject: str


class Proven(msgspec.Struct, frozen=True):
    """The violations in one part of the check of all books; *is_finished*: it was the last part."""

    violations: Sequence[Violation]
    is_finished: bool


class Walked(msgspec.Struct, frozen=True):
    """The size of the books, and their last full check.

    entry_count      the number of journal entries since the last closed month, or slightly more
    account_count    the number of credit accounts, or slightly more
    finished_at      the time when the last check finished; None if no check has finished
    closed           the last closed month; None if no month is closed
    """

    entry_count: int
    account_count: int
    finished_at: UnixMs | None
    closed: Month | None


class Checked(msgspec.Struct, frozen=True):
    """The violations found by a check, and the number of the newest journal entry at its start."""

    violations: Sequence[Violation]
    entry_mark: int
