"""The credit ledger: an append-only journal and the balances it implies.

A balance is the sum of its account's entries and never negative; only the
ledger itself decides a spend, in one statement.  Accounts never disappear.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from mintscope.base.credentials import CreditToken
from mintscope.base.primitives import CreditAccount, UnixMs

STATEMENT_LINES: Final = 100
STATEMENT_DAYS: Final = 30
ACCOUNTS_A_PAGE: Final = 200
FIRST: Final = CreditAccount(0)  # before every account


class Spent(msgspec.Struct, frozen=True, gc=False):
    """One credit was taken, durably; *balance* is what remained, >= 0."""

    balance: int


class Empty(msgspec.Struct, frozen=True, gc=False):
    """The account holds no credit; nothing was taken."""


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """Something that moved a balance, and what the balance was then."""

    kind: str
    delta: int
    balance: int
    at: UnixMs


class DayUse(msgspec.Struct, frozen=True, gc=False):
    """Credits that requests took on one day, in UTC, less what was given back.

    day    since 1970-01-01
    """

    day: int
    credits: int


class Statement(msgspec.Struct, frozen=True, gc=False):
    """Where the credits of an account came from and went, as of one moment.

    spent      in all, in requests; what was given back counts as an entry
    entries    the newest STATEMENT_LINES that were no spends, newest first
    days       the newest STATEMENT_DAYS on which something was spent, newest first
    """

    balance: int
    spent: int
    entries: Sequence[LedgerEntry]
    days: Sequence[DayUse] = ()


class CreditLedger(Protocol):
    """The ledger as the API uses it; each verb is atomic.

    Raises ServiceUnavailable from every verb when the store does not answer;
    nothing has been taken then, or it is given back by a reversal.
    """

    async def issue(self, token: CreditToken, credit_count: int, note: str) -> CreditAccount:
        """Open the account of *token* with a grant of *credit_count* (>= 1)."""

    async def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*, None if there is none.

        A credit token that was rotated has none any more.

        Any text may be asked for: malformed, mistyped and unknown ones go the
        same way, in the same time.
        """

    async def root(self, account: CreditAccount) -> CreditAccount:
        """Return the first account of the chain of rotations that *account* came from."""

    async def spend(self, account: CreditAccount) -> Spent | Empty:
        """Take one credit if there is one; return once that is durable."""

    async def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""

    async def statement(self, account: CreditAccount) -> Statement:
        """Return where the credits came from and went."""

    async def expect_writable(self) -> None:
        """Write something durably, or raise ServiceUnavailable."""


class AccountLine(msgspec.Struct, frozen=True):
    """The facts of an account for operators; *credit_count* it was given in all."""

    account: CreditAccount
    hint: str
    note: str
    issued_at: UnixMs
    credit_count: int
    balance: int


class KindLine(msgspec.Struct, frozen=True):
    """All entries of one kind of an account."""

    kind: str
    delta: int
    first_at: UnixMs
    last_at: UnixMs


class CreditAccounts(Protocol):
    """The accounts as an operator looks at them.

    Raises ServiceUnavailable from every verb when the store does not answer.
    """

    async def page(
        self, *, after: CreditAccount = FIRST, limit: int = ACCOUNTS_A_PAGE
    ) -> Sequence[AccountLine]:
        """Return up to *limit* accounts that follow the account *after*, oldest first."""

    async def ending_in(
        self, ending: str, *, after: CreditAccount = FIRST, limit: int = ACCOUNTS_A_PAGE
    ) -> Sequence[AccountLine]:
        """Return up to *limit* accounts after *after* whose credit token ends in *ending*.

        The oldest is first.
        """

    async def summary(self, account: CreditAccount) -> Sequence[KindLine]:
        """Return the sums of the entries of *account* by kind, spends last.

        Spends that are added up by day have the day alone.
        """

    async def contradictions(self) -> Sequence[CreditAccount]:
        """Return the accounts whose balance contradicts their entries since the last close."""
