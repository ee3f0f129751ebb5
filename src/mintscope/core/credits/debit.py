"""Debits of several credits, and those of API keys: all or nothing."""

from typing import Final, Protocol, runtime_checkable

import msgspec

from mintscope.base.primitives import CreditAccount
from mintscope.base.time import Month

KEPT_MS: Final = 10 * 60_000  # for how long an answer that was paid for is given again


class Debit(msgspec.Struct, frozen=True, gc=False):
    """*credit_count* credits of *account*, >= 1, spent by the API key of id *key*.

    once    the name of the answer that they buy, of this account: while it is kept, KEPT_MS, no
            more credits are taken for it; None: it has none
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    once: str | None = None


class Reversal(msgspec.Struct, frozen=True, gc=False):
    """Credits to give back; those of an API key count less in the month they were taken in.

    minute    the number of the minute they were taken for in advance: they are given back only
              while it is under way in the store, and so once
    once      the name of the answer they were taken for, which is not kept any longer
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    month: Month | None = None
    minute: int | None = None
    once: str | None = None


class Debited(msgspec.Struct, frozen=True, gc=False):
    """All credits of *debit* were taken, durably, in *month*; *balance* remained then, >= 0.

    minute      the number of the minute that is under way in the store; None: they were taken for
                what is sent at once
    is_repeat   none were taken now: the answer of this name was paid for before
    """

    debit: Debit
    balance: int
    month: Month
    minute: int | None = None
    is_repeat: bool = False

    def reversal(self, credit_count: int | None = None) -> Reversal:
        """Return what gives *credit_count* of them back, by default all."""
        taken = self.debit
        count = credit_count
        if count is None:
            count = taken.credit_count
        assert 1 <= count <= taken.credit_count
        assert not self.is_repeat
        month = None if taken.key is None else self.month
        return Reversal(taken.account, count, taken.key, month, self.minute, taken.once)


class TooFew(msgspec.Struct, frozen=True, gc=False):
    """The account holds *balance* credits, fewer than were asked for; nothing was taken."""

    balance: int


class CapReached(msgspec.Struct, frozen=True, gc=False):
    """So many would exceed what the API key may spend in *month*; nothing was taken."""

    month: Month


DebitOutcome = Debited | TooFew | CapReached


@runtime_checkable
class DebitLedger(Protocol):
    """The ledger for those who take several credits at once, or for an API key.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def debit(self, debit: Debit) -> DebitOutcome:
        """Take all credits of *debit* or none; return once that is durable.

        One that has left by then has them back, also those of a process that died.
        """

    async def prepay(self, debit: Debit) -> DebitOutcome:
        """Do what `debit` does, for a minute of a stream that begins.

        The same commit notes that it is under way. Debits that a dead process has noted are given
        back by the next one, or by another, so that nothing is taken of which nothing was sent.
        """

    def note_sent(self, debited: Debited) -> None:
        """Note that something was sent of the minute *debited*, or that it is over.

        A later commit keeps it: until then the minute is given back if this process dies.
        """

    async def give_back(self, debited: Debited, credit_count: int) -> None:
        """Give back *credit_count* of what was taken, once for each; return once it is durable.

        Where the store does not answer they stay owed, and are given back as soon as it does.
        """

    def owe(self, reversal: Reversal) -> None:
        """Give back what *reversal* says, with a later commit: its answer could not be sent."""
