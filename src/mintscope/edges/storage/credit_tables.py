"""Reads and writes of the ledger on the credit tables of an engine."""

from collections.abc import Sequence
from typing import Protocol

from mintscope.base.credentials import CreditToken
from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.core.credits.debit import Debit, DebitOutcome, Reversal
from mintscope.core.credits.ledger import AccountLine, Empty, KindLine, Spent, Statement


class ReadsCredits(Protocol):
    """Reads the credit tables; raises the errors of its engine."""

    def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*."""

    def root(self, account: CreditAccount) -> CreditAccount:
        """Return the first account of the chain of rotations that *account* came from."""

    def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""

    def statement(self, account: CreditAccount) -> Statement:
        """Return where the credits of *account* came from and went, as of one moment."""

    def close(self) -> None:
        """Let go of the connection."""


class ListsCredits(Protocol):
    """Lists all credit accounts; raises the errors of its engine."""

    def page(self, after: int, limit: int) -> list[AccountLine]:
        """Return up to *limit* accounts that follow the account *after*, oldest first."""

    def ending_in(self, ending: str, after: int, limit: int) -> list[AccountLine]:
        """Return up to *limit* accounts after *after* whose credit token ends in *ending*."""

    def summary(self, account: CreditAccount) -> list[KindLine]:
        """Return the sums of the entries of *account* by kind, spends last."""

    def contradictions(self) -> list[CreditAccount]:
        """Return the accounts whose balance contradicts their entries since the last close."""

    def close(self) -> None:
        """Let go of the connection."""


class WritesCredits(Protocol):
    """Writes the credit tables, from one thread."""

    def issue(
        self, token: CreditToken, credit_count: int, *, note: str, at: UnixMs
    ) -> CreditAccount:
        """Open the account of *token* with a grant of *credit_count*."""

    def expect_writable(self) -> None:
        """Write something durably, or raise."""

    def close(self) -> None:
        """Let go of the connection."""


class TakesCredits(Protocol):
    """Takes credits in batches, and gives them back, from the same thread."""

    def spend(self, accounts: Sequence[CreditAccount], at: UnixMs) -> list[Spent | Empty]:
        """Take one credit for each of *accounts*, first come first served, in one commit."""

    def debit(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Take all credits of each or none, first come first served, in one commit.

        All of them have a name, `once`, or none has: nothing is taken for an answer that is kept.
        """

    def prepay(self, debits: Sequence[Debit], at: UnixMs) -> list[DebitOutcome]:
        """Do what `debit` does, and note the minutes that begin, in the same commit."""

    def note_sent(self, minutes: Sequence[int]) -> None:
        """Note that *minutes* are under way no more, with a later commit."""

    def give_back(self, reversals: Sequence[Reversal], at: UnixMs) -> None:
        """Give back what each says; what was taken for a minute only while it is under way."""

    def note_answered(self, batch_count: int) -> None:
        """Note that the requests of the first *batch_count* batches were answered."""

    def rest(self, at: UnixMs) -> None:
        """Do what can wait, while no request waits."""
