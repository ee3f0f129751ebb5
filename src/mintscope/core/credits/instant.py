"""The credit ledger for those who cannot wait: what it has in memory, and debits told later."""

from typing import Protocol, runtime_checkable

import msgspec

from mintscope.base.primitives import CreditAccount
from mintscope.core.credits.ledger import Empty, Spent


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """An account that is in memory; *root* is the first of its chain of rotations."""

    account: CreditAccount
    root: CreditAccount


class DebitWaiter(Protocol):
    """Is told once, in the event loop, what became of a debit; a future is one.

    What it does then is short: others of its batch are told after it.
    """

    def done(self) -> bool:
        """Say whether it waits no longer: it was told, or it has left."""

    def set_result(self, outcome: Spent | Empty, /) -> None:
        """Tell it the outcome."""

    def set_exception(self, failure: Exception, /) -> None:
        """Tell it why there is none."""


@runtime_checkable
class InstantLedger(Protocol):
    """A CreditLedger that need not be awaited for an account it has met before."""

    def recall(self, bearer: bytes) -> Remembered | None:
        """Return what `find` and `root` told of *bearer* before, from memory.

        None where they were not asked lately, or the account was empty when it last spent: a hint
        only, another process may have filled it.
        """

    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        """Take one credit if there is one; *waiter* is told once that is durable.

        One that has left by then has its credit back.  Raises ServiceUnavailable.
        """
