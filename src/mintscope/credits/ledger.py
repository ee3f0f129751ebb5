"""Credit ledger: its ports, and the records of debits and accounts.

A balance is the sum of all entries of its account, including spends that were deleted later, and is
never negative.  Only the ledger decides whether the balance covers a spend, in the statement that
takes the credits.  Accounts are never deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from mintscope.kit.credentials import CreditToken
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.time import Month

# Journal entries and sums of usage are stored with these numbers: never change or reuse one.
NUMBERS: Final[Mapping[str, int]] = {
    "GET /v1/token/{tokenAddress}": 1,
    "POST /v1/tokens/batch": 2,
    "GET /v1/token/{tokenAddress}/candles": 3,
    "GET /v1/token/{tokenAddress}/indicators": 4,
    "GET /v1/token/{tokenAddress}/swaps": 5,
    "GET /v1/token/{tokenAddress}/traders": 6,
    "GET /v1/token/{tokenAddress}/pools": 7,
    "GET /v1/token/{tokenAddress}/backtest": 8,
    "POST /v1/backtest": 9,
    "POST /v1/prices": 10,
    "GET /v1/screen": 11,
    "POST /v1/screen": 12,
    "GET /v1/udf/history": 13,
    "GET /v1/stream": 14,
    "GET /v1/token/{tokenAddress}/holders": 15,
}
NAMES: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}


STATEMENT_LINES: Final = 100
STATEMENT_DAYS: Final = 30
ACCOUNTS_A_PAGE: Final = 200
FIRST: Final = CreditAccount(0)  # less than the id of every account


# gc=False, here and below: these records are never part of a cycle, so the garbage collector need
# not track them.
class Spent(msgspec.Struct, frozen=True, gc=False):
    """One credit was taken durably; *balance* is the balance afterwards, >= 0."""

    balance: int


class Empty(msgspec.Struct, frozen=True, gc=False):
    """The account has no credits; nothing was taken."""


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """A change of an account's credit balance by *delta*; *balance* is the balance after it."""

    kind: str
    delta: int
    balance: int
    at: UnixMs


class DayUse(msgspec.Struct, frozen=True, gc=False):
    """The credits that requests took on one day, less those given back on that day.

    day    the number of UTC days since 1970-01-01
    """

    day: int
    credits: int


class Statement(msgspec.Struct, frozen=True, gc=False):
    """The balance, the spent credits and the newest entries of an account, read at one moment.

    spent      all credits spent on requests, including credits that were given back; the latter are
               also in *entries*, as reversals
    entries    the newest STATEMENT_LINES entries other than spends, newest first
    days       the newest STATEMENT_DAYS days with spends or reversals, newest first
    """

    balance: int
    spent: int
    entries: Sequence[LedgerEntry]
    days: Sequence[DayUse] = ()


class CreditLedger(Protocol):
    """The methods of the ledger that the API uses; each is atomic.

    Every method raises ServiceUnavailable if the store does not answer, or if too many
    requests wait.  In this case no credits were taken, or a reversal gives them back.
    """

    async def issue(self, token: CreditToken, credit_count: int, note: str) -> CreditAccount:
        """Create an account with *credit_count* credits, >= 1, that *token* can spend."""

    async def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*.

        Return None if the token is unknown, or if its credits were moved to a new token.
        Malformed, mistyped and unknown tokens take the same time, so that the time reveals nothing.
        """

    async def root(self, account: CreditAccount) -> CreditAccount:
        """Return the oldest account from which the credits of *account* were moved by rotations.

        Return *account* itself if there was no rotation.
        """

    async def spend(self, account: CreditAccount) -> Spent | Empty:
        """Take one credit if there is one; return when the debit is durable."""

    async def balance(self, account: CreditAccount) -> int:
        """Return the credits that the account has."""

    async def statement(self, account: CreditAccount) -> Statement:
        """Return the balance, the spent credits and the newest entries of *account*."""

    async def expect_writable(self) -> None:
        """Test whether the store can write durably; raise ServiceUnavailable if it cannot."""


class AccountLine(msgspec.Struct, frozen=True):
    """A credit account, as operators see it.

    hint           the last eight characters of the credit token
    credit_count   the sum of the account's entries other than spends; None while too many entries
                   of the journal are not yet added up
    """

    account: CreditAccount
    hint: str
    note: str
    issued_at: UnixMs
    credit_count: int | None
    balance: int


class KindLine(msgspec.Struct, frozen=True):
    """The sum of the entries of one kind in one account, and the times of the first and last one.

    For spends, the times may be the starts of the UTC days.
    """

    kind: str
    delta: int
    first_at: UnixMs
    last_at: UnixMs


# The time for which a paid answer can be requested again free of charge.
KEPT_MS: Final = 10 * 60_000


class Debit(msgspec.Struct, frozen=True, gc=False):
    """A request to take *credit_count* credits, >= 1, from *account*.

    key       the id of the API key that spends the credits; None: no key is used
    once      the name of the answer that the credits buy, unique in the store; for KEPT_MS a
              debit with the same name takes no credits; None: the answer has no name
    endpoint  the number of the endpoint in NUMBERS; None: the endpoint has no number
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    once: str | None = None
    endpoint: int | None = None


class Reversal(msgspec.Struct, frozen=True, gc=False):
    """Credits to give back to *account*, or a repeated debit to undo.

    credit_count  0: a debit was repeated, which took no credits
    key       the id of the API key that spent the credits; None: no key was used
    month     the month in which the spending of *key* is reduced; None if *key* is None
    minute    the number of the stream minute that the credits paid for in advance; None: they paid
              for an answer.  They are given back only while the minute is stored, so at most once
    once      the name of the answer that the credits bought; None: it had no name.  The credits are
              given back, and the name is deleted, once the debit and all its repeats are undone;
              nothing is given back if the name is no longer stored
    endpoint  the number of the endpoint of the debit; None: the endpoint has no number
    at        the time of the debit; of a repeat, the time of the purchase, or the latest possible
              one.  None only if *once* is None
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    month: Month | None = None
    minute: int | None = None
    once: str | None = None
    endpoint: int | None = None
    at: UnixMs | None = None

    @property
    def is_of_repeat(self) -> bool:
        """Return whether this undoes a repeated debit, which took no credits."""
        return self.credit_count == 0


class Debited(msgspec.Struct, frozen=True, gc=False):
    """All credits of *debit* were taken durably in *month*, or earlier if *is_repeat*.

    balance     the balance afterwards, >= 0
    at          the time at which they were taken, or the latest possible one if *is_repeat*
    minute      the number of the stream minute that the credits paid for in advance; None: they
                paid for an answer that is sent at once
    is_repeat   True: no credits were taken, because an answer of this name was already paid for
    """

    debit: Debit
    balance: int
    month: Month
    at: UnixMs
    minute: int | None = None
    is_repeat: bool = False

    def reversal(self, credit_count: int | None = None) -> Reversal:
        """Return the reversal of *credit_count* of the debited credits; None: of all."""
        taken = self.debit
        if self.is_repeat:
            assert credit_count is None
            return Reversal(taken.account, 0, once=taken.once, at=self.at)
        count = credit_count
        if count is None:
            count = taken.credit_count
        assert 1 <= count <= taken.credit_count
        month = None if taken.key is None else self.month
        return Reversal(
            taken.account, count, taken.key, month, self.minute, taken.once, taken.endpoint, self.at
        )


class TooFew(msgspec.Struct, frozen=True, gc=False):
    """The account has *balance* credits, fewer than requested; nothing was taken."""

    balance: int


class CapReached(msgspec.Struct, frozen=True, gc=False):
    """The debit would exceed the API key's spending cap in *month*; nothing was taken."""

    month: Month


DebitOutcome = Debited | TooFew | CapReached


@runtime_checkable
class DebitLedger(Protocol):
    """The ledger for callers that take several credits at once, or spend with an API key.

    Every coroutine raises ServiceUnavailable if the store does not answer, or if too many requests
    wait.
    """

    async def debit(self, debit: Debit) -> DebitOutcome:
        """Take all credits of *debit* or none; return when the debit is durable.

        If the caller is cancelled before that, its credits are given back; with PostgreSQL,
        even if this process dies.
        """

    async def expect_cap(self, key: int, credit_count: int) -> CapReached | None:
        """Return CapReached if *credit_count* more credits exceed the cap of *key*; else None.

        The cap limits the credits that *key*, the keys that it replaced and those that replaced it
        spend in a calendar month.
        """

    async def is_bought(self, once: str) -> bool:
        """Return whether the answer *once* was paid for, so that its debit would take nothing."""

    async def prepay(self, debit: Debit) -> DebitOutcome:
        """Take all credits of *debit* or none, for a new minute of a stream.

        The same commit stores the minute.  If this process dies before it has sent a part of the
        minute, another process gives the credits back.
        """

    def note_sent(self, debited: Debited) -> None:
        """Record that a part of the stream minute of *debited* was sent, or that it has ended.

        A later commit stores this.  If this process dies before that commit, the credits are given
        back.
        """

    async def give_back(self, debited: Debited, credit_count: int) -> None:
        """Give back *credit_count* of the debited credits; return when the reversal is durable.

        If the store does not answer, the credits are given back as soon as it answers.
        """

    def owe(self, reversal: Reversal) -> None:
        """Give back the credits of *reversal* soon: the answer that they paid for was not sent."""


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A cached credit account.

    root   the oldest account from which its credits were moved by rotations, or *account* itself
    """

    account: CreditAccount
    root: CreditAccount


class DebitWaiter(Protocol):
    """Receives the outcome of a debit once, in the event loop; an asyncio future can be one.

    The methods must return quickly, because other debits of the batch wait for them.
    """

    def done(self) -> bool:
        """Return whether the waiter has its outcome, or was cancelled."""

    def set_result(self, outcome: Spent | Empty, /) -> None:
        """Pass on the outcome of the debit."""

    def set_exception(self, failure: Exception, /) -> None:
        """Pass on the error because of which the debit has no outcome."""


@runtime_checkable
class InstantLedger(Protocol):
    """The methods that take a credit without a coroutine, for the fast path of the API.

    `recall` reads only memory.
    """

    def recall(self, bearer: bytes) -> Remembered | None:
        """Return the account of the credit token *bearer* from the cache; None if it is not cached.

        Also return None if the last spend of a single credit left the account empty, or found it
        empty: credits may have been added since then, so ask the store, with `find` and `spend`.
        """

    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        """Take one credit if there is one; *waiter* gets the outcome when the debit is durable.

        If the waiter is cancelled before that, its credit is given back.  Raises ServiceUnavailable
        if too many requests wait; *waiter* gets this error if the store does not answer.
        """
