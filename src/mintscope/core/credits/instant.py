"""The credit ledger for those who cannot wait: balances in memory, and debits confirmed later."""

from typing import Protocol, runtime_checkable

import msgspec

from mintscope.base.primitives import CreditAccount
from mintscope.core.credits.ledger import Empty, Spent


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """An account that is in memory; *root* is the first of its chain of rotations."""

    account: CreditAccount
    root: CreditAccount


class DebitWaiter(Protocol):
    """Gets the outcome of a debit once, in the event loop; a future is one.

    Its reaction is short: others of its batch wait for it.
    """

    def done(self) -> bool:
        """Return whether it waits no longer: it has the outcome, or has left."""

    def set_result(self, outcome: Spent | Empty, /) -> None:
        """Report the outcome."""

    def set_exception(self, failure: Exception, /) -> None:
        """Report why there is none."""


@runtime_checkable
class InstantLedger(Protocol):
    """A CreditLedger that need not be awaited for an account it has met before."""

    def recall(self, bearer: bytes) -> Remembered | None:
        """Return the earlier results of `find` and `root` for *bearer*, from memory.

        None where they were not asked lately, or the account was empty when it last spent: a hint
        only, another process may have filled it.
        """

    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        """Take one credit if there is one; *waiter* gets the outcome once that is durable.

        One that has left by then has its credit back.  Raises ServiceUnavailable.
        """
